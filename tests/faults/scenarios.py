"""The runs that are killed, and which fault points each of them passes how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ekiden.core.hooks import RunHooks
from ekiden.core.team import Team
from ekiden.runtime import RunConfig
from tests.faults import teams
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
    messages: tuple[str, ...] = ("please book A-42",)
    hooks: Callable[[World], RunHooks[Any] | None] = lambda world: None
    config: Callable[[World], RunConfig] = lambda world: RunConfig()
    streamed: bool = False
    effects: tuple[str, ...] = ("A-42",)
    """What must have been done in the end, in any order."""

    def visits_on(self, database: DatabaseName) -> dict[str, int]:
        """All fault points that the scenario passes on this database."""
        return {**self.visits, **_store_visits(self, database)}

    def unreachable_on(self, database: DatabaseName) -> Reasons:
        """Why the scenario does not come by the others."""
        others = [name for name in DATABASES if name != database]
        return {**self.unreachable, **{f"store.{name}.": "another database" for name in others}}


def _store_visits(scenario: Scenario, database: DatabaseName) -> dict[str, int]:
    times = scenario.commits
    if database == "sqlite":
        times += len(scenario.messages)  # Claims go through the same thread.
    return {f"store.{database}.before_commit": times, f"store.{database}.after_commit": times}


_BEGIN_AND_END = {
    "run.begin.before_commit": 1,
    "run.begin.after_commit": 1,
    "run.finish.before_commit": 1,
    "run.finish.after_commit": 1,
}
_NO_ROUTER = {"route.": "nobody routes"}
_NO_CODE = {"code.": "no agent is code", **_NO_ROUTER}
_NO_MODEL = {
    "turn.model.": "no agent has a model",
    "turn.tool": "tools are called by code",
    **_NO_ROUTER,
}
_NO_ROLLBACK = {"handoff.rollback.": "every target answers"}
_NO_FILTER = {"handoff.filter.": "no handoff has a filter"}
_NO_CALLBACK = {"handoff.validating.": "no handoff has a callback"}
_NO_MEMORY = {"turn.tools.after_remember": "one tool in a turn is stored with the turn"}

_RELAY = {
    **_BEGIN_AND_END,
    "turn.model.before_call": 4,
    "turn.model.after_call": 4,
    "turn.answer.before_commit": 1,
    "turn.answer.after_commit": 1,
    "turn.tool.before_call": 1,
    "turn.tool.after_call": 1,
    "turn.tools.before_commit": 1,
    "turn.tools.after_commit": 1,
    "handoff.transferring.before_commit": 2,
    "handoff.transferring.after_commit": 2,
}

SCENARIOS: dict[str, Scenario] = {
    "relay": Scenario(
        team=teams.relay,
        commits=6,
        visits=_RELAY,
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_FILTER, **_NO_CALLBACK, **_NO_MEMORY},
    ),
    "streamed": Scenario(
        team=teams.relay,
        commits=9,
        streamed=True,
        visits=_RELAY,
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_FILTER, **_NO_CALLBACK, **_NO_MEMORY},
    ),
    "filtered": Scenario(
        team=teams.filtered,
        commits=12,
        hooks=teams.NotingHooks,
        config=teams.filtering_config,
        messages=("please book A-42", "thank you, and B-7"),
        effects=("A-42", "B-7"),
        visits={
            **dict.fromkeys(_BEGIN_AND_END, 2),
            "turn.model.before_call": 6,
            "turn.model.after_call": 6,
            "turn.answer.before_commit": 4,
            "turn.answer.after_commit": 4,
            "turn.tool.before_call": 2,
            "turn.tool.after_call": 2,
            "turn.tools.before_commit": 2,
            "turn.tools.after_commit": 2,
            "handoff.validating.before_callback": 1,
            "handoff.validating.after_callback": 1,
            "handoff.filter.before_call": 2,
            "handoff.filter.after_call": 2,
            "handoff.transferring.before_commit": 2,
            "handoff.transferring.after_commit": 2,
        },
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_MEMORY},
    ),
    "parallel": Scenario(
        team=teams.parallel,
        commits=9,
        entry="desk",
        effects=("one", "two", "three", "four"),
        visits={
            **_BEGIN_AND_END,
            "turn.model.before_call": 3,
            "turn.model.after_call": 3,
            "turn.answer.before_commit": 2,
            "turn.answer.after_commit": 2,
            "turn.tool.before_call": 4,
            "turn.tool.after_call": 4,
            "turn.tools.after_remember": 3,
            "turn.tools.before_commit": 1,
            "turn.tools.after_commit": 1,
            "handoff.transferring.before_commit": 1,
            "handoff.transferring.after_commit": 1,
        },
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_FILTER, **_NO_CALLBACK},
    ),
    "rollback": Scenario(
        team=teams.rollback,
        commits=8,
        visits={
            **_BEGIN_AND_END,
            "turn.model.before_call": 5,
            "turn.model.after_call": 4,
            "turn.answer.before_commit": 2,
            "turn.answer.after_commit": 2,
            "turn.tool.before_call": 1,
            "turn.tool.after_call": 1,
            "turn.tools.before_commit": 1,
            "turn.tools.after_commit": 1,
            "handoff.filter.before_call": 1,
            "handoff.filter.after_call": 1,
            "handoff.transferring.before_commit": 2,
            "handoff.transferring.after_commit": 2,
            "handoff.rollback.before_commit": 1,
            "handoff.rollback.after_commit": 1,
        },
        unreachable={**_NO_CODE, **_NO_CALLBACK, **_NO_MEMORY},
    ),
    "routed": Scenario(
        team=teams.routed,
        commits=7,
        entry="router-agent",
        visits={
            **_BEGIN_AND_END,
            "route.assign.before_call": 2,
            "route.assign.after_call": 2,
            "route.assign.before_commit": 2,
            "route.assign.after_commit": 2,
            "turn.model.before_call": 3,
            "turn.model.after_call": 3,
            "turn.answer.before_commit": 1,
            "turn.answer.after_commit": 1,
            "turn.tool.before_call": 1,
            "turn.tool.after_call": 1,
            "turn.tools.before_commit": 1,
            "turn.tools.after_commit": 1,
            "handoff.transferring.before_commit": 1,
            "handoff.transferring.after_commit": 1,
        },
        unreachable={
            "code.": "no agent is code",
            **_NO_ROLLBACK,
            **_NO_FILTER,
            **_NO_CALLBACK,
            **_NO_MEMORY,
        },
    ),
    "code": Scenario(
        team=teams.code,
        commits=7,
        entry="front",
        effects=("one", "two", "three"),
        visits={
            **_BEGIN_AND_END,
            "code.tool.before_call": 3,
            "code.tool.after_call": 3,
            "code.tool.after_commit": 3,
            "code.answer.after_run": 3,
            "handoff.transferring.before_commit": 2,
            "handoff.transferring.after_commit": 2,
        },
        unreachable={
            **_NO_MODEL,
            **_NO_ROLLBACK,
            **_NO_FILTER,
            **_NO_CALLBACK,
            "turn.answer.": "a plain transfer is stored with its answer",
        },
    ),
    "code_rollback": Scenario(
        team=teams.code_rollback,
        commits=7,
        entry="front",
        effects=("first", "second", "third"),
        visits={
            **_BEGIN_AND_END,
            "code.tool.before_call": 3,
            "code.tool.after_call": 3,
            "code.tool.after_commit": 3,
            "code.answer.after_run": 2,
            "handoff.transferring.before_commit": 1,
            "handoff.transferring.after_commit": 1,
            "handoff.rollback.before_commit": 1,
            "handoff.rollback.after_commit": 1,
        },
        unreachable={
            **_NO_MODEL,
            **_NO_FILTER,
            **_NO_CALLBACK,
            "turn.answer.": "a plain transfer is stored with its answer",
        },
    ),
}


def is_unreachable(point: str, reasons: Reasons) -> bool:
    """Whether it is declared that a scenario does not come by `point`."""
    return any(point.startswith(beginning) for beginning in reasons)
