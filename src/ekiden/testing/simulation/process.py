"""A simulated process: its tasks, its clock, and whether it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)
"""Whose code runs; each task inherits it from whoever made it."""


class Process:
    """One life of a program: after a restart it is another one."""

    __slots__ = ("held", "is_dead", "is_frozen", "main", "name", "wall_us")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.wall_us = 0
        """How far its wall clock is off."""
        self.held: list[asyncio.Handle] = []
        """Callbacks that came due while it was frozen or dead."""
        self.main: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the program; its context marks everything that it starts as its own."""
        context = copy_context()
        context.run(PROCESS.set, self)
        self.main = asyncio.get_running_loop().create_task(work, context=context)

    def __repr__(self) -> str:
        return f"<Process {self.name}>"
