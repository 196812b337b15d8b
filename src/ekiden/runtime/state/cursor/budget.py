"""The component of a cursor that tells what the run used, and what it may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from ekiden.core.conversation.usage import Usage

NO_LIMITS: Mapping[str, Any] = MappingProxyType({})
"""Shared by most cursors, and replaced when there is something."""


@dataclass(slots=True)
class RunBudget:
    """What the run used, and what it may use."""

    narrowed: dict[str, float] = field(default_factory=dict)
    """What handoffs left of tokens, seconds and money, counted from the run's beginning."""
    limits: Mapping[str, float] = field(default_factory=lambda: NO_LIMITS)
    """Limits that were given for this run, by name; see `RunConfig.given`."""
    spent_s: float = 0.0
    """Seconds worked on the run by earlier claims."""
    usage: Usage = field(default_factory=Usage)
    """Of the run, and of those that answered its questions."""
    others: Usage | None = None
    """What of it was used by those that answered."""
    purse: str | None = None
    """What it shares with those that it asks, once it does; see `purse`."""
    levels: Sequence[str] = ()
    """The limits of which there is a purse."""
    by_agent: Mapping[str, list[float]] = field(default_factory=lambda: NO_LIMITS)
    """Tokens, seconds and money of agents that have a budget of their own."""

    NOT_IMPORTED: ClassVar = ("pz", "li")

    def to_json(self, data: dict[str, Any]) -> None:
        """Store it in a cursor's `data`."""
        if self.narrowed:
            data["bu"] = self.narrowed.copy()
        if self.limits:
            data["li"] = dict(self.limits)
        if self.spent_s:
            data["sp"] = round(self.spent_s, 3)
        if counts := self.usage.to_json():
            data["u"] = counts
        if self.others is not None:
            data["ou"] = self.others.to_json()
        if self.purse is not None:
            data["pz"] = [self.purse, *self.levels]
        if self.by_agent:
            data["ba"] = {name: spent.copy() for name, spent in self.by_agent.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunBudget:
        """The inverse of `to_json`."""
        get = data.get
        budget = cls(
            dict(data["bu"]) if "bu" in data else {}, get("li", NO_LIMITS), get("sp", 0.0),
            Usage.from_json(data["u"]) if "u" in data else Usage(),
        )  # fmt: skip
        if "ou" in data:
            budget.others = Usage.from_json(data["ou"])
        if "pz" in data:
            budget.purse, *budget.levels = data["pz"]
        if "ba" in data:
            budget.by_agent = {name: list(spent) for name, spent in data["ba"].items()}
        return budget

    def discard(self, stored: RunBudget) -> None:
        """Take what was `stored` again, but for what was used up since."""
        self.narrowed, self.limits = stored.narrowed, stored.limits
        self.purse, self.levels = stored.purse, stored.levels

    def save(self, saved: dict[str, Any]) -> None:
        """Keep in `saved` what a rollback gives back, as far as it is not at its default."""
        if self.narrowed:
            saved["budget"] = self.narrowed

    def step_back(self, saved: Mapping[str, Any]) -> None:
        """A handoff is rolled back before which this was `saved`."""
        self.narrowed = dict(saved.get("budget", {}))

    def settle(self) -> None:
        """Nothing is shared with other sessions any more."""
        self.purse, self.levels = None, ()

    def spend(self, agent: str, tokens: float, seconds: float, money: float) -> None:
        """Count what an agent used that has a budget of its own."""
        spent = self.by_agent.get(agent, (0, 0.0, 0.0))
        more = (tokens, seconds, money)
        now = [round(before + added, 9) for before, added in zip(spent, more, strict=True)]
        self.by_agent = {**self.by_agent, agent: now}

    @staticmethod
    def shape() -> dict[str, Any]:
        """By key: what an imported one has."""
        from typing import Annotated

        from annotated_types import Len

        from ekiden.core.shapes import Amount, Amounts, Used

        spent = Annotated[list[Amount], Len(3, 3)]
        return {"bu": Amounts, "sp": Amount, "u": Used, "ou": Used, "ba": dict[str, spent]}


def had_before(saved: Mapping[str, Any], limit: str) -> float | None:
    """What handoffs had left of a limit before the one that this was `saved` for."""
    had: float | None = saved.get("budget", {}).get(limit)
    return had
