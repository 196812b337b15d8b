"""Work that is finished although its caller is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.runtime.state.calls import to_the_end


async def test_the_result_and_the_cancellation_both_come_back() -> None:
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "stored"

    caller = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    gate.set()
    result, cancelled = await caller
    assert result == "stored"
    assert isinstance(cancelled, asyncio.CancelledError)


async def test_a_failure_does_not_hide_the_cancellation() -> None:
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        raise ValueError("busy")

    caller = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await caller
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_single_failure_is_raised_unchanged() -> None:
    async def work() -> str:
        raise ValueError("busy")

    with pytest.raises(ValueError, match="busy"):
        await to_the_end(work())
