"""A run that is watched while it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, get_args
from weakref import ref

from ekiden.core.agent import Agent
from ekiden.core.context import Parameterized, TContext, TOutput
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.model import ModelDelta
from ekiden.core.run_items import RunItem
from ekiden.runtime.advance import advance
from ekiden.runtime.event_stream import EventStream
from ekiden.runtime.results import RunResult, raise_failure
from ekiden.runtime.run_items import run_items
from ekiden.runtime.state import RunState

if TYPE_CHECKING:
    from ekiden.core.guardrails import InputGuardrailResult, OutputGuardrailResult


@dataclass(frozen=True, slots=True)
class RawResponsesStreamEvent:
    """A piece of an answer that is still being made."""

    data: ModelDelta
    type: ClassVar[Literal["raw_response_event"]] = "raw_response_event"


@dataclass(frozen=True, slots=True)
class RunItemStreamEvent:
    """Something was said, called or returned, and is stored."""

    name: str
    item: RunItem
    type: ClassVar[Literal["run_item_stream_event"]] = "run_item_stream_event"


@dataclass(frozen=True, slots=True)
class AgentUpdatedStreamEvent:
    """Another agent has the conversation."""

    new_agent: Agent[Any]
    type: ClassVar[Literal["agent_updated_stream_event"]] = "agent_updated_stream_event"


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
    """A run that happens while somebody reads `stream_events` or `events`; read one of them, once.

    Leaving the loop early cancels the run and keeps the session, which can be resumed.
    """

    def __init__(self, open_run: Callable[[], AbstractAsyncContextManager[RunState]]) -> None:
        self._open_run = open_run
        self._run: RunState | None = None
        self._stream: ref[EventStream[Event | ModelDelta]] | None = None
        """Weak: a stream that whoever read it forgot is to end."""
        self._cancelled = False
        self.is_complete = False

    def events(self) -> EventStream[Event | ModelDelta]:
        """Everything that happens: stored events, and deltas of answers between them.

        Raises what the run raises.
        """
        if self._stream is not None:
            raise UserError("this run is being read already; a stream can be read once")
        stream = EventStream(self._events)
        self._stream = ref(stream)
        return stream

    def stream_events(self) -> EventStream[StreamEvent]:
        """The same as items and changes of agent."""
        return EventStream(self._translated)

    def cancel(self, mode: CancelMode = "after_step") -> None:
        """Stop when the step under way is stored, or ``now``: then the step is cancelled, and what
        it runs with it, such as a tool, a model or an `AgentRunner`. The session can be resumed.

        Leaving the loop stops at once, too.
        """
        if mode not in get_args(CancelMode):
            raise UserError(f"a stream is cancelled 'after_step' or 'now', not {mode!r:.40}")
        self._cancelled = True
        stream = None if self._stream is None else self._stream()
        if mode == "now" and stream is not None:
            stream.stop()

    @property
    def session_id(self) -> str | None:
        """Whose run it is, once it has begun; `events` shows those of sessions that answer it,
        too."""
        return None if self._run is None else self._run.session_id

    @property
    def result(self) -> RunResult[TContext, TOutput]:
        """The result; `UserError` before the stream was read to its end."""
        if self._run is None:
            raise UserError("the run is not over yet: read its stream to the end first")
        return RunResult(self._run)

    @property
    def final_output(self) -> TOutput | None:
        """The answer, or `None` while there is none."""
        return self.result.final_output if self.is_complete else None

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """As of the `result`."""
        return self.result.input_guardrail_results

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """As of the `result`."""
        return self.result.output_guardrail_results

    async def _translated(self) -> AsyncGenerator[StreamEvent, None]:
        async with aclosing(self.events()) as stream:
            async for shown in stream:
                if isinstance(shown, ModelDelta):
                    yield RawResponsesStreamEvent(shown)
                    continue
                for event in self._translate(shown):
                    yield event

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

    def _translate(self, event: Event) -> list[StreamEvent]:
        run = self._run
        assert run is not None
        shown: list[StreamEvent] = []
        if event.session_id != run.session_id:
            return shown  # `events` shows what happens in sessions that answer this one.
        if event.type == "agent_start":
            shown.append(AgentUpdatedStreamEvent(run.find_agent(event.agent or "")))
        elif event.seq > run.cursor.first:
            shown.extend(
                RunItemStreamEvent(_NAMES.get(item.type, item.type), item)
                for item in run_items([event], run.find_agent)
            )
        return shown
