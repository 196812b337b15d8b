"""The state of a live session, its events and their buffer, and its record in the store."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Item, is_message
from ekiden.core.errors import LeaseLost, StoreError, UserError
from ekiden.core.runs import AgentHooks, RunHooks
from ekiden.core.tools.tool import Tool
from ekiden.core.values import new_id
from ekiden.integrations.realtime.agent import AgentOffer, RealtimeAgent, make_offer
from ekiden.integrations.realtime.items import (
    RealtimeItem,
    RealtimeModelAudioEvent,
    RealtimeModelEvent,
    RealtimeModelToolCallEvent,
)
from ekiden.integrations.realtime.model import (
    RealtimeConnection,
    RealtimeModelSendSessionUpdate,
    RealtimeRunConfig,
    ResponseGate,
)
from ekiden.runtime import RunOptions, RunState
from ekiden.runtime.live_sessions import begin_chain, end_live
from ekiden.runtime.loop.claim import claimed
from ekiden.runtime.loop.load import opened_live
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.calls import both
from ekiden.runtime.state.cursor_handoffs import has_open_handoffs
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeEventInfo:
    """Data that is part of every event."""

    context: RunContextWrapper[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAgentStartEvent:
    """The active agent begins an answer."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAgentEndEvent:
    """The agent's answer has ended, or was interrupted."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHandoffEvent:
    """Another agent has the conversation now."""

    from_agent: RealtimeAgent[Any]
    to_agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeToolStart:
    """A tool is about to run."""

    agent: RealtimeAgent[Any]
    tool: Tool
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_start"] = "tool_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeToolEnd:
    """A tool returned, or failed."""

    agent: RealtimeAgent[Any]
    tool: Tool
    arguments: str
    output: Any
    """The result of the tool. If the tool failed, the error text for the model."""
    info: RealtimeEventInfo
    type: Literal["tool_end"] = "tool_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAudio:
    """Audio to be played."""

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAudioEnd:
    """The audio of this part is complete."""

    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio_end"] = "audio_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeAudioInterrupted:
    """Stop the playback, because the person speaks or the answer was stopped."""

    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHistoryAdded:
    """A new item was added to the conversation."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeHistoryUpdated:
    """Items of the conversation were changed or removed."""

    history: Sequence[RealtimeItem]
    """The whole current conversation."""
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeError:
    """An error. If the error ends the session, this event is the last one, and the iteration then
    raises the error."""

    error: Exception
    info: RealtimeEventInfo
    type: Literal["error"] = "error"

    @property
    def code(self) -> str:
        """The stable code of the error; empty for an exception that is not an `EkidenError`."""
        return str(getattr(self.error, "code", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeRawModelEvent:
    """An unchanged event of the model. The events that the session creates from this event
    follow."""

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


RealtimeSessionEvent: TypeAlias = (
    RealtimeAgentStartEvent
    | RealtimeAgentEndEvent
    | RealtimeHandoffEvent
    | RealtimeToolStart
    | RealtimeToolEnd
    | RealtimeAudio
    | RealtimeAudioEnd
    | RealtimeAudioInterrupted
    | RealtimeHistoryAdded
    | RealtimeHistoryUpdated
    | RealtimeError
    | RealtimeRawModelEvent
)


_log = logging.getLogger("ekiden.integrations.realtime")


class SessionRecord:
    """The claimed session in which a live session is recorded.

    Without a stored session, this is a session in memory. `keep` renews the lease, and `release`
    releases the lease. Every write is one fenced transaction: after the lease is lost, all writes
    raise `LeaseLost`.
    """

    def __init__(self, run: RunState) -> None:
        self.run = run
        """The run in which the runtime checks and records handoffs."""

    @classmethod
    async def open(
        cls,
        session: Session | None,
        *,
        agent: RealtimeAgent[Any],
        context: Any,
        config: RealtimeRunConfig,
    ) -> SessionRecord:
        """Claim the session, or create it with `agent` as its active agent.

        Raises `SessionBusy` while the session has another owner, and `UserError` if the session has
        an unfinished text run. Raises `UnknownAgent` if the agent of the session cannot be reached
        from `agent`.
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
        """The last messages of the stored conversation."""
        messages = [item for item in self.run.visible if is_message(item)]
        return messages[-limit:] if limit else []

    async def message(self, item: Item) -> None:
        """Store a message."""
        self.run.record("message", items=(item,))
        await self.run.commit()

    async def tool_call(
        self, agent: str, tool: str, items: tuple[Item, ...], *, error: str | None
    ) -> None:
        """Store a tool call with its output."""
        details = {"tool": tool}
        self.run.record("tool_call", items=items, details=details, error=error, agent=agent)
        await self.run.commit()

    async def keep(self) -> None:
        """Renew the lease until cancelled. Raises `LeaseLost`."""
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
        """Release the session."""
        await end_live(self.run)
        with suppress(StoreError):  # The lease expires by itself.
            await self.run.store.release(self.run.claim)


_T = TypeVar("_T")
_E = TypeVar("_E", bound=RealtimeSessionEvent)


class EventBuffer(Generic[_T]):
    """A queue of events that can be ended. The queue may end with an error, which follows the
    queued events."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._events: deque[_T] = deque()
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._error: BaseException | None = None
        self.is_over = False
        """Whether the queue was ended."""

    def put(self, event: _T) -> None:
        """Add an event, even if the queue is full. If the queue has ended, the event is dropped."""
        if not self.is_over:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        """Wait until the queue has room, or has ended."""
        while len(self._events) >= self._room and not self.is_over:
            self._taken.clear()
            await self._taken.wait()

    def end(self, error: BaseException | None = None) -> None:
        """End the queue. Only the first call has an effect."""
        if not self.is_over:
            self.is_over, self._error = True, error
            self._changed.set()
            self._taken.set()

    async def take(self) -> _T:
        """Return the next event. At the end of the queue, raises the error of the queue, or
        `StopAsyncIteration`."""
        while not self._events:
            if self.is_over:
                raise StopAsyncIteration if self._error is None else self._error
            self._changed.clear()
            await self._changed.wait()
        self._taken.set()
        return self._events.popleft()


@dataclass(slots=True, kw_only=True, eq=False)
class LiveTurn:
    """An answer of the model that is in progress."""

    offer: AgentOffer
    """The instructions, tools and handoffs at the start of the answer."""
    calls: dict[str, RealtimeModelToolCallEvent] = field(default_factory=dict)
    """The calls by id, in order."""
    is_interrupted: bool = False
    """Whether the caller interrupted the answer, so that its audio is no longer shown."""


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """The current state of a live session."""

    config: RealtimeRunConfig
    events: EventBuffer[RealtimeSessionEvent]
    connection: RealtimeConnection
    responses: ResponseGate
    offer: AgentOffer
    """The instructions, tools and handoffs that the model has now."""
    record: SessionRecord
    received: str | None = None
    """The text about the last handoff, which follows the agent's instructions."""
    stored: set[str] = field(default_factory=set)
    """The provider's ids of items that are already stored, or must not be stored."""
    waiting: Attempt | None = None
    """The requested handoff that waits for approval."""
    checking: Attempt | None = None
    """The handoff that is being checked."""
    handing_over: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock that is held during a handoff, so that there is only one handoff at a time."""
    switching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock that is held during a change of the agent or of its offer."""

    @property
    def agent(self) -> RealtimeAgent[Any]:
        """The active agent."""
        return self.offer.agent

    @property
    def run(self) -> RunState:
        """The state of the run in the runtime."""
        return self.record.run

    @property
    def context(self) -> RunContextWrapper[Any]:
        """The context for the agents' own functions."""
        return self.run.context

    def emit(self, kind: Callable[..., _E], **fields: Any) -> None:
        """Add an event for the session's iterator."""
        self.events.put(kind(info=RealtimeEventInfo(context=self.context), **fields))

    def report(self, error: Exception) -> None:
        """Emit an error that does not end the session."""
        self.emit(RealtimeError, error=error)

    def heard(self) -> None:
        """Note that the person said something, which begins a new chain of handoffs."""
        begin_chain(self.run)

    async def switch(self, offer: AgentOffer) -> None:
        """Send a new offer to the model. The caller holds `switching`."""
        had_prompt = self.offer.setup.prompt is not None
        self.offer = offer
        clears = had_prompt and offer.setup.prompt is None
        await self.connection.send(
            RealtimeModelSendSessionUpdate(setup=offer.setup, clears_prompt=clears)
        )

    async def refresh(self) -> None:
        """Compute the offer again, and send it to the model if it changed.

        Exceptions of the agent's own functions are reported, and the offer does not change.
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
        """Request an answer with the current offer."""
        await self.refresh()
        await self.responses.request()


async def call_hooks(
    live: Live,
    agent: RealtimeAgent[Any],
    run: Callable[[RunHooks[Any]], Any],
    own: Callable[[AgentHooks[Any]], Any],
) -> None:
    """Call a hook of the session and a hook of `agent` concurrently. Raises the exceptions of the
    hooks."""
    hooks = live.config.hooks
    await both(
        None if hooks is None else run(hooks), None if agent.hooks is None else own(agent.hooks)
    )
