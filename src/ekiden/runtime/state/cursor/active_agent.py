"""The components of a cursor about the active agent: what it sees of the conversation, what its
guardrails checked, and what its triggers look at."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ekiden.core.errors.sessions import SessionImportInvalid

_NONE: Mapping[str, int] = MappingProxyType({})
_LONGEST_ERROR = 200
_MOST_ERRORS = 10


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


@dataclass(slots=True)
class GuardrailChecks:
    """What guardrails of the active agent checked since it has the run; nothing here is changed in
    place."""

    checks: int = 0
    """How far the input guardrails came: 1, those before its model passed; 2, all did."""
    found: Sequence[dict[str, Any]] = ()
    """What they found and no event tells yet."""
    repairs: Mapping[str, int] = field(default_factory=lambda: _NONE)
    """By output guardrail: how often the agent's model was asked again because of it."""

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.checks:
            data["gc"] = self.checks
            if self.found:
                data["gf"] = list(self.found)
        if self.repairs:
            data["gr"] = dict(self.repairs)

    def input_to_json(self, data: dict[str, Any]) -> None:
        """Store in a cursor's `data` how far input guardrails came, and nothing else."""
        data["gc"] = self.checks
        data["gf"] = list(self.found)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuardrailChecks:
        """The inverse of `to_json`."""
        get = data.get
        return cls(get("gc", 0), get("gf", ()), get("gr", _NONE))

    def save(self, saved: dict[str, Any]) -> None:
        """Keep in `saved` what a rollback gives back, as far as it is not at its default."""
        if self.checks:
            saved["checks"] = self.checks
        if self.repairs:
            saved["repairs"] = dict(self.repairs)

    def step_back(self, saved: Mapping[str, Any]) -> None:
        """A handoff is rolled back before which this was `saved`."""
        self.checks, self.found = saved.get("checks", 0), ()
        self.repairs = saved.get("repairs", _NONE)

    def hand_on(self) -> None:
        """Another agent gets the conversation: nothing was checked for it."""
        self.checks, self.found, self.repairs = 0, (), _NONE

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: what an imported one has."""
        from ekiden.core.shapes import Count
        from ekiden.runtime.state.cursor.shapes import Finding

        return {"gc": Count, "gf": list[Finding], "gr": dict[str, Count]}


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
