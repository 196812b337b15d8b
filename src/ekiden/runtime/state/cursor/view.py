"""The component of a cursor that tells which part of the conversation the active agent sees."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors.sessions import SessionImportInvalid


@dataclass(slots=True)
class ConversationView:
    """What the active agent sees of the conversation."""

    base: str | None = None
    """Key of the step whose result the view begins with (a filter's)."""
    after: int = 0
    """The view goes on with what was said after this event."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.base is not None:
            data["b"] = self.base
        if self.after:
            data["a"] = self.after

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ConversationView:
        """The inverse of `to_json`."""
        return cls(data.get("b"), data.get("a", 0))

    def next_run(self) -> ConversationView:
        """That of the run that follows: the view goes on."""
        return ConversationView(self.base, self.after)

    def step_back(self, base: str | None, after: int) -> None:
        """A handoff is rolled back that began with this view."""
        self.base, self.after = base, after

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: what an imported one has."""
        from ekiden.core.shapes import Count

        return {"b": str | None, "a": Count}

    def check_import(self, place: str, *, events: int, steps: Container[str]) -> None:
        """Refuse an imported one that does not fit a session with these steps and events."""
        if self.after > events:
            raise SessionImportInvalid(place, "it speaks of events that there are not")
        if self.base is not None and self.base not in steps:
            raise SessionImportInvalid(f"{place}.b", "what it names is not among the steps")
