"""The agent whose code is running, and the session that it works for.

Actions forbidden to agents are refused wherever an agent acts. This restricts agents, not
programmers. Marked are model output, tools, handlers, hooks, instructions, guardrails and
callbacks, with the tasks that they start, the threads that the runtime starts for them, and the
programs of the tool `shell`, with their children. Python code that leaves its context on purpose
(its own thread, a task with an empty context) was chosen by the owner of the process and is trusted
like the rest; so is a program that closes its inherited files, removes the variable and leaves its
parent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import cache
from typing import Any, Protocol

_MARK = "ekiden-agent"
_LINK = f"/memfd:{_MARK}:"
_MAX_NAME = 200
"""Longest agent name in a mark, in bytes; the system allows 249 for the whole mark."""
_MAX_ABOVE = 64


@contextmanager
def lineage_mark(agent: str) -> Iterator[tuple[int, ...]]:
    """File descriptors for a program that the agent starts; none if the system does not support
    it."""
    marks: list[int] = []
    if hasattr(os, "memfd_create"):
        name = os.fsdecode(agent.encode(errors="replace")[:_MAX_NAME])
        with suppress(OSError):
            marks.append(os.memfd_create(f"{_MARK}:{os.getpid()}:{name}"))
    try:
        yield tuple(marks)
    finally:
        for mark in marks:
            os.close(mark)


@cache
def lineage_agent(variable: str) -> str | None:
    """The agent that started this process or an ancestor, found by environment or mark; `None` if
    there is none, or the system does not tell."""
    pid = os.getpid()
    for _ in range(_MAX_ABOVE):
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
    """The inherited mark of the process; its own marks are for others."""
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
    """0 if there is none, or the system does not tell."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


AGENT_VARIABLE = "EKIDEN_ACTING_AGENT"
"""Set for processes that tools start, so that they are restricted too."""
AGENT_HEADER = "X-Ekiden-Agent"
"""Sent with every request for an agent, to MCP servers and A2A agents: a called Ekiden then refuses
decisions that belong to people."""

ACTING: ContextVar[str | None] = ContextVar("ekiden_acting_agent", default=None)


def acting_agent() -> str | None:
    """The agent whose code, tool or handler runs now; `None` outside."""
    return ACTING.get() or inherited_agent()


def acting_here() -> str | None:
    """The agent whose code runs now in this process; faster than `acting_agent`."""
    return ACTING.get()


def inherited_agent() -> str | None:
    """The agent whose tool started this process, or an ancestor of it."""
    return os.environ.get(AGENT_VARIABLE) or lineage_agent(AGENT_VARIABLE)


class acting_as:
    """Run the body of the `with` as the agent; with an empty name as none."""

    __slots__ = ("_agent", "_token")

    _token: Token[str | None]

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def __enter__(self) -> None:
        self._token = ACTING.set(self._agent)

    def __exit__(self, *exc_info: object) -> None:
        ACTING.reset(self._token)


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


class logging_for:
    """Assign log lines to the session, in the body of the `with` and in tasks that it starts."""

    __slots__ = ("_session", "_token")

    _token: Token[LoggedSession | None]

    def __init__(self, session: LoggedSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._token = LOGGED.set(self._session)

    def __exit__(self, *exc_info: object) -> None:
        LOGGED.reset(self._token)


def bind_log_session(session: LoggedSession) -> None:
    """Assign all further log lines of the current task to the session."""
    LOGGED.set(session)


def logged_session() -> LoggedSession | None:
    """The session that the running code works for; `None` outside."""
    return LOGGED.get()
