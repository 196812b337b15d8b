"""Effects of inner tools, as lines of a file; a process may be told to die in one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry import trace

from ekiden import current_turn


@dataclass
class Inside:
    """What a test sees of an inner tool."""

    hangs: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False
    traces: list[str] = field(default_factory=list)
    """The trace and the span that spans of the framework are below, and those of the turn."""


_inside: list[Inside] = []


@contextmanager
def watched(*, hangs: bool = False) -> Iterator[Inside]:
    """Watch the inner tools; with `hangs` they do not end."""
    _inside.append(Inside(hangs=hangs))
    try:
        yield _inside[-1]
    finally:
        _inside.clear()


async def booked(member: str) -> str:
    """`effect`, unless a test watches the tool."""
    if not _inside:
        return effect(member)
    inside = _inside[-1]
    inside.traces += [
        f"{trace.get_current_span().get_span_context().trace_id:032x}",
        current_turn().traceparent.split("-")[1],
    ]
    inside.begun.set()
    try:
        while inside.hangs:
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        inside.cancelled = True
        raise
    return f"{member} is booked"


def effect(member: str) -> str:
    """What the inner tool of a member does: once for each key, whatever repeats it."""
    _die(f"{member}:before")
    line = f"{member} {current_turn().effect_key('book', member)}\n".encode()
    out = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, line)
    os.close(out)
    _die(f"{member}:after")
    return f"{member} is booked"


def done(path: Path) -> list[tuple[str, str]]:
    """Member and key of each effect that was done, in order."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


def _die(where: str) -> None:
    if os.environ.get("KILL") == where:
        os.kill(os.getpid(), signal.SIGKILL)
