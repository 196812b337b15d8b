"""Taking a session in order to run it: with a new message, or where it was left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import SessionBusy, SessionError, StoreError, UserError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.hooks import RunHooks
from ekiden.core.ids import new_id
from ekiden.core.items import Item, function_output, to_items
from ekiden.core.team import Team
from ekiden.runtime.calls import to_the_end
from ekiden.runtime.config import RunConfig
from ekiden.runtime.cursor import Cursor
from ekiden.runtime.finish import park
from ekiden.runtime.leases import keeper_of, owner_name
from ekiden.runtime.state import REDACTED, RunState
from ekiden.sessions import Session, history_length, open_calls, visible_items
from ekiden.storage.base import (
    Claim,
    Commit,
    NewSession,
    SessionPatch,
    SessionRow,
    SessionStatus,
    Store,
)
from ekiden.storage.memory import MemoryStore


@dataclass(slots=True, kw_only=True)
class Circumstances:
    """What a run brings along and a store does not keep."""

    root: Agent[Any] | Team
    config: RunConfig
    context: Any = None
    hooks: RunHooks[Any] | None = None
    live: bool = False
    left_as: SessionStatus = "idle"
    """What the session is when the run is cancelled: `ready` if others are to go on with it."""

    @property
    def entry(self) -> Agent[Any]:
        """Who gets a new conversation."""
        return self.root.entry if isinstance(self.root, Team) else self.root

    def find(self, name: str) -> Agent[Any]:
        """A member of the team; `UnknownAgent`."""
        if isinstance(self.root, Agent):
            if self.root.name == name:
                return self.root
            self.root = Team(self.root)
        return self.root[name]


@asynccontextmanager
async def begun(
    around: Circumstances, input: str | Iterable[Any], session: Session | None
) -> AsyncIterator[RunState]:
    """A run for a new message, its message stored; the session is free again afterwards."""
    items = tuple(to_items(input))
    entry = around.entry
    if session is None:
        store: Store = MemoryStore(around.config.clock)
        draft = NewSession(id=new_id("ses"), agent=entry.name)
    else:
        store, draft = session.store, session.draft(entry.name)
        await store.open()
    claim, row = await _claim(store, draft.id, around.config, create=draft)
    async with _owned(store, claim):
        run = await _first_step(around, store, claim, row, items)
        async with _parked_if_left(run, around.left_as):
            yield run


async def submit(around: Circumstances, input: str | Iterable[Any], session: Session) -> None:
    """Store a message and leave the work to whoever claims the session: a worker."""
    items = tuple(to_items(input))
    await session.store.open()
    draft = session.draft(around.entry.name)
    claim, row = await _claim(session.store, draft.id, around.config, create=draft)
    async with _owned(session.store, claim):
        await _first_step(around, session.store, claim, row, items, release=True)


@asynccontextmanager
async def resumed(around: Circumstances, session: Session) -> AsyncIterator[RunState]:
    """The run that was left unfinished; `UserError` if the session has none."""
    await session.store.open()
    claim, row = await _claim(session.store, session.session_id, around.config)
    async with taken_up(around, session.store, claim, row) as run:
        yield run


@asynccontextmanager
async def taken_up(
    around: Circumstances, store: Store, claim: Claim, row: SessionRow
) -> AsyncIterator[RunState]:
    """The unfinished run of a session that was claimed already.

    A worker (`left_as` is `ready`) that cannot take it up stores that as the session's failure:
    otherwise it would be claimed again at once, for ever.
    """
    async with _owned(store, claim):
        try:
            run = await _next_step(around, store, claim, row, Cursor.from_json(row.cursor))
        except UserError as exc:
            if around.left_as == "ready":
                await _set_aside(store, claim, row, exc, around.config)
            raise
        async with _parked_if_left(run, around.left_as):
            yield run


async def _set_aside(
    store: Store, claim: Claim, row: SessionRow, exc: UserError, config: RunConfig
) -> None:
    failed = Event(
        session_id=row.id,
        seq=row.seq + 1,
        type="agent_error",
        at_us=config.clock.now_us(),
        agent=row.agent,
        details={"outcome": "failed", "code": exc.code},
        error=str(exc) if config.trace_include_sensitive_data else REDACTED,
    )
    patch = SessionPatch(status="idle", outcome="failed")
    await store.commit(claim, Commit(patch=patch, events=[failed], release=True))


async def _claim(
    store: Store, session_id: str, config: RunConfig, *, create: NewSession | None = None
) -> tuple[Claim, SessionRow]:
    try:
        return await _take(store, session_id, config, create)
    except SessionBusy:
        if config.on_busy == "refuse":
            raise
    deadline = config.clock.monotonic() + config.busy_timeout_s
    while True:
        try:
            return await _take(store, session_id, config, create)
        except SessionBusy as busy:
            left = deadline - config.clock.monotonic()
            if left <= 0:
                raise
            await store.wait_for_change(min(left, max(busy.free_in_s, 0.05)))


async def _take(
    store: Store, session_id: str, config: RunConfig, create: NewSession | None
) -> tuple[Claim, SessionRow]:
    """Claim the session; whoever is cancelled meanwhile does not leave it claimed by nobody."""
    claiming = store.claim(session_id, owner=owner_name(), lease_s=config.lease_s, create=create)
    if not store.shared:
        return await claiming
    taken, cancelled = await to_the_end(claiming)
    if cancelled is not None:
        await store.release(taken[0])
        raise cancelled
    return taken


@asynccontextmanager
async def _owned(store: Store, claim: Claim) -> AsyncIterator[None]:
    """Keep the lease during the body; give it up if the body did not get as far as doing so."""
    try:
        if store.shared:
            async with keeper_of(store).hold(claim):
                yield
        else:
            yield
    except BaseException:
        with suppress(StoreError):
            await asyncio.shield(store.release(claim))
        raise


@asynccontextmanager
async def _parked_if_left(run: RunState, status: SessionStatus) -> AsyncIterator[None]:
    """Park the run if the body is cancelled, or stops before the run is over.

    Where that cannot be stored, the session is free when its lease has run out.
    """
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        await _park(run, status)
        raise
    await _park(run, status)


async def _park(run: RunState, status: SessionStatus) -> None:
    if run.outcome is None:
        with suppress(SessionError, StoreError):
            await asyncio.shield(park(run, status))


async def _first_step(
    around: Circumstances,
    store: Store,
    claim: Claim,
    row: SessionRow,
    items: tuple[Item, ...],
    *,
    release: bool = False,
) -> RunState:
    events: Sequence[Event] = ()
    visible: list[Item] = []
    cursor = Cursor.from_json(row.cursor)
    if row.seq:
        events = await store.events(row.id, with_items=True)
        visible = await _view(store, row.id, events, cursor)
        items = (*_unanswered(events), *items)
    if not items:
        raise UserError("a run needs a message: the input is empty")
    agent = around.find(row.agent)
    run = _state(around, store, claim, row, agent, cursor, visible)
    run.cursor = cursor.next_run(agent=agent.name, first=row.seq + 1)
    run.context.usage = run.cursor.usage
    run.record("message", items=items)
    run.history_length = len(run.visible)
    fault_point("run.begin.before_commit")
    await run.commit(status="ready", outcome="", release=release)
    fault_point("run.begin.after_commit")
    return run


async def _next_step(
    around: Circumstances, store: Store, claim: Claim, row: SessionRow, cursor: Cursor
) -> RunState:
    if cursor.phase == "end":
        raise UserError(
            f"session {row.id!r} has nothing to resume: its last run ended; send a message"
        )
    events = await store.events(row.id, with_items=True)
    visible = await _view(store, row.id, events, cursor)
    run = _state(around, store, claim, row, around.find(row.agent), cursor, visible)
    run.events = list(await store.events(row.id, after=cursor.first - 1))
    cursor.mistakes = cursor.rollbacks = 0
    base = visible[: len(visible) - _count(events, cursor)] if cursor.base else []
    run.history_length = history_length(events, base=base, after=cursor.after, first=cursor.first)
    prefix = run.step_key("")
    run.memo = {
        **await store.steps(row.id, prefix=prefix),
        **{event.step: _replay(event) for event in run.events
           if event.step and event.step.startswith(prefix + "c")},
    }  # fmt: skip
    return run


def _state(
    around: Circumstances,
    store: Store,
    claim: Claim,
    row: SessionRow,
    agent: Agent[Any],
    cursor: Cursor,
    visible: list[Item],
) -> RunState:
    return RunState(
        store=store,
        claim=claim,
        root=around.root,
        agent=agent,
        cursor=cursor,
        seq=row.seq,
        visible=visible,
        variables=row.variables,
        config=around.config,
        context=around.context,
        hooks=around.hooks,
        live=around.live,
    )


async def _view(
    store: Store, session_id: str, events: Sequence[Event], cursor: Cursor
) -> list[Item]:
    base: list[Item] = []
    if cursor.base is not None:
        stored: Mapping[str, Any] = await store.steps(session_id, prefix=cursor.base)
        base = stored[cursor.base]
    return visible_items(events, base=base, after=cursor.after)


def _count(events: Sequence[Event], cursor: Cursor) -> int:
    return len(visible_items(events, after=cursor.after))


def _unanswered(events: Sequence[Event]) -> list[Item]:
    """Outputs for calls that an abandoned run left open: no model takes a call without one."""
    told = "Error: this call was not finished; the person wrote again instead"
    return [function_output(call["call_id"], told) for call in open_calls(events)]


def _replay(event: Event) -> tuple[Any, str | None, bool]:
    """What a code agent's call gave, from the event that recorded it."""
    return event.items[-1]["output"], event.error, bool((event.details or {}).get("json"))
