"""A run that is killed, and which fault points it passes how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ekiden.core.agent import Team
from ekiden.core.runs import RunHooks
from ekiden.runtime import RunConfig
from tests.faults.acts import Act
from tests.faults.world import World

DatabaseName: TypeAlias = Literal["sqlite", "postgres"]
DATABASES: tuple[DatabaseName, ...] = get_args(DatabaseName)

Reasons: TypeAlias = Mapping[str, str]
"""Fault point, or its beginning up to a dot → why a scenario does not come by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A conversation whose course depends on nothing but what was said."""

    team: Callable[[World], Team]
    visits: Mapping[str, int]
    """Fault point of the runtime → how often an unharmed run passes it."""
    commits: int
    """How many transactions of the store have a step of the session."""
    unreachable: Reasons
    entry: str = "triage"
    """Who gets the first message."""
    acts: tuple[Act, ...] = ("please book A-42",)
    """What is done to the session, one after the other."""
    hooks: Callable[[World], RunHooks[Any] | None] = lambda world: None
    config: Callable[[World], RunConfig] = lambda world: RunConfig()
    streamed: bool = False
    effects: tuple[str, ...] = ("A-42",)
    """What must have been done in the end, in any order."""
    variables: Mapping[str, Any] | None = None
    """What the session must know in the end, if the scenario says."""
    undone: tuple[str, ...] = ()
    """What compensations undo, in order."""
    claims: int | None = None
    """How often a session is claimed, or something is written that is no step of one; as often as
    something is done to it, if nothing is said."""
    has_family: bool = False
    """Whether its agents ask and tell each other, so that there are several sessions."""
    is_side_by_side: bool = False
    """Whether several sessions write at the same time: then it is left to chance how many of their
    steps a store puts into one transaction."""

    def visits_on(self, database: DatabaseName) -> dict[str, int]:
        """All fault points that the scenario passes on this database, as far as can be said."""
        if self.is_side_by_side:
            return dict(self.visits)
        return {**self.visits, **_store_visits(self, database)}

    def unreachable_on(self, database: DatabaseName) -> Reasons:
        """Why the scenario does not come by the others."""
        if self.is_side_by_side:
            return {**self.unreachable, "store.": "nobody can say how often"}
        others = [name for name in DATABASES if name != database]
        return {**self.unreachable, **{f"store.{name}.": "another database" for name in others}}


def _store_visits(scenario: Scenario, database: DatabaseName) -> dict[str, int]:
    times = scenario.commits
    if database == "sqlite":
        times += scenario.claims or len(scenario.acts)  # Claims go through the same thread.
    return {f"store.{database}.before_commit": times, f"store.{database}.after_commit": times}


def is_unreachable(point: str, reasons: Reasons) -> bool:
    """Whether it is declared that a scenario does not come by `point`."""
    return any(point.startswith(beginning) for beginning in reasons)


BEGIN_AND_END = {
    "run.begin.before_commit": 1,
    "run.begin.after_commit": 1,
    "run.finish.before_commit": 1,
    "run.finish.after_commit": 1,
}


def called(times: Mapping[str, int]) -> dict[str, int]:
    """The visits before and after something is called, so many times each."""
    return _around(times, "call")


def stored(times: Mapping[str, int]) -> dict[str, int]:
    """The visits before and after something is committed, so many times each."""
    return _around(times, "commit")


def _around(times: Mapping[str, int], verb: str) -> dict[str, int]:
    return {f"{name}.{when}_{verb}": n for name, n in times.items() for when in ("before", "after")}
