"""Which of very many cases are for the normal run; all others are slow tests."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pytest

from tests.faults.scenario import DatabaseName, Scenario

Kill: TypeAlias = tuple[DatabaseName, str, str]
"""A database, a scenario, and the point with the number of the visit."""
T = TypeVar("T", bound=tuple[Any, ...])


def marked(cases: Iterable[T], quick: Collection[T]) -> list[Any]:
    """The cases as parameters; those that are not `quick` are slow tests."""
    return [
        case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases
    ]


def first_visits(scenarios: Mapping[str, Scenario], database: DatabaseName) -> Iterator[Kill]:
    """Each point once, in the first scenario that comes by it."""
    seen: set[str] = set()
    for name, scenario in scenarios.items():
        for point in scenario.visits_on(database):
            if point not in seen:
                seen.add(point)
                yield database, name, f"{point}:1"


def some(cases: Sequence[T], number: int) -> list[T]:
    """So many of them, always the same."""
    return random.Random(number).sample(cases, min(number, len(cases)))
