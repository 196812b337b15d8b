"""A run that one request follows, from before its beginning until it can be answered for.

It differs from `Runs.watch` in two things. The tail is there before the run begins, so that no
piece of an answer is missed: the standards that are spoken here cannot take a piece back. And a run
that waits for agents only is not over, because nobody who reads could do anything about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from math import inf

from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.core.runs import Run
from ekiden.core.values import new_id
from ekiden.hub.tails import Shown, Tail
from ekiden.project.runs.stored_runs import ENDINGS, run_range
from ekiden.project.runs.tasks import RunOrder
from ekiden.project.service import TenantService

_FIRST_LOOK_S = 0.2
_LAST_LOOK_S = 8.0


def is_over(run: Run) -> bool:
    """Whether nothing comes any more unless a person does something."""
    if run.status == "waiting":
        return bool(run.questions)
    return not run.is_active


class FollowedRun:
    """One run, or a part of it, as a request follows it; `close` it at the end."""

    def __init__(self, desk: TenantService, tail: Tail, run_id: str) -> None:
        self._desk = desk
        self._tail = tail
        self.run_id = run_id
        self.after = tail.after
        """The number of the last event that is not part of it."""

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
                # The last event of a run may come from another process whose hint was lost, so its
                # row is looked at now and then.
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
        # The row can say that the run is over before its last events were seen here.
        async with aclosing(self._rest()) as rest:
            async for event in rest:
                yield event

    async def events(self, *, timeout_s: float) -> list[Event]:
        """All events until the run is over, or those of the time that there was; then `close`."""
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
        """The run as it stands."""
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
    """Start a run, and follow it; raises what `Runs.start` does.

    If it is `live`, models answer piece by piece, and no piece is missed.
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
    """Follow a run that others began, from the event after number `after` on."""
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
    """Follow a run that waits: what happens from now on, without missing a piece."""
    session_id = run_id.rpartition(":")[0]
    tail = await desk.tails.prepared(session_id)
    try:
        tail.begin_after(await last_event(desk, session_id))
    except BaseException:
        tail.close()
        raise
    return FollowedRun(desk, tail, run_id)
