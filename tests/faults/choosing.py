"""Which of very many cases are for the normal run; all others are slow tests."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pytest

from tests.faults.scenario import DATABASES, DatabaseName, Scenario

Kill: TypeAlias = tuple[DatabaseName, str, str]
"""A database, a scenario, and the point with the number of the visit."""
T = TypeVar("T", bound=tuple[Any, ...])


def marked(cases: Iterable[T], quick: Collection[T]) -> list[Any]:
    """The cases as parameters; those that are not `quick` are slow tests."""
    return [
        case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases
    ]


def all_kills(scenarios: Mapping[str, Scenario]) -> Iterator[Kill]:
    """Each database with each scenario and each visit of each of its points."""
    for database in DATABASES:
        for name, scenario in scenarios.items():
            for point, visits in scenario.visits_on(database).items():
                for nth in range(1, visits + 1):
                    yield database, name, f"{point}:{nth}"


def one_each(kills: Sequence[Kill]) -> list[Kill]:
    """A few of them: each kind of point once, and each scenario on each database once.

    A kind is a point without its last word: ``turn.tool`` of ``turn.tool.before_call``.
    """
    chosen: list[Kill] = []
    kinds: set[str] = set()
    places: set[tuple[str, str]] = set()

    def choose(kill: Kill) -> None:
        chosen.append(kill)
        kinds.add(_kind(kill))
        places.add(kill[:2])

    for kill in kills:
        if _kind(kill) not in kinds and kill[:2] not in places:
            choose(kill)
    for kill in kills:
        if _kind(kill) not in kinds or kill[:2] not in places:
            choose(kill)
    return chosen


def _kind(kill: Kill) -> str:
    return kill[2].rpartition(".")[0]


def some(cases: Sequence[T], number: int) -> list[T]:
    """So many of them, always the same."""
    return random.Random(number).sample(cases, min(number, len(cases)))
