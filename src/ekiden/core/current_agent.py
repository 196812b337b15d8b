"""The agent whose code is running, and the session that it works for.

Some actions are forbidden to agents, such as answering an inbox item. Ekiden refuses these actions
while code of an agent runs. Model output, tools, handlers, hooks, instructions, guardrails and
callbacks count as code of the agent. So do the tasks, threads and processes that they start
(`started_by_agents.py`).

This check restricts agents, not programmers. Python code is trusted if it leaves its context on
purpose, such as in a task with an empty context, because the owner of the process chose the code. A
program is trusted if it closes its inherited files, removes the environment variable with the
agent's name, and detaches from its parent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

_MARK = "ekiden-agent"
_LINK = f"/memfd:{_MARK}:"
_MAX_NAME = 200
"""Longest agent name in a mark, in bytes; the system allows 249 for the whole mark."""
_MAX_ANCESTORS = 64


@contextmanager
def lineage_mark(agent: str) -> Iterator[tuple[int, ...]]:
    """File descriptors that mark a program as started by the agent. The children of the program
    inherit the mark. The tuple is empty if the system does not support such marks."""
    marks = _marks(agent, os.getpid())
    try:
        yield marks
    finally:
        for mark in marks:
            os.close(mark)


def mark_this_process(agent: str) -> None:
    """Mark this process, and the processes that it starts, as started by the agent."""
    os.environ[AGENT_VARIABLE] = agent
    for mark in _marks(agent, os.getppid()):
        os.set_inheritable(mark, True)


def _marks(agent: str, starter: int) -> tuple[int, ...]:
    if hasattr(os, "memfd_create"):
        name = os.fsdecode(agent.encode(errors="replace")[:_MAX_NAME])
        with suppress(OSError):
            return (os.memfd_create(f"{_MARK}:{starter}:{name}"),)
    return ()


@cache
def lineage_agent(variable: str) -> str | None:
    """The agent that started this process or one of its ancestors, or `None`. The agent's name
    comes from the environment variable `variable` or from the mark of `lineage_mark`."""
    pid = os.getpid()
    for _ in range(_MAX_ANCESTORS):
        found = _by_environment(pid, variable) or _by_mark(pid)
        if found is not None:
            return found
        pid = _parent(pid)
        if pid == 0:
            break
    return None


def _by_environment(pid: int, variable: str) -> str | None:
    start = f"{variable}=".encode()
    for entry in _read(pid, "environ").split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="replace") or None
    return None


def _by_mark(pid: int) -> str | None:
    """The agent of the process's inherited mark. Marks that the process itself created are for its
    children and do not count."""
    folder, own = f"/proc/{pid}/fd", f"{_LINK}{pid}:"
    with suppress(OSError):
        for number in os.listdir(folder):
            with suppress(OSError):
                link = os.readlink(f"{folder}/{number}")
                if link.startswith(_LINK) and not link.startswith(own):
                    name = link.removeprefix(_LINK).partition(":")[2].removesuffix(" (deleted)")
                    return os.fsencode(name).decode(errors="replace")
    return None


def _parent(pid: int) -> int:
    """The id of the parent process; 0 if there is none or it cannot be determined."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


AGENT_VARIABLE = "EKIDEN_ACTING_AGENT"
"""The environment variable with the agent's name, set for processes that tools start."""
AGENT_HEADER = "X-Ekiden-Agent"
"""The HTTP header with the agent's name, sent with an agent's requests to MCP servers and A2A
agents. An Ekiden server does not let such a caller make decisions that belong to people."""

ACTING: ContextVar[str | None] = ContextVar("ekiden_acting_agent", default=None)
"""The agent whose code runs in this process; empty or `None` if no agent's code runs. Reading this
variable is faster than calling `acting_agent`."""


def acting_agent() -> str | None:
    """The agent whose code, tool or handler is running, or whose tool started this process."""
    return ACTING.get() or inherited_agent()


def inherited_agent() -> str | None:
    """The agent whose tool started this process or one of its ancestors."""
    return os.environ.get(AGENT_VARIABLE) or lineage_agent(AGENT_VARIABLE)


class _Binding(Generic[T]):
    """Sets a context variable for the body of a `with`."""

    __slots__ = ("_token", "_value", "_variable")
    _token: Token[T]

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *exc_info: object) -> None:
        self._variable.reset(self._token)


def acting_as(agent: str) -> _Binding[str | None]:
    """Run the body of the `with` statement as the agent. An empty name means no agent."""
    return _Binding(ACTING, agent)


class LoggedSession(Protocol):
    """The session that the running code works for: a run, or a `LogSession`."""

    @property
    def session_id(self) -> str: ...

    @property
    def correlation_id(self) -> str: ...

    @property
    def meta(self) -> Mapping[str, Any]: ...

    @property
    def created_at_us(self) -> int | None: ...


LOGGED: ContextVar[LoggedSession | None] = ContextVar("ekiden_log_session", default=None)
"""The session that the running code works for. Log lines and spans get the ids of this session."""


def logging_for(session: LoggedSession) -> _Binding[LoggedSession | None]:
    """Assign log lines to the session. This applies to the body of the `with` statement and to
    tasks that the body starts."""
    return _Binding(LOGGED, session)
