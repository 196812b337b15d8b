"""Waiting for something that nothing tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(is_so: Callable[[], bool]) -> None:
    """Let others work until it is so."""
    while not is_so():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.001)
