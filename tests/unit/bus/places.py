"""A place with buses on one database, as different processes would have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from ekiden.bus import Bus, BusSettings
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.roles import Escalator
from ekiden.storage.base import MessageState, Store

T = TypeVar("T")


def everywhere(test: T) -> T:
    """The test is run on every store, every time."""
    test.everywhere = True  # type: ignore[attr-defined]
    return test


class Place:
    """Buses that share a database and nothing else."""

    def __init__(self, open_store: Callable[[], Store], exits: AsyncExitStack) -> None:
        self._open_store = open_store
        self._exits = exits
        self.stores: list[Store] = []

    async def bus(self, *, people: Escalator | None = None, **settings: Any) -> Bus:
        """A bus with a connection of its own."""
        store = await self.store()
        bus = Bus(store, settings=BusSettings(**settings), people=people)
        return await self._exits.enter_async_context(bus)

    async def store(self) -> Store:
        """The database as another process sees it."""
        store = self._open_store()
        if store not in self.stores:
            self.stores.append(store)
            await self._exits.enter_async_context(store)
        return store


class Desk:
    """A handler that records its messages, and answers as configured."""

    def __init__(self, answer: Any = None, *, hold: bool = False) -> None:
        self.answer = answer
        self.seen: list[AgentMessage] = []
        self.go = asyncio.Event()
        """Set: no message is held up."""
        if not hold:
            self.go.set()
        self._came = asyncio.Condition()

    async def __call__(self, message: AgentMessage) -> Any:
        async with self._came:
            self.seen.append(message)
            self._came.notify_all()
        await self.go.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        if callable(self.answer):
            return await self.answer(message)
        return self.answer

    async def has(self, count: int = 1) -> list[AgentMessage]:
        """The messages, when so many came."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.seen) >= count)
        return self.seen

    @property
    def subjects(self) -> list[str]:
        """Of the messages that came."""
        return [message.subject for message in self.seen]


async def echo(message: AgentMessage) -> Any:
    """Answers with the payload of its message."""
    return message.payload


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when something holds."""
    while True:
        if await holds():
            return
        await asyncio.sleep(0.002)


async def becomes(bus: Bus, message_id: str, state: MessageState) -> None:
    """Return when this has become of the message."""

    async def is_so() -> bool:
        return (await bus.message(message_id)).state == state

    await until(is_so)


async def holds(bus: Bus, depth: int) -> None:
    """Return when the mailbox of sales holds so many messages."""

    async def is_so() -> bool:
        return (await bus.depths()).get("sales", 0) == depth

    await until(is_so)
