"""The hint that something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ekiden.storage import timers
from ekiden.storage.timers import ChangeSignal


async def test_each_change_wakes_a_waiting_task_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, signal = asyncio.get_running_loop(), ChangeSignal()
    echoes: list[Callable[[], object]] = []

    def later(delay: float, callback: Callable[..., object], *args: Any, **_: Any) -> None:
        assert delay == timers._ECHO_S
        echoes.append(lambda: callback(*args))

    await signal.wait(0)
    monkeypatch.setattr(loop, "call_later", later)
    signal.notify()
    signal.notify()
    echoes.pop()()  # It is too early for whoever looked just before the second change.
    monkeypatch.undo()
    await asyncio.create_task(signal.wait(0))  # Another task has seen it.
    waiting = asyncio.create_task(signal.wait(3600))
    await asyncio.sleep(0)
    echoes.pop()()
    async with asyncio.timeout(10):
        await waiting
    assert not echoes
