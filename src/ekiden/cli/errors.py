"""Errors of the command line."""

from __future__ import annotations

from ekiden.core.errors import EkidenError, SessionNotFound, UserError


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
