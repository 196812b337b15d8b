"""Which agent's code is running: what an agent may not do is refused wherever it is tried.

This keeps agents from it, not programmers. Whatever a model says and whatever tools, handlers,
hooks, instructions, guardrails and callbacks do is marked, with the tasks that they start, the
threads that the runtime starts for them, and the programs that the tool `shell` starts, with all
that those start. Python code that leaves its context on purpose (a thread of its own, a task with
an empty context) is code that the owner of the process chose to run there, and is trusted like the
rest of it; so is a program that closes the files it inherits, removes the variable and leaves its
parent.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from types import TracebackType

from ekiden.core.lineage import lineage_agent

AGENT_VARIABLE = "EKIDEN_ACTING_AGENT"
"""Set for the processes that tools start, so that they cannot do it either."""
AGENT_HEADER = "X-Ekiden-Agent"
"""Sent with every request that is made for an agent, to MCP servers and to A2A agents: an Ekiden
that is called so lets nobody decide in the place of people."""

_acting: ContextVar[str | None] = ContextVar("ekiden_acting_agent", default=None)


def acting_agent() -> str | None:
    """The agent whose code, tool or handler runs now; `None` outside."""
    return _acting.get() or inherited_agent()


def acting_here() -> str | None:
    """The agent whose code runs now in this process; quicker than `acting_agent`."""
    return _acting.get()


def inherited_agent() -> str | None:
    """The agent one of whose tools has started this process, or a process above it."""
    return os.environ.get(AGENT_VARIABLE) or lineage_agent(AGENT_VARIABLE)


class acting_as:
    """The body of the `with` is done by the agent; with an empty name by none."""

    __slots__ = ("_agent", "_token")

    _token: Token[str | None]

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def __enter__(self) -> None:
        self._token = _acting.set(self._agent)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _acting.reset(self._token)
