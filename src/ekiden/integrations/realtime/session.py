"""Live sessions: a person talks to the active agent over one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Item, text_of
from ekiden.core.errors import UserError
from ekiden.core.values import dumps, new_id
from ekiden.integrations.realtime.agent import RealtimeAgent, make_offer
from ekiden.integrations.realtime.items import History, RealtimeItem
from ekiden.integrations.realtime.listener import EndOfConversation, Listener, greet, move
from ekiden.integrations.realtime.live import (
    EventBuffer,
    Live,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeSessionEvent,
    SessionRecord,
)
from ekiden.integrations.realtime.model import (
    RealtimeClosed,
    RealtimeModel,
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendMessage,
    RealtimeModelSendUserInput,
    RealtimeRunConfig,
    ResponseGate,
)
from ekiden.integrations.realtime.websocket import RealtimeWebSocketModel
from ekiden.runtime.model_call import prompt_block
from ekiden.sessions import Session

_log = logging.getLogger("ekiden.integrations.realtime")


class RealtimeSession:
    """A conversation over a live connection. `RealtimeRunner.run` creates this object.

    The connection is open inside ``async with``. Iterate over the session to get its events. When
    the connection is lost, or another process takes over a stored session, the last event is an
    `error`. The iteration and every later call then raise this error::

        async with await RealtimeRunner(triage, model=model).run() as session:
            await session.send_message("Where is my parcel?")
            async for event in session:
                if event.type == "audio":
                    speaker.play(event.audio.data)
                elif event.type == "handoff":
                    print(event.from_agent.name, "hands to", event.to_agent.name)
    """

    def __init__(
        self,
        model: RealtimeModel,
        agent: RealtimeAgent[Any],
        context: Any = None,
        *,
        config: RealtimeRunConfig | None = None,
        session: Session | None = None,
    ) -> None:
        self.model = model
        self._start = agent
        self._config = RealtimeRunConfig() if config is None else config
        self._session = session
        self._context: RunContextWrapper[Any] = RunContextWrapper(context)
        self._history = History()
        self._events: EventBuffer[RealtimeSessionEvent] = EventBuffer(
            self._config.max_waiting_events
        )
        self._live: Live | None = None
        self._listener: Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._cleaning: asyncio.Task[None] | None = None
        self._is_entered = False
        self._error: BaseException | None = None

    @property
    def agent(self) -> RealtimeAgent[Any]:
        """The agent that has the conversation."""
        return self._start if self._live is None else self._live.agent

    @property
    def context(self) -> RunContextWrapper[Any]:
        """The context for the agents' own functions."""
        return self._context if self._live is None else self._live.context

    @property
    def history(self) -> Sequence[RealtimeItem]:
        """The conversation so far: messages, tool calls and handoffs."""
        return self._history.all()

    async def __aenter__(self) -> Self:
        """Claim the stored session, if any, and connect.

        Raises `UnknownAgent` if the agent of the stored session cannot be reached from the starting
        agent. Also raises `SessionBusy`, `RealtimeUnavailable`, and the exceptions of the agent's
        own functions. After an exception, neither the connection nor the session stays open.
        """
        if self._is_entered:
            raise RealtimeClosed("a realtime session is entered once")
        self._is_entered = True
        record = await SessionRecord.open(
            self._session, agent=self._start, context=self._context.context, config=self._config
        )
        try:
            self._live = await self._connected(record)
        except BaseException:
            self._events.end()
            await record.release()
            raise
        self._task = asyncio.create_task(self._run(self._live))
        return self

    async def enter(self) -> Self:
        """Open the session without ``async with``. The caller must call `close`."""
        return await self.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RealtimeSessionEvent:
        return await self._events.take()

    async def close(self) -> None:
        """End the session: cancel current work, close the connection, and release the stored
        session. A second call does nothing."""
        self._is_entered = True
        self._events.end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            await self._clean_up()  # A task that is cancelled before its first step does not.

    def show(self, event: Any) -> None:
        """Add an event of your own to the stream of events that the session yields."""
        self._events.put(event)

    async def send_message(self, message: str | Mapping[str, Any]) -> None:
        """Send a text message of the person. The agent then answers.

        `message` is a text, or a message in the provider's format with ``content`` parts. Raises
        `UserError` for an empty message, and `RealtimeClosed` or `RealtimeDisconnected` when the
        session is over.
        """
        live = self._open()
        content = _content(message)
        item_id = new_id("msg")
        text = text_of({"content": list(content)})
        live.heard()
        if text:
            live.stored.add(item_id)
            await live.record.message({"role": "user", "content": text})
        await live.connection.send(RealtimeModelSendUserInput(item_id=item_id, content=content))
        await live.answer()

    async def send_audio(self, audio: bytes, *, commit: bool = False) -> None:
        """Send a piece of the person's audio. With `commit`, the person's turn ends, and the agent
        answers.

        If the provider detects the end of speech, `commit` is not needed.
        """
        live = self._open()
        if not isinstance(audio, bytes | bytearray | memoryview):
            raise UserError(f"audio must be bytes, not {type(audio).__name__}")
        await live.connection.send(RealtimeModelSendAudio(audio=bytes(audio), commit=commit))
        if commit:
            live.heard()
            await live.answer()

    async def interrupt(self, *, played_ms: int | None = None) -> None:
        """Stop the current answer. `played_ms` is the part of the answer that the person has heard,
        in milliseconds. The model forgets the rest."""
        live = self._open()
        speaking = self._listener_of().interrupt()
        if not live.responses.is_busy and (speaking is None or played_ms is None):
            return
        item_id, index = (None, 0) if speaking is None else speaking
        await live.connection.send(
            RealtimeModelSendInterrupt(item_id=item_id, content_index=index, played_ms=played_ms)
        )

    async def update_agent(self, agent: RealtimeAgent[Any]) -> None:
        """Hand the conversation to `agent`, although the model did not request it.

        This is a normal handoff: `agent` must be in the `handoffs` of the active agent. The handoff
        is checked and stored, the model gets the instructions and tools of the new agent, and the
        session gets an event. Raises `HandoffRefused`, or the exceptions of the agents' own
        functions. After an exception, nothing is changed. If the handoff needs approval, the call
        returns after the approval.
        """
        live = self._open()
        if not isinstance(agent, RealtimeAgent):
            raise UserError(f"update_agent() needs a RealtimeAgent, not {type(agent).__name__}")
        if agent is live.agent:
            await live.refresh()
            return
        await move(live, agent)

    def _open(self) -> Live:
        """The live state; raises the error that ended the session, or `RealtimeClosed`."""
        if self._error is not None:
            raise self._error
        if self._live is None or self._events.is_over:
            raise RealtimeClosed("the realtime session is not open")
        return self._live

    def _listener_of(self) -> Listener:
        assert self._listener is not None
        return self._listener

    async def _connected(self, record: SessionRecord) -> Live:
        run = record.run
        agent, handoff = run.agent, run.cursor.handoffs.received
        if not isinstance(agent, RealtimeAgent):
            raise UserError(f"agent {agent.name!r} of the session is not a RealtimeAgent")
        received = None if handoff is None else prompt_block(handoff, run.cursor.handoffs.chain)
        offer = await make_offer(agent, run.context, received)
        connection = await self.model.connect(offer.setup, self._config.model_settings)
        live = Live(
            config=self._config,
            events=self._events,
            connection=connection,
            responses=ResponseGate(connection),
            offer=offer,
            record=record,
            received=received,
        )
        self._listener = Listener(live, self._history)
        try:
            await _send_history(live, record.messages(self._config.history_items))
            await greet(live, agent)
        except BaseException:
            await connection.close()
            raise
        return live

    async def _run(self, live: Live) -> None:
        """Own all tasks of the session, from its start to its end."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(live.record.keep())
                group.create_task(self._listener_of().listen(group))
        except BaseExceptionGroup as failures:
            self._end(live, _first(failures))
        finally:
            self._events.end()
            await self._clean_up()

    async def _clean_up(self) -> None:
        """Close the connection and release the stored session: once, even if cancelled."""
        if self._live is None:
            return
        if self._cleaning is None:
            self._cleaning = asyncio.create_task(_disconnect(self._live))
        await asyncio.wait((self._cleaning,))

    def _end(self, live: Live, error: BaseException) -> None:
        if isinstance(error, EndOfConversation):
            return
        self._error = error
        if isinstance(error, Exception):
            info = RealtimeEventInfo(context=live.context)
            self._events.put(RealtimeError(error=error, info=info))
        self._events.end(error)


async def _send_history(live: Live, messages: Sequence[Item]) -> None:
    for message in messages:
        text, item_id = text_of(message), new_id("msg")
        if text:
            role = message["role"] if message["role"] in ("user", "assistant") else "system"
            live.stored.add(item_id)
            event = RealtimeModelSendMessage(item_id=item_id, role=role, text=text)
            await live.connection.send(event)


async def _disconnect(live: Live) -> None:
    try:
        await live.connection.close()
    except Exception:
        _log.exception("the connection of session %s could not be closed", live.run.session_id)
    await live.record.release()


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    error = failures.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _content(message: str | Mapping[str, Any]) -> tuple[Item, ...]:
    if isinstance(message, str):
        parts: Any = [{"type": "input_text", "text": message}] if message.strip() else []
    else:
        parts = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(parts, list) or not all(map(_is_part, parts)):
        raise UserError(
            "a message is a text, or an object with `content`, a list of parts such as "
            '{"type": "input_text", "text": "hello"}'
        )
    if not parts:
        raise UserError("a message must not be empty")
    return tuple(parts)


def _is_part(part: Any) -> bool:
    try:
        dumps(part)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(part, dict) and isinstance(part.get("text", ""), str)


class RealtimeRunner:
    """Creates live sessions that start with `starting_agent`. One runner can create any number of
    sessions.

    For example::

        runner = RealtimeRunner(triage, model=RealtimeWebSocketModel("gpt-realtime"))
        async with await runner.run(context=Shop("north")) as session:
            async for event in session:
                ...
    """

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: RealtimeModel | None = None,
        config: RealtimeRunConfig | None = None,
    ) -> None:
        """Without `model`, `RealtimeWebSocketModel` with OpenAI's model is used. Raises `UserError`
        for an invalid agent, model or config."""
        if not isinstance(starting_agent, RealtimeAgent):
            raise UserError(
                f"a realtime session must start with a RealtimeAgent, not {starting_agent!r:.80} "
                f"({type(starting_agent).__name__})"
            )
        if model is not None and not isinstance(model, RealtimeModel):
            raise UserError(
                f"model must be a RealtimeModel, such as RealtimeWebSocketModel(…), not "
                f"{model!r:.80} ({type(model).__name__})"
            )
        if config is not None and not isinstance(config, RealtimeRunConfig):
            raise UserError(f"config must be RealtimeRunConfig(…), not {type(config).__name__}")
        self.starting_agent = starting_agent
        self.model = RealtimeWebSocketModel() if model is None else model
        self.config = RealtimeRunConfig() if config is None else config

    async def run(self, *, context: Any = None, session: Session | None = None) -> RealtimeSession:
        """Create a live session. The session connects at the start of ``async with``.

        With a stored `session`, every handoff, message and tool call is recorded in that session,
        and the earlier conversation continues with the current agent of that session. While the
        live session is open, no other process can write to the stored session.
        """
        if session is not None and not isinstance(session, Session):
            raise UserError(f"session must be Session(id, store=…), not {type(session).__name__}")
        return RealtimeSession(
            self.model, self.starting_agent, context, config=self.config, session=session
        )
