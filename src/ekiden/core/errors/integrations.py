"""Errors of integrations: remote agents over A2A, agents of other frameworks, Temporal.

EkidenError
├── RemoteAgentError
│   ├── RemoteAgentUnavailable    unreachable, or too slow
│   ├── RemoteAgentFailed         it reported a failure
│   └── RemoteAgentInvalid        its response is unusable
├── ForeignAgentError
├── TemporalUnavailable
└── UserError
    └── FrameworkMissing
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError, UserError


class RemoteAgentError(EkidenError):
    """A remote agent did not complete its task. The handoff to this agent is rolled back."""

    code = "a2a.error"

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"the remote agent {agent!r}: {problem}")
        self.agent, self.problem = agent, problem


class RemoteAgentUnavailable(RemoteAgentError):
    """The remote agent is unreachable or too slow, or its credentials are missing in the
    environment. Try again later."""

    code = "a2a.unavailable"


class RemoteAgentFailed(RemoteAgentError):
    """The remote agent reported that the task failed or was cancelled."""

    code = "a2a.failed"


class RemoteAgentInvalid(RemoteAgentError):
    """The remote agent has no valid agent card, the card points to another host, or the answer is
    too long."""

    code = "a2a.invalid"


class ForeignAgentError(EkidenError):
    """An agent of another framework raised an exception (see `__cause__`), or broke the contract of
    `ForeignAdapter`. A handoff to this agent is rolled back."""

    code = "agent.foreign_failed"

    def __init__(self, agent: str, framework: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} ({framework}) failed: {problem}")
        self.agent, self.framework = agent, framework


class FrameworkMissing(UserError):
    """The framework is not installed, or its version is too old. Install the extra, or run the
    agent in a process of its own."""

    code = "agent.framework_missing"

    def __init__(self, framework: str, problem: object, way_out: str) -> None:
        super().__init__(
            f"an agent of {framework} cannot be used ({problem}): {way_out}; if its requirements "
            "contradict yours, run it in a process of its own (ekiden.ProcessAgent)"
        )
        self.framework = framework


class TemporalUnavailable(EkidenError):
    """No Temporal server answers at the address. Start a server, or set `--address`."""

    code = "temporal.unavailable"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"no Temporal server answers at {address}: {reason}; start one with "
            "`temporal server start-dev`, or name another with --address"
        )
        self.address = address
