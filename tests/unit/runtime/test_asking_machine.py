"""Whatever agents ask, tell and wait for, and whichever process dies: nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, note, settings, strategies as st

from tests.unit.runtime.asking_machine.play import Play
from tests.unit.runtime.asking_machine.programs import draw_story
from tests.unit.runtime.handoff_machine.dice import Dice

LENGTH = 400
"""Bytes that every story can be made of."""
throws = st.binary(min_size=LENGTH, max_size=LENGTH)

OFTEN = {
    "answered", "failed", "timed_out", "cancelled", "deadlocks", "withdrawn", "people", "paid",
    "tells", "deaths",
}  # fmt: skip
SELDOM = {"rolled back"}


def play_stories(number: int, *, derandomize: bool) -> Counter[str]:
    """Play so many stories; how often what came about."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=number,
        deadline=None,
        derandomize=derandomize,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(throws)
    def play(throws: bytes) -> None:
        story = draw_story(Dice(throws))
        note(f"{story}")
        seen.update(asyncio.run(Play(story).run()))

    play()
    return seen


def test_every_question_ends_once_and_leaves_nothing_waiting() -> None:
    assert set(+play_stories(120, derandomize=True)) >= OFTEN


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_question_ends_once_in_many_more_stories() -> None:
    assert set(+play_stories(5_000, derandomize=False)) >= OFTEN | SELDOM
