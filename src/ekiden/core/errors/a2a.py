"""Errors of remote agents over A2A.

EkidenError
└── RemoteAgentError
    ├── RemoteAgentUnavailable    it cannot be reached, or does not come to an end
    ├── RemoteAgentFailed         it says that it could not do it
    └── RemoteAgentInvalid        what it says cannot be used
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class RemoteAgentError(EkidenError):
    """A remote agent did not do its task; the handoff to it is rolled back."""

    code = "a2a.error"

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"the remote agent {agent!r}: {problem}")
        self.agent, self.problem = agent, problem


class RemoteAgentUnavailable(RemoteAgentError):
    """A remote agent is unreachable, or takes too long: try again later."""

    code = "a2a.unavailable"


class RemoteAgentFailed(RemoteAgentError):
    """A remote agent reports that it failed, or stopped the task."""

    code = "a2a.failed"


class RemoteAgentInvalid(RemoteAgentError):
    """A remote agent's response is unusable: no card, another host, too large."""

    code = "a2a.invalid"
