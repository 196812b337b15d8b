"""Follows a run until its end for one request, alone or with the sessions that answer the run. Also
converts the answers of the run's agents to messages for other standards.

A followed run differs from `Runs.watch` in two ways. Its event stream is opened before the run
begins, so that no piece of an answer is missed. This matters because other standards cannot correct
pieces later. And a run that waits only for agents is not over, because the reader cannot answer.

The run's events name the sessions that answer the run, at any depth. Events of these sessions have
no id, like deltas. So a client that reconnects continues with the run's own events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

from ekiden.core.conversation.model import Item, ModelDelta, is_message, refusal_of, text_of
from ekiden.core.errors import SessionNotFound
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, session_id_of
from ekiden.core.values import new_id
from ekiden.hub.hub import Shown, Tail
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import ENDINGS, questions_to_people, run_range
from ekiden.server.access import Caller
from ekiden.sessions import said

_FIRST_LOOK_S = 0.2
_LAST_LOOK_S = 8.0


def is_over(run: Run) -> bool:
    """Whether the run has ended, or continues only after a person's answer."""
    if run.status == "waiting":
        return bool(run.questions)
    return not run.is_active


class FollowedRun:
    """A run, or the rest of a run, that one request follows. Call `close` at the end."""

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
        """Stop following the run. The run continues."""
        self._tail.close()

    async def shown(self, *, beat_s: float = inf) -> AsyncGenerator[Shown | None, None]:
        """Events and deltas, until the run is over or the server stops. Yields `None` after
        `beat_s` seconds without an event."""
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
            async for shown in rest:
                yield shown

    async def events(self, *, timeout_s: float) -> list[Event]:
        """All events until the run is over or the timeout has passed. Calls `close` at the end."""
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

    async def _rest(self) -> AsyncGenerator[Shown, None]:
        """The events and deltas of the run that were not shown yet."""
        _, last = await run_range(self._desk.store, self.run_id)
        # Deltas that arrived while the end was looked for are only in memory.
        for shown in self._tail.received():
            if last is not None and isinstance(shown, Event) and shown.seq > last:
                return
            yield shown
        for event in await self._desk.store.events(self.session_id, after=self._tail.after):
            if last is not None and event.seq > last:
                return
            yield event


async def begin_run(desk: TenantService, order: RunOrder, *, live: bool = True) -> FollowedRun:
    """Start a run, and follow it. Raises the errors of `Runs.start`.

    With `live`, the answers of models are streamed, and no delta is missed.
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
    """Follow an existing run, from the event after event number `after`."""
    tail = desk.tails.follow(session_id_of(run_id), after=after)
    await tail.__aenter__()
    return FollowedRun(desk, tail, run_id)


async def last_event(desk: TenantService, session_id: str) -> int:
    """The number of the session's last event; 0 if the session has no event."""
    try:
        return (await desk.store.get(session_id)).seq
    except SessionNotFound:
        return 0


async def await_more(desk: TenantService, run_id: str) -> FollowedRun:
    """Follow a waiting run from now on, without missing a delta."""
    session_id = session_id_of(run_id)
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
    """An event or a delta of a session that answers the run."""

    shown: Shown
    session_id: str
    agent: str | None
    depth: int
    """1 for an agent that the run calls as a tool or asks, 2 for an agent that this agent asks, and
    so on."""


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
    """Like `Runs.watch`, with the events of sessions that answer the run. The stream does not end
    while the run waits only for these sessions."""
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
                left, after = None if task.cancelled() else task.result(), place.tail.after
                if isinstance(left, Event):
                    after = left.seq - 1  # Read again below, with the session that it may name.
                elif left is not None and left is not _END:
                    yield place.wrapped(left)
                async with aclosing(_rest(desk, place.tail.session_id, after, place.depth)) as rest:
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


# The messages of agents in a run, and answers to its questions, for other standards. Deltas of an
# answer come before the answer, and are not stored: a failure can cut them off, and they can be
# lost. The event that follows has the whole answer. Protocols that send an answer in pieces need
# deltas and events joined, which is done here.

_SILENT = frozenset({"agent_start", "agent_complete", "agent_error", "handoff", "guardrail"})
"""Event types that end an answer that was begun: no more deltas of it follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStarted:
    """A message begins."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A further part of a message."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechEnded:
    """A message is complete."""

    id: str
    text: str
    refusal: str | None = None
    """The model's refusal. A refused message has no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A message that was begun will not be completed, and does not count."""

    id: str
    text: str


Spoken: TypeAlias = SpeechStarted | Piece | SpeechEnded | Broken


def said_in(event: Event) -> list[Item]:
    """The messages of agents that the event adds to the conversation."""
    if event.type == "llm_call" or (event.type == "message" and event.step is not None):
        return [
            item
            for item in event.items
            if is_message(item) and item.get("role", "assistant") == "assistant"
        ]
    return []


