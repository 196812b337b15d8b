"""Errors of changing state from outside a run.

EkidenError
├── StaleState       somebody else changed it since it was read
└── StateRefused     an agent's code tried it
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class StaleState(EkidenError):
    """State has changed since it was read; nothing was written."""

    code = "state.stale"

    def __init__(self, what: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"{what} has version {found}, expected {expected}: it has changed; read it again, "
            "and decide again"
        )
        self.expected, self.found = expected, found


class StateRefused(EkidenError):
    """An agent's code, tool or program tried to change state outside its own session."""

    code = "state.refused"

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"the agent {agent!r} may not do this: what its code may read and change is in "
            "ctx.get, ctx.set and ctx.delete"
        )
        self.agent = agent
