"""The stream of a run together with those of the sessions that answer it, at any depth.

A session that answers is named by the event that asks it. Its events have no id, like deltas: a
client that connects again continues with the run's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ekiden.core.events import Event
from ekiden.hub.tails import Shown, Tail
from ekiden.project.runs.stored_runs import run_range
from ekiden.project.service import TenantService
from ekiden.server.streams.follow import join_run

_END: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Something that happened in a session that answers the run."""

    shown: Shown
    session_id: str
    agent: str | None
    depth: int
    """1 for an agent that the run calls as a tool or asks, 2 for one that this one asks, …"""


class _Place:
    """One of the sessions that are followed."""

    def __init__(self, stream: AsyncIterator[Shown | None], tail: Tail | None, depth: int) -> None:
        self.stream = stream
        self.tail = tail
        self.depth = depth
        self.agent: str | None = None

    def told(self, shown: Shown | None) -> Shown | Inner | None:
        """What observers are shown of it."""
        if isinstance(shown, Event):
            self.agent = shown.agent or self.agent
        if self.tail is None or shown is None:
            return shown
        return Inner(
            shown=shown, session_id=self.tail.session_id, agent=self.agent, depth=self.depth
        )


async def watch_with_children(
    desk: TenantService, run_id: str, *, after: int | None, through_waits: bool, quiet_s: float
) -> AsyncGenerator[Shown | Inner | None, None]:
    """As `Runs.watch`, with what happens in sessions that answer the run: while it waits for them
    only, it is not over."""
    if through_waits:
        watching = desk.runs.watch(run_id, after=after, through_waits=True, quiet_s=quiet_s)
        async with aclosing(_merged(desk, watching)) as merged:
            async for shown in merged:
                yield shown
        return
    if after is None:
        first, _ = await run_range(desk.store, run_id)
        after = first - 1
    followed = await join_run(desk, run_id, after=after)
    try:
        async with aclosing(_merged(desk, followed.shown(beat_s=quiet_s))) as merged:
            async for shown in merged:
                yield shown
    finally:
        followed.close()


async def _merged(
    desk: TenantService, watching: AsyncGenerator[Shown | None, None]
) -> AsyncGenerator[Shown | Inner | None, None]:
    followed: dict[asyncio.Task[Any], _Place] = {}

    def go_on(place: _Place) -> None:
        followed[asyncio.ensure_future(anext(place.stream, _END))] = place

    async def follow_asked(shown: Shown | None, depth: int) -> None:
        child = asked_session(shown)
        if child is not None:
            tail = desk.tails.follow(child, after=0)
            await tail.__aenter__()
            go_on(_Place(tail, tail, depth + 1))

    async with aclosing(watching):
        go_on(_Place(watching, None, 0))
        is_over = False
        try:
            while not is_over:
                done, _ = await asyncio.wait(followed, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    place = followed.pop(task)
                    shown = task.result()
                    if shown is _END:
                        is_over = is_over or place.tail is None
                        continue
                    await follow_asked(shown, place.depth)
                    go_on(place)
                    yield place.told(shown)
            for task, place in list(followed.items()):
                assert place.tail is not None
                task.cancel()  # This loses nothing; if it comes too late, there is a result.
                await asyncio.wait({task})
                left = None if task.cancelled() else task.result()
                if left is not None and left is not _END:
                    yield place.told(left)
                async with aclosing(
                    _rest(desk, place.tail.session_id, place.tail.after, place.depth)
                ) as rest:
                    async for inner in rest:
                        yield inner
        finally:
            for task in followed:
                task.cancel()
            await asyncio.gather(*followed, return_exceptions=True)
            for place in followed.values():
                if place.tail is not None:
                    place.tail.close()


async def _rest(
    desk: TenantService, session_id: str, after: int, depth: int
) -> AsyncGenerator[Inner, None]:
    """What is stored of a session, and of those that answer it, and was not shown yet."""
    for event in await desk.store.events(session_id, after=after):
        yield Inner(shown=event, session_id=session_id, agent=event.agent, depth=depth)
        child = asked_session(event)
        if child is not None:
            async with aclosing(_rest(desk, child, 0, depth + 1)) as rest:
                async for inner in rest:
                    yield inner


def asked_session(shown: Shown | None) -> str | None:
    """The session that an event asks or tells something."""
    if not isinstance(shown, Event) or shown.type != "message":
        return None
    details = shown.details or {}
    found: str | None = (details.get("asks") or details.get("tells") or {}).get("session")
    return found
