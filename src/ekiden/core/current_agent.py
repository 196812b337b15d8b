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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import cache

_MARK = "ekiden-agent"
_LINK = f"/memfd:{_MARK}:"
_MAX_NAME = 200
"""Bytes of an agent's name in a mark; the system allows 249 for all of it."""
_MAX_ABOVE = 64


@contextmanager
def lineage_mark(agent: str) -> Iterator[tuple[int, ...]]:
    """File descriptors for a program that the agent starts; none where the system has no such."""
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
    """The agent that started this process or one above it: by the environment that they were
    started with, or a mark; `None` if there is none, or the system does not tell."""
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
    """Whose mark the process inherited; those that it made are for others."""
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

    def __exit__(self, *exc_info: object) -> None:
        _acting.reset(self._token)
