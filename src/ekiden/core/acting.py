"""Which agent's code is running: what an agent may not do is refused wherever it is tried."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

AGENT_VARIABLE = "EKIDEN_ACTING_AGENT"
"""Set for the processes that tools start, so that they cannot do it either."""

_acting: ContextVar[str | None] = ContextVar("ekiden_acting_agent", default=None)


def acting_agent() -> str | None:
    """The agent whose code, tool or handler runs now; `None` outside."""
    return _acting.get() or inherited_agent()


def acting_here() -> str | None:
    """The agent whose code runs now in this process; quicker than `acting_agent`."""
    return _acting.get()


def inherited_agent() -> str | None:
    """The agent one of whose tools has started this process."""
    return os.environ.get(AGENT_VARIABLE) or None


@contextmanager
def acting_as(agent: str) -> Iterator[None]:
    """The body is done by the agent."""
    token = _acting.set(agent)
    try:
        yield
    finally:
        _acting.reset(token)
