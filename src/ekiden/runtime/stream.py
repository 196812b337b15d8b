"""Streamed runs, which make progress while a reader reads their events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args
from weakref import ref

from ekiden.core.agent import Agent
from ekiden.core.context import Parameterized, TContext, TOutput
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.conversation.run_items import RunItem
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.runtime.conversation import run_items
from ekiden.runtime.loop.advance import advance
from ekiden.runtime.results import RunResult, raise_failure
from ekiden.runtime.state.state import RunState

if TYPE_CHECKING:
    from ekiden.core.guardrails import InputGuardrailResult, OutputGuardrailResult


_log = logging.getLogger("ekiden.runtime")

T = TypeVar("T")

_END = object()
_reading: set[asyncio.Task[None]] = set()
"""Keeps the reading tasks alive, because event loops hold tasks weakly."""


class RunEventStream(Generic[T]):
    """The events of a run. The run makes progress only while the events are read.

    If the reader leaves the loop, the run is cancelled, and the session is kept. `aclose` waits
    until this is stored.
    """

    def __init__(self, source: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._pipe = _Pipe(source)

    def __aiter__(self) -> RunEventStream[T]:
        return self

    async def __anext__(self) -> T:
        try:
            shown = await self._pipe.next()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if shown is _END:
            raise StopAsyncIteration
        return shown  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End the stream, and wait until the cancelled run is stored."""
        self._pipe.stop()
        await self._pipe.ended()

    def stop(self) -> None:
        """End the stream as soon as possible."""
        self._pipe.stop()

    def __del__(self) -> None:
        pipe = self._pipe
        if pipe.task is not None and not pipe.task.done():
            with suppress(RuntimeError):  # The loop is closed.
                pipe.task.get_loop().call_soon_threadsafe(pipe.stop)


class _Pipe:
    """Passes events from the task that runs the steps to the iterator, one at a time.

    The source runs in a task of its own, because a generator must be closed in the task in which
    it runs, and the garbage collector may drop the iterator anywhere.
    """

    def __init__(self, source: Callable[[], AsyncGenerator[Any, None]]) -> None:
        self._source = source
        self._slot: asyncio.Future[Any] | None = None
        self._wanted = asyncio.Event()
        self._is_over = False
        self.task: asyncio.Task[None] | None = None

    @property
    def waiter(self) -> asyncio.Future[Any] | None:
        """The future that the iterator waits for while the task works."""
        return self._slot

    async def next(self) -> Any:
        """The next event, or `_END` after the end of the source."""
        if self._is_over:
            await self.ended()
            return _END
        self._slot = asyncio.get_running_loop().create_future()
        self._wanted.set()
        if self.task is None:
            self.task = asyncio.create_task(self._read())
            _reading.add(self.task)
            self.task.add_done_callback(self._end)
        return await self._slot

    async def ended(self) -> None:
        """Wait until the reading task has ended."""
        if self.task is not None:
            await asyncio.wait({self.task})

    def stop(self) -> None:
        """Cancel the reading task."""
        self._is_over = True
        if self.task is not None:
            self.task.cancel()

    async def _read(self) -> None:
        try:
            async with aclosing(self._source()) as source:
                async for shown in source:
                    self._wanted.clear()
                    self._give(shown)
                    await self._wanted.wait()
        except asyncio.CancelledError:
            if not self._is_over:
                raise
        except BaseException as exc:
            self._fail(exc)

    def _end(self, task: asyncio.Task[None]) -> None:
        """End the iterator. The task cannot do this: it runs no code if it is cancelled before its
        first step."""
        _reading.discard(task)
        self._is_over = True
        self._give(_END)

    def _give(self, shown: Any) -> None:
        if self._slot is not None and not self._slot.done():
            self._slot.set_result(shown)

    def _fail(self, exc: BaseException) -> None:
        if self._slot is not None and not self._slot.done():
            self._slot.set_exception(exc)
        else:
            _log.error("an unread run failed", exc_info=exc)


@dataclass(frozen=True, slots=True)
class RawResponsesStreamEvent:
    """A piece of an unfinished answer."""

    data: ModelDelta
    agent: Agent[Any] | None = None
    depth: int = 0
    """0 for the run itself, 1 for an agent that the run asks or calls as a tool, 2 for an agent
    that this agent asks, and so on."""
    type: ClassVar[Literal["raw_response_event"]] = "raw_response_event"


@dataclass(frozen=True, slots=True)
class RunItemStreamEvent:
    """A new item of the conversation, after it was stored."""

    name: str
    item: RunItem
    agent: Agent[Any] | None = None
    depth: int = 0
    """As in `RawResponsesStreamEvent`."""
    type: ClassVar[Literal["run_item_stream_event"]] = "run_item_stream_event"


@dataclass(frozen=True, slots=True)
class AgentUpdatedStreamEvent:
    """Another agent has the conversation."""

    new_agent: Agent[Any]
    depth: int = 0
    """As in `RawResponsesStreamEvent`."""
    type: ClassVar[Literal["agent_updated_stream_event"]] = "agent_updated_stream_event"

    @property
    def agent(self) -> Agent[Any]:
        """The new agent."""
        return self.new_agent


CancelMode: TypeAlias = Literal["after_step", "now"]

StreamEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent

