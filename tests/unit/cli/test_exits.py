"""Which exit code means what."""

from __future__ import annotations

import pytest

from ekiden.cli.errors import (
    BadInput,
    Exit,
    Interrupted,
    NobodyCapable,
    NoRecord,
    NoSessions,
    UsageError,
    exit_for_error,
    exit_for_outcome,
)
from ekiden.client.errors import error_of
from ekiden.core import errors
from ekiden.core.errors.server import NotServed, RequestInvalid, RequestTooLarge, ServerExposed
from ekiden.core.runs import Done, Failed, Outcome, OutOfBudget, Refused, Waiting
from tests.support.cases import each_case


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Done("yes"), 0),
        (Failed("model.failed", "down"), 1),
        (Refused("no"), 1),
        (OutOfBudget("turns", 10, 10), 3),
        (Waiting("an approval"), 4),
    ],
)
def test_an_outcome_has_its_exit_code(outcome: Outcome, code: int) -> None:
    assert exit_for_outcome(outcome) == code


@each_case(
    ("error", "code"),
    [
        (errors.UserError("wrong"), 2),
        (UsageError("wrong"), 2),
        (BadInput("wrong"), 2),
        (errors.SessionNotFound("s"), 5),
        (NoSessions(), 5),
        (NobodyCapable("nobody"), 5),
        (NoRecord("s/1"), 5),
        (errors.UnknownAgent("a", known=["b"]), 5),
        (errors.SessionBusy("s", owner="o", free_in_s=1), 6),
        (errors.LeaseLost("s"), 6),
        (errors.StoreUnavailable("gone"), 7),
        (errors.StoreTooNew("here", found=9, known=1), 7),
        (errors.EngineTooOld("SQLite", found="1", needed="2", advice="upgrade"), 7),
        (errors.ModelError("down"), 1),
        (errors.ToolError("broken"), 1),
        (RequestInvalid("wrong"), 2),
        (RequestTooLarge(10), 2),
        (NotServed("Not Found"), 2),
        (error_of(404, {"code": NotServed.code, "detail": "Not Found"}), 2),
        (error_of(413, {"code": RequestTooLarge.code, "detail": "too long"}), 2),
        (ServerExposed("0.0.0.0"), 2),
        (Interrupted("stopped"), 130),
    ],
)
def test_an_error_has_its_exit_code(error: errors.EkidenError, code: int) -> None:
    assert exit_for_error(error) == code


def test_every_exit_code_has_a_meaning() -> None:
    assert all(code.meaning for code in Exit)
