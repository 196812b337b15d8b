"""A clock that a test moves."""

from __future__ import annotations

import asyncio

import pytest

from ekiden import UserError
from ekiden.testing import ManualClock


def test_a_manual_clock_stands_still_until_advanced() -> None:
    clock = ManualClock(start_us=1_000_000)
    assert (clock.now_us(), clock.monotonic()) == (1_000_000, 0.0)
    clock.advance(1.5)
    assert (clock.now_us(), clock.monotonic()) == (2_500_000, 1.5)


def test_small_steps_add_up_exactly() -> None:
    clock = ManualClock(start_us=0)
    for _ in range(1000):
        clock.advance(0.001)
    assert clock.now_us() == 1_000_000
    assert clock.monotonic() == 1.0


def test_a_jump_moves_the_wall_clock_only() -> None:
    clock = ManualClock(start_us=0)
    clock.jump(3600)
    assert (clock.now_us(), clock.monotonic()) == (3_600_000_000, 0.0)
    clock.jump(-7200)
    assert clock.now_us() == -3_600_000_000


def test_advancing_by_a_negative_time_is_refused() -> None:
    with pytest.raises(UserError, match=r"use jump\(\)"):
        ManualClock().advance(-1)


async def test_sleepers_wake_when_due() -> None:
    clock = ManualClock()
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(sleeper(1))
        second = group.create_task(sleeper(2))
        third = group.create_task(sleeper(2.5))
        await clock.until_sleeping(3)
        clock.advance(1)
        await first
        assert woken == [1]
        clock.jump(100)
        clock.advance(1)
        await second
        assert not third.done()
        clock.advance(10)
    assert woken == [1, 2, 2.5]


async def test_sleeping_zero_seconds_returns() -> None:
    await ManualClock().sleep(0)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    gone = asyncio.create_task(clock.sleep(1))
    await clock.until_sleeping()
    gone.cancel()
    await asyncio.wait([gone])

    other = asyncio.create_task(clock.sleep(1))
    await clock.until_sleeping(1)
    clock.advance(1)
    await other
    assert gone.cancelled()
