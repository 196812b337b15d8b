"""A run that one request follows until its end, alone or with the sessions that answer it.

A followed run differs from `Runs.watch` in two ways. Its tail is opened before the run begins, so
that no piece of an answer is missed: other standards cannot take a piece back. And a run that waits
only for agents is not over, because the reader can do nothing about it.

Sessions that answer the run, at any depth, are named by the events that ask them. Their events have
no id, like deltas: a client that reconnects continues with the run's own events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.core.runs import Run
from ekiden.core.values import new_id
from ekiden.hub.tails import Shown, Tail
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import ENDINGS, run_range

_FIRST_LOOK_S = 0.2
_LAST_LOOK_S = 8.0


def is_over(run: Run) -> bool:
    """Whether the run has ended, or continues only after a person's answer."""
    if run.status == "waiting":
        return bool(run.questions)
    return not run.is_active


class FollowedRun:
    """A run, or its rest, that one request follows; `close` it at the end."""

    def __init__(self, desk: TenantService, tail: Tail, run_id: str) -> None:
        self._desk = desk
        self._tail = tail
        self.run_id = run_id
        self.after = tail.after
        """The number of the last event before it."""

    @property
    def session_id(self) -> str:
        """The session of the run."""
        return self._tail.session_id

    def close(self) -> None:
        """Stop following; the run continues."""
        self._tail.close()

    async def shown(self, *, beat_s: float = inf) -> AsyncGenerator[Shown | None, None]:
        """Events and deltas, until the run is over or the server stops; `None` when nothing
        happened for `beat_s` seconds."""
        clock = asyncio.get_running_loop()
        look_s, beat_at = _FIRST_LOOK_S, clock.time() + beat_s
        while True:
            try:
                async with asyncio.timeout(min(look_s, beat_s)):
                    shown = await anext(self._tail)
            except StopAsyncIteration:
                return
            except TimeoutError:
                # The notification of the last event, by another process, can be lost: read the
                # session's row at growing intervals.
                look_s = min(look_s * 2, _LAST_LOOK_S)
                if await self._is_over():
                    break
                if clock.time() >= beat_at:
                    beat_at = clock.time() + beat_s
                    yield None
                continue
            look_s, beat_at = _FIRST_LOOK_S, clock.time() + beat_s
            yield shown
            if isinstance(shown, Event) and shown.type in ENDINGS and await self._is_over():
                break
        # The row can show the end before the last events arrive here.
        async with aclosing(self._rest()) as rest:
            async for event in rest:
                yield event

    async def events(self, *, timeout_s: float) -> list[Event]:
        """All events until the run is over, or until the timeout; then `close`."""
        found: list[Event] = []
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s), aclosing(self.shown()) as stream:
                    async for shown in stream:
                        found += [shown] if isinstance(shown, Event) else []
        finally:
            self.close()
        return found

    async def read(self) -> Run:
        """The current state of the run."""
        return await self._desk.runs.read(self.run_id)

    async def _is_over(self) -> bool:
        return is_over(await self.read())

    async def _rest(self) -> AsyncGenerator[Event, None]:
        """The stored events of the run that were not shown yet."""
        _, last = await run_range(self._desk.store, self.run_id)
        for event in await self._desk.store.events(self.session_id, after=self._tail.after):
            if last is not None and event.seq > last:
                return
            yield event


async def begin_run(desk: TenantService, order: RunOrder, *, live: bool = True) -> FollowedRun:
    """Start a run, and follow it; raises the errors of `Runs.start`.

    With `live` the answers of models are streamed, and no delta is missed.
    """
    session_id = order.session_id or new_id("ses")
    order = replace(order, session_id=session_id)
    if not live:
        started = await desk.runs.start(order)
        return await join_run(desk, started.run_id, after=started.after)
    tail = await desk.tails.prepared(session_id)
    try:
        started = await desk.runs.start(order)
    except BaseException:
        tail.close()
        raise
    tail.begin_after(started.after)
    return FollowedRun(desk, tail, started.run_id)


async def join_run(desk: TenantService, run_id: str, *, after: int) -> FollowedRun:
    """Follow an existing run, from the event after number `after`."""
    tail = desk.tails.follow(run_id.rpartition(":")[0], after=after)
    await tail.__aenter__()
    return FollowedRun(desk, tail, run_id)


async def last_event(desk: TenantService, session_id: str) -> int:
    """The number of the session's last event; 0 if there is none."""
    try:
        return (await desk.store.get(session_id)).seq
    except SessionNotFound:
        return 0


async def await_more(desk: TenantService, run_id: str) -> FollowedRun:
    """Follow a waiting run from now on, without missing a delta."""
    session_id = run_id.rpartition(":")[0]
    tail = await desk.tails.prepared(session_id)
    try:
        tail.begin_after(await last_event(desk, session_id))
    except BaseException:
        tail.close()
        raise
    return FollowedRun(desk, tail, run_id)


_END: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Something that happened in a session that answers the run."""

    shown: Shown
    session_id: str
    agent: str | None
    depth: int
    """1 for an agent that the run calls as a tool or asks, 2 for one that this one asks, …"""


class _Followed:
    """One of the followed sessions."""

    def __init__(self, stream: AsyncIterator[Shown | None], tail: Tail | None, depth: int) -> None:
        self.stream = stream
        self.tail = tail
        self.depth = depth
        self.agent: str | None = None

    def wrapped(self, shown: Shown | None) -> Shown | Inner | None:
        """The event or delta as observers get it; that of an inner session is wrapped."""
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
    """As `Runs.watch`, with the events of sessions that answer the run; while it waits only for
    them, it is not over."""
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
    followed: dict[asyncio.Task[Any], _Followed] = {}

    def go_on(place: _Followed) -> None:
        followed[asyncio.ensure_future(anext(place.stream, _END))] = place

    async def follow_asked(shown: Shown | None, depth: int) -> None:
        child = asked_session(shown)
        if child is not None:
            tail = desk.tails.follow(child, after=0)
            await tail.__aenter__()
            go_on(_Followed(tail, tail, depth + 1))

    async with aclosing(watching):
        go_on(_Followed(watching, None, 0))
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
                    yield place.wrapped(shown)
            for task, place in list(followed.items()):
                assert place.tail is not None
                task.cancel()  # Nothing is lost: a task that is already done has its result.
                await asyncio.wait({task})
                left = None if task.cancelled() else task.result()
                if left is not None and left is not _END:
                    yield place.wrapped(left)
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
    """The stored events of a session that were not shown yet, and those of its inner sessions."""
    for event in await desk.store.events(session_id, after=after):
        yield Inner(shown=event, session_id=session_id, agent=event.agent, depth=depth)
        child = asked_session(event)
        if child is not None:
            async with aclosing(_rest(desk, child, 0, depth + 1)) as rest:
                async for inner in rest:
                    yield inner


def asked_session(shown: Shown | None) -> str | None:
    """The session to which an event sends a query or a notification."""
    if not isinstance(shown, Event) or shown.type != "message":
        return None
    details = shown.details or {}
    found: str | None = (details.get("asks") or details.get("tells") or {}).get("session")
    return found
