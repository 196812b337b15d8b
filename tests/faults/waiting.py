"""Waiting for facts, never for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 120.0
"""A timeout for a busy machine; a passing test never waits that long."""


async def until(fact: Callable[[], bool], what: str) -> None:
    """Return as soon as `fact` is true; fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s in vain until {what}"
        await asyncio.sleep(0.02)
