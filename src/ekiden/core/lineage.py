"""Which agent a process comes from: the mark that it leaves on programs, and looking for it.

A program can drop a variable of its environment for those that it starts. So programs also inherit
an open file whose name says whose they are, and whoever looks asks the processes above, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
