"""How a remote agent's task stands, in JSON that can be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

MAX_TEXT = 200_000
"""The longest text that is kept of a remote agent's answer."""

State: TypeAlias = Literal[
    "working", "done", "asks", "failed", "canceled", "rejected", "unavailable", "invalid"
]
"""`asks`: somebody has to say something first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a task stands."""

    state: State
    task_id: str = ""
    context_id: str = ""
    text: str = ""
    """What it said, or asks, or what went wrong."""
    data: Any = None
    """The answer, if it is JSON and no text."""
    options: tuple[str, ...] = ()
    """Of a question that can be answered by choosing."""
    item: str = ""
    """The question's id, where the other side is an Ekiden."""

    def to_json(self) -> dict[str, Any]:
        """As a step remembers it."""
        return {
            "state": self.state,
            "task_id": self.task_id,
            "context_id": self.context_id,
            "text": self.text,
            "data": self.data,
            "options": list(self.options),
            "item": self.item,
        }


def view_from_json(data: dict[str, Any]) -> View:
    """The inverse of `to_json`."""
    return View(**{**data, "options": tuple(data["options"])})


def problem(state: State, text: str) -> View:
    """Something that went wrong."""
    return View(state=state, text=text[:MAX_TEXT])


def is_settled(view: View) -> bool:
    """Whether there is nothing to wait for."""
    return view.state != "working"
