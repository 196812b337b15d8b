"""What can go wrong with agents elsewhere that speak A2A.

EkidenError
└── RemoteAgentError
    ├── RemoteAgentUnavailable    it cannot be reached, or does not come to an end
    ├── RemoteAgentFailed         it says that it could not do it
    └── RemoteAgentInvalid        what it says cannot be used
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class RemoteAgentError(EkidenError):
    """An agent elsewhere did not do what it was asked; the handoff to it is undone."""

    code = "a2a.error"

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"the remote agent {agent!r}: {problem}")
        self.agent, self.problem = agent, problem


class RemoteAgentUnavailable(RemoteAgentError):
    """An agent elsewhere cannot be reached, or takes too long: try again later."""

    code = "a2a.unavailable"


class RemoteAgentFailed(RemoteAgentError):
    """An agent elsewhere says that it failed, or stopped the task."""

    code = "a2a.failed"


class RemoteAgentInvalid(RemoteAgentError):
    """An agent elsewhere says something that cannot be used: no card, another host, too much."""

    code = "a2a.invalid"
