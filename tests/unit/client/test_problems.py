"""What the server says is wrong, as exceptions."""

from __future__ import annotations

from ekiden.client.errors import ServerProblem, error_of
from ekiden.core.errors import (
    EkidenError,
    HandoffRefused,
    SessionBusy,
    SessionNotFound,
    UnknownAgent,
)
from ekiden.core.errors.memory import MemoryNotFound
from ekiden.core.errors.messages import InboxItemClosed, InboxItemNotFound
from ekiden.core.errors.server import Forbidden, RunNotFound, ServerStopping, TooManyRequests
from ekiden.core.values import loads
from ekiden.server.problems import response_of
from tests.support.cases import each_case

ERRORS: list[EkidenError] = [
    SessionNotFound("s1"),
    SessionBusy("s1", owner="w", free_in_s=3),
    UnknownAgent("x", known=["a"]),
    HandoffRefused("CIRCULAR_HANDOFF", "in a circle"),
    InboxItemNotFound("i"),
    InboxItemClosed("i", status="answered", by="ann"),
    MemoryNotFound("k"),
    Forbidden("admin"),
    RunNotFound("a:1"),
    TooManyRequests("too fast", retry_after_s=3),
    ServerStopping(),
]


@each_case("error", ERRORS, ids=lambda each: each.code)
def test_an_error_is_restored_to_its_class(error: EkidenError) -> None:
    response = response_of(error)
    found = error_of(response.status_code, loads(bytes(response.body)))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.code == error.code
    for name in vars(error):
        assert hasattr(found, name), name


def test_the_fields_of_an_error_are_restored() -> None:
    response = response_of(InboxItemClosed("i", status="answered", by="ann"))
    found = error_of(409, loads(bytes(response.body)))
    assert isinstance(found, InboxItemClosed)
    assert (found.status, found.by) == ("answered", "ann")


def test_an_unknown_error_code_is_kept() -> None:
    found = error_of(418, {"code": "tea.pot", "detail": "short and stout", "colour": "red"})
    assert isinstance(found, ServerProblem)
    assert (found.code, found.status, str(found)) == ("tea.pot", 418, "short and stout")
    assert found.facts == {"colour": "red"}


@each_case("body", [None, "words", [], {}, {"code": 7}, {"detail": "Not Found"}])
def test_an_error_body_of_another_format_is_a_server_problem(body: object) -> None:
    found = error_of(404, body)
    assert isinstance(found, ServerProblem)
    assert found.status == 404


@each_case("code", ["\x1b[2J", "a b", "A.b", "a\nerror[x]: y", "x" * 81, "", "größe", "a.b\n"])
def test_a_malformed_error_code_is_replaced(code: str) -> None:
    found = error_of(400, {"code": code, "detail": "words"})
    assert isinstance(found, ServerProblem)
    assert found.code == "client.problem"


def test_an_error_code_of_a_newer_server_is_kept() -> None:
    assert error_of(400, {"code": "moon.far_2", "detail": "words"}).code == "moon.far_2"
