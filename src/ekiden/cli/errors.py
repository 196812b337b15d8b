"""Errors that only the command line knows."""

from __future__ import annotations

from ekiden.core.errors import EkidenError, SessionNotFound, UserError


class UsageError(UserError):
    """The command line makes no sense."""

    code = "cli.usage"


class BadInput(UserError):
    """What was to be said is not text."""

    code = "cli.bad_input"


class NotConfirmed(UserError):
    """Something was to be removed for good, and nobody agreed."""

    code = "cli.not_confirmed"


class Interrupted(EkidenError):
    """Ctrl-C."""

    code = "cli.interrupted"


class NobodyCapable(UserError):
    """No agent has the capabilities that were asked for."""

    code = "cli.nobody_capable"


class NoSessions(SessionNotFound):
    """The newest session was asked for and there is none."""

    def __init__(self) -> None:
        super().__init__("")
        self.args = ("the store has no sessions yet; `ekiden run` begins one",)


class NoRecord(EkidenError):
    """The audit has no such record, and no handoff with that id."""

    code = "cli.no_record"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the audit has no record and no handoff {name[:80]!r}; `ekiden audit list` shows "
            "those there are"
        )
        self.name = name
