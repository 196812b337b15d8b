"""Errors of the command line, and the exit codes: one table, which `docs/cli.md` repeats."""

from __future__ import annotations

import os
from enum import IntEnum
from typing import TYPE_CHECKING

from ekiden.client.errors import ServerUnavailable
from ekiden.core.errors import (
    EkidenError,
    FolderNotTrusted,
    HandoffNotFound,
    LeaseLost,
    NoRoute,
    SessionBusy,
    SessionNotFound,
    StoreError,
    UnknownAgent,
    UserError,
)
from ekiden.core.errors.collaboration import CollaborationNotFound
from ekiden.core.errors.integrations import TemporalUnavailable
from ekiden.core.errors.memory import BackendUnavailable, MemoryFailed, MemoryNotFound
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemNotFound, MessageNotFound
from ekiden.core.errors.server import (
    AuditRecordNotFound,
    KeyNotFound,
    MethodNotAllowed,
    NotServed,
    RequestInvalid,
    RequestTooLarge,
    RunNotFound,
    ServerExposed,
)

if TYPE_CHECKING:
    from ekiden.core.runs import Outcome


class UsageError(UserError):
    """The command line is invalid."""

    code = "cli.usage"


class BadInput(UserError):
    """The message is empty, or not UTF-8."""

    code = "cli.bad_input"


class NotConfirmed(UserError):
    """A deletion was not confirmed; nothing was changed."""

    code = "cli.not_confirmed"


class Interrupted(EkidenError):
    """Stopped with Ctrl-C."""

    code = "cli.interrupted"


class NobodyCapable(UserError):
    """No agent has the required capabilities."""

    code = "cli.nobody_capable"


class NoSessions(SessionNotFound):
    """The command uses the newest session, but there is none."""

    def __init__(self) -> None:
        super().__init__("")
        self.args = ("the store has no sessions yet; `ekiden run` starts one",)


class NoRecord(EkidenError):
    """The audit has no record and no handoff with this id."""

    code = "cli.no_record"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the audit has no record and no handoff {name[:80]!r}; `ekiden audit list` shows "
            "the records"
        )
        self.name = name


# Exit codes.


class Exit(IntEnum):
    """An exit code with its meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Exit:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = (
        1,
        "the run failed, the model refused, a handoff was not made, or another person answered "
        "first; the work is kept",
    )
    USAGE = 2, "the command line, the input or the team is wrong"
    OUT_OF_BUDGET = 3, "the run reached a limit; its work is kept, and you can resume it"
    WAITING = 4, "the session waits for a person or an agent"
    NOT_FOUND = (
        5,
        "there is no such session, handoff, message, collaboration, inbox item or memory, the "
        "team has no such agent, or no agent matches the request",
    )
    BUSY = 6, "another process is running the session"
    STORE = 7, "the store or the server is unreachable or fails, or a newer Ekiden wrote the store"
    TAMPERED = 8, "stored data was altered: the audit is broken"
    NOT_TRUSTED = 9, "the folder is not trusted, so nothing was run; see `ekiden trust`"
    INTERNAL = 70, "a defect in Ekiden; EKIDEN_DEBUG=1 shows where"
    INTERRUPTED = 130, "stopped with Ctrl-C; the session is kept"
    PIPE = 141, "the program that reads the output has ended"


_BY_ERROR: tuple[tuple[type[EkidenError], Exit], ...] = (
    (Interrupted, Exit.INTERRUPTED),
    (SessionNotFound, Exit.NOT_FOUND),
    (UnknownAgent, Exit.NOT_FOUND),
    (NobodyCapable, Exit.NOT_FOUND),
    (NoRoute, Exit.NOT_FOUND),
    (NoRecord, Exit.NOT_FOUND),
    (KeyNotFound, Exit.NOT_FOUND),
    (HandoffNotFound, Exit.NOT_FOUND),
    (MessageNotFound, Exit.NOT_FOUND),
    (CollaborationNotFound, Exit.NOT_FOUND),
    (AuditRecordNotFound, Exit.NOT_FOUND),
    (RunNotFound, Exit.NOT_FOUND),
    (InboxItemNotFound, Exit.NOT_FOUND),
    (InboxAnswerInvalid, Exit.USAGE),
    (MemoryNotFound, Exit.NOT_FOUND),
    (BackendUnavailable, Exit.FAILED),
    (MemoryFailed, Exit.USAGE),
    (SessionBusy, Exit.BUSY),
    (LeaseLost, Exit.BUSY),
    (StoreError, Exit.STORE),
    (ServerUnavailable, Exit.STORE),
    (TemporalUnavailable, Exit.STORE),
    (RequestInvalid, Exit.USAGE),
    (RequestTooLarge, Exit.USAGE),
    (NotServed, Exit.USAGE),
    (MethodNotAllowed, Exit.USAGE),
    (ServerExposed, Exit.USAGE),
    (FolderNotTrusted, Exit.NOT_TRUSTED),
    (UserError, Exit.USAGE),
)
"""The first match decides."""

_BY_OUTCOME = {
    "done": Exit.OK,
    "refused": Exit.FAILED,
    "failed": Exit.FAILED,
    "out_of_budget": Exit.OUT_OF_BUDGET,
    "waiting": Exit.WAITING,
}


def exit_for_error(error: EkidenError) -> Exit:
    """The exit code of an error that ended the command."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.FAILED)


def exit_for_outcome(outcome: Outcome | str) -> Exit:
    """The exit code of a run, from its outcome or the outcome's kind."""
    return _BY_OUTCOME[outcome if isinstance(outcome, str) else outcome.kind]


def exit_for_refusal(code: str) -> Exit:
    """The exit code of a requested handoff that was refused or rolled back."""
    return Exit.NOT_FOUND if code == "AGENT_NOT_FOUND" else Exit.FAILED


def defect(exc: BaseException) -> tuple[str, str]:
    """Code and message of an unexpected exception; with EKIDEN_DEBUG=1 its traceback is printed."""
    debug_trace(exc)
    return "cli.internal", f"{type(exc).__name__}: {exc} (EKIDEN_DEBUG=1 shows where)"


def debug_trace(exc: BaseException) -> None:
    """Print the traceback if EKIDEN_DEBUG=1."""
    if os.environ.get("EKIDEN_DEBUG") == "1":
        import traceback

        traceback.print_exception(exc)
