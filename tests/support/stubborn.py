"""Code that ignores cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.agent import Agent
from ekiden.runtime import CodeContext


class Stubborn:
    """An agent whose code ignores cancellation until the gate is open."""

    def __init__(self, name: str = "stubborn") -> None:
        self.begun, self.gate, self.ignored = asyncio.Event(), asyncio.Event(), 0

        async def code(ctx: CodeContext[Any]) -> str:
            self.begun.set()
            while not self.gate.is_set():
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self.ignored += 1
            return "done after all"

        self.agent = Agent(name, run=code)