_NAMES = {
    "message_output_item": "message_output_created",
    "tool_call_item": "tool_called",
    "tool_call_output_item": "tool_output",
    "handoff_call_item": "handoff_requested",
    "handoff_output_item": "handoff_occured",
    "reasoning_item": "reasoning_item_created",
}


class RunResultStreaming(Parameterized, Generic[TContext, TOutput]):
    """A run that makes progress while you read `stream_events` or `events`. Read only one of the
    two streams, and only once.

    If you leave the loop early, the run is cancelled. The session is kept, and can be resumed.
    """

    def __init__(self, open_run: Callable[[], AbstractAsyncContextManager[RunState]]) -> None:
        self._open_run = open_run
        self._run: RunState | None = None
        self._stream: ref[RunEventStream[Event | ModelDelta]] | None = None
        """A weak reference, so that a stream ends when its reader drops it."""
        self._cancelled = False
        self._depths: dict[str, int] = {}
        """The depth of each asked session."""
        self.is_complete = False

    def events(self) -> RunEventStream[Event | ModelDelta]:
        """All stored events, and answer deltas between them.

        Raises the exceptions of the run.
        """
        return self._read(self._own_deltas)

    def stream_events(self) -> RunEventStream[StreamEvent]:
        """The events of the run: pieces of answers, new items, and changes of the active agent.

        Events of agents that the run asks or calls as tools are included; `agent` and `depth`
        identify the agent.
        """
        return RunEventStream(self._translated)

    def _read(
        self, source: Callable[[], AsyncGenerator[Event | ModelDelta, None]]
    ) -> RunEventStream[Event | ModelDelta]:
        if self._stream is not None:
            raise UserError("this run is being read already; a stream can be read once")
        stream = RunEventStream(source)
        self._stream = ref(stream)
        return stream

    def cancel(self, mode: CancelMode = "after_step") -> None:
        """Stop the run after the current step. With ``now``, stop at once, and cancel the model
        call, the tools or the `AgentRunner` of the step. The session can be resumed.

        If you leave the loop, the run also stops at once.
        """
        if mode not in get_args(CancelMode):
            raise UserError(f"a stream is cancelled 'after_step' or 'now', not {mode!r:.40}")
        self._cancelled = True
        stream = None if self._stream is None else self._stream()
        if mode == "now" and stream is not None:
            stream.stop()

    @property
    def session_id(self) -> str | None:
        """The id of the run's session; `None` before the run has started. `events` also contains
        events of sessions that answer this session."""
        return None if self._run is None else self._run.session_id

    @property
    def result(self) -> RunResult[TContext, TOutput]:
        """The result of the run. Raises `UserError` before the stream has ended."""
        if self._run is None:
            raise UserError("the run is not over yet: read its stream to the end first")
        return RunResult(self._run)

    @property
    def final_output(self) -> TOutput | None:
        """The answer; `None` if there is no answer yet."""
        return self.result.final_output if self.is_complete else None

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """Same as in `result`."""
        return self.result.input_guardrail_results

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """Same as in `result`."""
        return self.result.output_guardrail_results

    async def _own_deltas(self) -> AsyncGenerator[Event | ModelDelta, None]:
        async with aclosing(self._events()) as stream:
            async for shown in stream:
                if isinstance(shown, Event) or shown.kind == "published" or not shown.session_id:
                    yield shown

    async def _translated(self) -> AsyncGenerator[StreamEvent, None]:
        agents: dict[str | None, Agent[Any]] = {}
        async with aclosing(self._read(self._events)) as stream:
            async for shown in stream:
                run = self._run
                assert run is not None
                where = run.session_id if shown.session_id is None else shown.session_id
                depth = 0 if where == run.session_id else await self._depth(run, where)
                if isinstance(shown, ModelDelta):
                    agent = agents.get(where, run.agent if depth == 0 else None)
                    yield RawResponsesStreamEvent(shown, agent, depth)
                    continue
                if shown.agent is not None and shown.agent in run.team:
                    agents[where] = run.find_agent(shown.agent)
                for event in self._translate(run, shown, agents.get(where), depth):
                    yield event

    async def _depth(self, run: RunState, session_id: str) -> int:
        """The number of questions between the run and an asked session."""
        if session_id not in self._depths:
            row = await run.store.get(session_id)
            above = int(run.meta.get("ask_depth", 0))
            self._depths[session_id] = int(row.meta.get("ask_depth", above + 1)) - above
        return self._depths[session_id]

    async def _events(self) -> AsyncGenerator[Event | ModelDelta, None]:
        async with self._open_run() as run:
            self._run = run
            stream = advance(run)
            try:
                async for shown in stream:
                    yield shown
                    if self._cancelled and isinstance(shown, Event):
                        break
            finally:
                await stream.aclose()
        self.is_complete = run.outcome is not None
        raise_failure(run)

    @staticmethod
    def _translate(
        run: RunState, event: Event, agent: Agent[Any] | None, depth: int
    ) -> list[StreamEvent]:
        if event.type == "agent_start":
            return [AgentUpdatedStreamEvent(run.find_agent(event.agent or ""), depth)]
        if depth == 0 and event.seq <= run.cursor.progress.first:
            return []
        return [
            RunItemStreamEvent(_NAMES.get(item.type, item.type), item, agent, depth)
            for item in run_items([event], run.find_agent)
        ]
