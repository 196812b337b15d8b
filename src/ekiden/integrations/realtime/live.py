"""A live session in memory: its turn, parts, event buffer, and the record in the store."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Item, is_message
from ekiden.core.errors import LeaseLost, StoreError, UserError
from ekiden.core.hooks import AgentHooks, RunHooks
from ekiden.core.values import new_id
from ekiden.integrations.realtime.agent import RealtimeAgent
from ekiden.integrations.realtime.config import RealtimeRunConfig
from ekiden.integrations.realtime.events import (
    RealtimeError,
    RealtimeEventInfo,
    RealtimeSessionEvent,
)
from ekiden.integrations.realtime.handoffs import AgentOffer, make_offer
from ekiden.integrations.realtime.items import RealtimeModelToolCallEvent
from ekiden.integrations.realtime.model import (
    RealtimeConnection,
    RealtimeModelSendSessionUpdate,
    ResponseGate,
)
from ekiden.runtime import RunOptions, RunState
from ekiden.runtime.live_sessions import begin_chain, end_live
from ekiden.runtime.loop.claim import claimed
from ekiden.runtime.loop.load import opened_live
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.cursor import has_open_handoffs
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore

_log = logging.getLogger("ekiden.integrations.realtime")


class SessionRecord:
    """A session that this process has claimed, and writes what happens into.

    Without a stored session it is one in memory. The claim is kept by `keep` and given up by
    `release`. Every write is one fenced transaction: once the lease is lost, all of them are
    `LeaseLost` and nothing is stored.
    """

    def __init__(self, run: RunState) -> None:
        self.run = run
        """What the runtime checks handoffs with, and records them in."""

    @classmethod
    async def open(
        cls,
        session: Session | None,
        *,
        agent: RealtimeAgent[Any],
        context: Any,
        config: RealtimeRunConfig,
    ) -> SessionRecord:
        """Claim the session, which begins with `agent` if it does not exist yet.

        `SessionBusy` while it has another owner, `UserError` if it has an unfinished text run,
        `UnknownAgent` if it belongs to an agent that cannot be reached from `agent`.
        """
        options = RunOptions(
            root=agent,
            config=config.run_config(),
            context=context,
            hooks=config.hooks,
            is_reachable=session is not None,
        )
        if session is None:
            session = Session(new_id("live"), store=MemoryStore(config.clock))
        store, draft = session.store, session.draft(agent.name)
        await store.open()
        claim, row = await claimed(store, draft.id, options.config, create=draft)
        try:
            if row.status != "idle" or has_open_handoffs(row):
                raise UserError(
                    f"session {row.id!r} has an unfinished run ({row.status}): let it end or "
                    "resume it before it continues live"
                )
            return cls(await opened_live(options, store, claim, row))
        except BaseException:
            with suppress(StoreError):
                await store.release(claim)
            raise

    def messages(self, limit: int) -> list[Item]:
        """The last messages of the conversation so far."""
        said = [item for item in self.run.visible if is_message(item)]
        return said[-limit:] if limit else []

    async def message(self, item: Item) -> None:
        """Something was said."""
        self.run.record("message", items=(item,))
        await self.run.commit()

    async def tool_call(
        self, agent: str, tool: str, items: tuple[Item, ...], *, error: str | None
    ) -> None:
        """A call and its answer."""
        details = {"tool": tool}
        self.run.record("tool_call", items=items, details=details, error=error, agent=agent)
        await self.run.commit()

    async def keep(self) -> None:
        """Renew the lease for as long as this is awaited; `LeaseLost` when that fails."""
        run = self.run
        while run.is_reachable:
            await asyncio.sleep(run.claim.lease_s / 3)
            try:
                lost = await run.store.renew([run.claim])
            except StoreError as exc:
                _log.warning("the lease could not be renewed, trying again: %s", exc)
                continue
            if lost:
                raise LeaseLost(run.session_id)

    async def release(self) -> None:
        """Give the session up; if that cannot be told to the store, the lease runs out."""
        await end_live(self.run)
        with suppress(StoreError):
            await self.run.store.release(self.run.claim)


_T = TypeVar("_T")
_E = TypeVar("_E", bound=RealtimeSessionEvent)


class EventBuffer(Generic[_T]):
    """A queue that ends, perhaps with an error, after what is in it was taken."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._events: deque[_T] = deque()
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._error: BaseException | None = None
        self.is_over = False
        """Nothing more comes."""

    def put(self, event: _T) -> None:
        """Add an event, whether there is room or not; nothing once it is over."""
        if not self.is_over:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        """Return when there is room for more."""
        while len(self._events) >= self._room and not self.is_over:
            self._taken.clear()
            await self._taken.wait()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes; the first call counts."""
        if not self.is_over:
            self.is_over, self._error = True, error
            self._changed.set()
            self._taken.set()

    async def take(self) -> _T:
        """The next event; `StopAsyncIteration`, or the error it ended with, when there is none."""
        while not self._events:
            if self.is_over:
                raise StopAsyncIteration if self._error is None else self._error
            self._changed.clear()
            await self._changed.wait()
        self._taken.set()
        return self._events.popleft()


@dataclass(slots=True, kw_only=True, eq=False)
class LiveTurn:
    """An answer of the model that is under way."""

    offer: AgentOffer
    """What the model could choose from when it began."""
    calls: dict[str, RealtimeModelToolCallEvent] = field(default_factory=dict)
    """By id, in order."""


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """What is true of the session now."""

    config: RealtimeRunConfig
    events: EventBuffer[RealtimeSessionEvent]
    connection: RealtimeConnection
    gate: ResponseGate
    offer: AgentOffer
    """Of the active agent, as the model was told."""
    record: SessionRecord
    received: str | None = None
    """What the active agent was handed, as it stands in its prompt."""
    known: set[str] = field(default_factory=set)
    """Items of the provider that are stored already, or are not to be."""
    waiting: Attempt | None = None
    """The handoff that the model asked for and that waits for approval."""
    checking: Attempt | None = None
    """The handoff that is checked now."""
    handing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One handoff at a time is checked and made."""
    switching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One change of the agent or its offer at a time."""

    @property
    def agent(self) -> RealtimeAgent[Any]:
        """The active agent."""
        return self.offer.agent

    @property
    def run(self) -> RunState:
        """The session, as the runtime knows it."""
        return self.record.run

    @property
    def context(self) -> RunContextWrapper[Any]:
        """What the agents' own functions get."""
        return self.run.context

    @property
    def info(self) -> RealtimeEventInfo:
        """What every event has."""
        return RealtimeEventInfo(context=self.context)

    def emit(self, kind: Callable[..., _E], **fields: Any) -> None:
        """Show an event to the session's iterator."""
        self.events.put(kind(info=self.info, **fields))

    def report(self, error: Exception) -> None:
        """Something went wrong that the session survives."""
        self.emit(RealtimeError, error=error)

    def heard(self) -> None:
        """The person said something."""
        begin_chain(self.run)

    async def switch(self, offer: AgentOffer) -> None:
        """From now on `offer` is what holds, and the model is told so.

        The caller has `switching`.
        """
        had_prompt = self.offer.setup.prompt is not None
        self.offer = offer
        clears = had_prompt and offer.setup.prompt is None
        await self.connection.send(
            RealtimeModelSendSessionUpdate(setup=offer.setup, clears_prompt=clears)
        )

    async def refresh(self) -> None:
        """Ask anew what the active agent is offered; tell the model if that changed.

        What a function of the agent's raises is reported, and the offer stays as it is.
        """
        agent = self.agent
        try:
            offer = await make_offer(agent, self.context, self.received)
        except Exception as exc:
            self.report(exc)
            return
        async with self.switching:
            if self.agent is not agent:
                return
            if offer.setup == self.offer.setup:
                self.offer = offer
            else:
                await self.switch(offer)

    async def answer(self) -> None:
        """Have the model answer, with what is enabled now."""
        await self.refresh()
        await self.gate.request()


async def tell_hooks(
    live: Live,
    agent: RealtimeAgent[Any],
    run: Callable[[RunHooks[Any]], Any],
    own: Callable[[AgentHooks[Any]], Any],
) -> None:
    """Call a hook of the session and of `agent`, side by side; raises what one of them raises."""
    called = []
    if live.config.hooks is not None:
        called.append(run(live.config.hooks))
    if agent.hooks is not None:
        called.append(own(agent.hooks))
    if not called:
        return
    try:
        async with asyncio.TaskGroup() as group:
            for each in called:
                group.create_task(each)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
