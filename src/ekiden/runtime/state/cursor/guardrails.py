"""The component of a cursor that tells what guardrails of the active agent checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, int] = MappingProxyType({})


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
