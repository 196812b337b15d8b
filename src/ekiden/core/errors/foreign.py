"""Errors of agents of other frameworks.

EkidenError
├── ForeignAgentError
└── UserError
    └── FrameworkMissing
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError, UserError


class ForeignAgentError(EkidenError):
    """An agent of another framework failed; `__cause__` is the exception of the framework."""

    code = "agent.foreign_failed"

    def __init__(self, agent: str, framework: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} ({framework}) failed: {problem}")
        self.agent, self.framework = agent, framework


class FrameworkMissing(UserError):
    """The package of a framework is missing, or its version does not work with the adapter."""

    code = "agent.framework_missing"

    def __init__(self, framework: str, problem: object, way_out: str) -> None:
        super().__init__(
            f"an agent of {framework} cannot be used ({problem}): {way_out}; if its requirements "
            "contradict yours, run it in a process of its own (ekiden.ProcessAgent)"
        )
        self.framework = framework
