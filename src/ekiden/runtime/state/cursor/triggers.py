"""The component of a cursor that tells what triggers of the active agent look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LONGEST_ERROR = 200
_MOST_ERRORS = 10


@dataclass(slots=True)
class TriggerSigns:
    """What triggers of the active agent look at; nothing here is changed in place."""

    fired: Sequence[int] = ()
    """Places in the active agent's `handoffs` whose triggers fired since it has the run."""
    published: Sequence[str] = ()
    """Names of events that were published and that no trigger looked at yet."""
    tool_errors: Sequence[str] = ()
    """Errors of tools that no trigger looked at yet."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.fired:
            data["fi"] = list(self.fired)
        if self.published:
            data["pu"] = list(self.published)
        if self.tool_errors:
            data["sl"] = list(self.tool_errors)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TriggerSigns:
        """The inverse of `to_json`."""
        get = data.get
        return cls(get("fi", ()), get("pu", ()), get("sl", ()))

    def save(self, saved: dict[str, Any]) -> None:
        """Keep in `saved` what a rollback gives back, as far as it is not at its default."""
        if self.fired:
            saved["fired"] = list(self.fired)
        if self.published:
            saved["published"] = list(self.published)
        if self.tool_errors:
            saved["slips"] = list(self.tool_errors)

    def step_back(self, saved: Mapping[str, Any]) -> None:
        """A handoff is rolled back before which this was `saved`."""
        self.fired = list(saved.get("fired", ()))
        self.published = list(saved.get("published", ()))
        self.tool_errors = list(saved.get("slips", ()))

    def hand_on(self) -> None:
        """Another agent has the run: what triggers of the one before looked at is nothing to it."""
        self.fired = self.published = self.tool_errors = ()

    def forget_signs(self) -> None:
        """Everything was looked at."""
        self.published = self.tool_errors = ()

    def note_fired(self, place: int) -> None:
        """The trigger at this place of the active agent's `handoffs` fired."""
        self.fired = [*self.fired, place]

    def note_published(self, name: str) -> None:
        """An event of this name was published."""
        if name not in self.published:
            self.published = [*self.published, name]

    def note_tool_error(self, error: str) -> None:
        """A tool failed; the oldest errors are forgotten."""
        self.tool_errors = [*self.tool_errors[1 - _MOST_ERRORS :], error[:_LONGEST_ERROR]]

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: what an imported one has."""
        from ekiden.core.shapes import Count

        return {"fi": list[Count], "pu": list[str], "sl": list[str]}
