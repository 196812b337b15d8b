"""Tasks of plans as lines that people read."""

from __future__ import annotations

from ekiden.cli.transcript import shorten
from ekiden.core.events import Event

_LONGEST_REASON = 300


def task_line(event: Event) -> str | None:
    """The line when a task of a plan begins or ends, or when a plan does."""
    details = event.details or {}
    agent = details.get("agent")
    match details.get("phase"):
        case "decomposed":
            agents = ", ".join(str(task.get("agent")) for task in details.get("tasks", ()))
            return f"▸ plan: {agents}"
        case "started" if "attempt" in details:
            return f"▸ {agent}  attempt {details['attempt']}"
        case "started":
            return f"▸ {agent}"
        case "finished" if details.get("success"):
            return f"✓ {agent}  {duration(event.duration_us or 0)}"
        case "finished":
            return f"✗ {agent}  failed: {short(event.error)}"
    return None


def duration(microseconds: int) -> str:
    """A time that something took, for people."""
    if microseconds < 1_000_000:
        return f"{microseconds / 1e3:.0f} ms"
    return f"{microseconds / 1e6:.1f} s"


def short(value: object) -> str:
    """A reason or an error on one line, cut."""
    return shorten(" ".join(str(value).split()), _LONGEST_REASON)