def without_undone_items(events: Sequence[Event]) -> Iterator[Event]:
    """The events, without conversation items that were undone."""
    said_still = {event.seq: event for event in said(events)}
    for event in events:
        if not event.items:
            yield event
        elif event.seq in said_still:
            yield said_still[event.seq]


class Speech:
    """Combines deltas and events to messages. The id of a message is `prefix` and a number.

    Only completed messages are numbered. So the same events give the same ids, with and without
    deltas.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0
        self._used: set[str] = set()
        self._open: dict[int, tuple[str, str]] = {}
        """Begun messages by their index in the model's output: id and text so far."""

    def take(self, shown: Shown) -> Iterator[Spoken]:
        """The messages that an event or a delta begins, continues or ends."""
        if isinstance(shown, ModelDelta):
            if shown.kind == "text" and shown.text:
                yield from self._grow(shown)
            return
        messages = said_in(shown)
        if messages or shown.type == "llm_call":
            yield from self._settle(messages)
        elif shown.type in _SILENT:
            yield from self.close()

    def close(self) -> Iterator[Spoken]:
        """End all unfinished messages with `Broken`."""
        for place in sorted(self._open):
            yield from self._broken(place)

    def _grow(self, delta: ModelDelta) -> Iterator[Spoken]:
        if delta.index not in self._open:
            name = self._name(self._count + len(self._open) + 1)
            self._open[delta.index] = (name, "")
            yield SpeechStarted(id=name)
        name, text = self._open[delta.index]
        self._open[delta.index] = (name, text + delta.text)
        yield Piece(id=name, text=delta.text)

    def _settle(self, messages: Iterable[Item]) -> Iterator[Spoken]:
        places = sorted(self._open)
        for item in messages:
            text, refusal = text_of(item), refusal_of(item)
            if not text and refusal is None:
                continue
            if places:
                place = places.pop(0)
                name, so_far = self._open[place]
                if text.startswith(so_far):
                    del self._open[place]
                    self._count += 1
                    if text != so_far:
                        yield Piece(id=name, text=text[len(so_far) :])
                    yield SpeechEnded(id=name, text=text, refusal=None if text else refusal)
                    continue
                yield from self._broken(place)
            yield from self._whole(text, refusal)
        yield from self.close()

    def _whole(self, text: str, refusal: str | None) -> Iterator[Spoken]:
        self._count += 1
        name = self._name(self._count)
        yield SpeechStarted(id=name)
        if text:
            yield Piece(id=name, text=text)
        yield SpeechEnded(id=name, text=text, refusal=None if text else refusal)

    def _broken(self, place: int) -> Iterator[Spoken]:
        name, text = self._open.pop(place)
        yield Broken(id=name, text=text)

    def _name(self, number: int) -> str:
        """A new id for this number; different from that of a message that broke off."""
        name = f"{self._prefix}{number}"
        while name in self._used:
            name += "b"
        self._used.add(name)
        return name


VIA = "http"


def choices(item: InboxItem) -> tuple[str, str] | None:
    """The options that mean approve and reject; `None` for a question that is not an approval."""
    if item.kind in ("confirmation", "approval") and len(item.options) == 2:
        return item.options[0], item.options[1]
    return None


async def check_asked(desk: TenantService, session_id: str, item_ids: Iterable[str]) -> None:
    """Raise `InboxAnswerInvalid` if neither this session nor an agent that it asked has asked the
    question. Raise `InboxItemNotFound` for an unknown question."""
    waits = {item.id for item in await questions_to_people(desk.store, session_id)}
    for item_id in item_ids:
        if item_id not in waits and (await desk.inbox.get(item_id)).session_id != session_id:
            raise InboxAnswerInvalid(
                f"inbox item {item_id[:80]} was not asked in session {session_id!r}"
            )


async def decide(
    desk: TenantService,
    caller: Caller,
    item_id: str,
    *,
    approve: bool | None = None,
    choice: str | None = None,
    text: str = "",
    arguments: str | None = None,
) -> InboxItem:
    """Answer an inbox item in the name of the caller: approve or reject it, or give `choice` and
    `text`.

    The same answer may be repeated, because clients retry a request whose response is lost. Raises
    `Forbidden` without the scope `answer`, `InboxForbidden` for agents, and the errors of
    `Inbox.answer`.
    """
    caller.check("answer")
    item = await desk.inbox.get(item_id)
    if approve is not None:
        pair = choices(item)
        if pair is None:
            raise InboxAnswerInvalid(
                f"inbox item {item.id} does not take a yes or a no: answer it in the inbox"
            )
        choice = pair[0] if approve else pair[1]
    try:
        return await desk.inbox.answer(
            item.id,
            by=caller.name,
            choice=choice,
            text=text,
            arguments=arguments,
            confirm_edit=arguments is not None,
            via=VIA,
        )
    except InboxItemClosed:
        there = await desk.inbox.get(item_id)
        if there.answer is None or there.answer.by != caller.name:
            raise
        same = there.answer.choice == choice if there.options else there.answer.text == text
        if not same:
            raise
        return there
