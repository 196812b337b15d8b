"""Agents whose code ignores cancellation; each says in a file that it began."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from ekiden import Agent, CodeContext, Team

_LONG_S = 600.0
"""Longer than anybody waits for them."""


def _began(name: str) -> None:
    (Path(os.environ["RELAY_FOLDER"]) / f"{name}.began").touch()


async def _ignores(ctx: CodeContext[Any]) -> str:
    _began("ignores")
    end = time.monotonic() + _LONG_S
    while time.monotonic() < end:
        try:
            await asyncio.sleep(_LONG_S)
        except asyncio.CancelledError:
            continue
    return "too late"


async def _threads(ctx: CodeContext[Any]) -> str:
    def wait() -> None:
        _began("threads")
        time.sleep(_LONG_S)

    await asyncio.to_thread(wait)
    return "too late"


team = Team(Agent("ignores", run=_ignores), Agent("threads", run=_threads))
