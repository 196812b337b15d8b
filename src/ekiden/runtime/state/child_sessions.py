"""Sessions that answer a run's questions, or were told something, and are run beside it."""

from __future__ import annotations

import asyncio


class ChildSessions:
    """The sessions of agents that a run asked or told something."""

    __slots__ = ("eager", "tasks", "told")

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """By session: those that answer the run's questions and are run beside it."""
        self.eager = False
        """Whether every answer is looked at as it comes, while others are awaited."""
        self.told: list[str] | None = None
        """Those that were told something, to be run by somebody."""

    async def stop(self, *session_ids: str) -> None:
        """Stop running these beside the run, or all; whoever wants their answer goes on with
        them."""
        chosen = session_ids or tuple(self.tasks)
        tasks = [self.tasks.pop(each) for each in chosen if each in self.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
