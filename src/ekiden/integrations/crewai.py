# mypy: disable-error-code="import-not-found,misc,no-any-unimported,unused-ignore,untyped-decorator"
"""Flows and crews of CrewAI: each method of a flow is stored when it ends; a crew is one step."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from pydoc import locate
from typing import Any

from crewai import Agent
from crewai.events import (
    LLMCallCompletedEvent,
    LLMStreamChunkEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    crewai_event_bus,
)
from crewai.flow import Flow
from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.flow_config import flow_config
from crewai.types.usage_metrics import UsageMetrics
from pydantic import BaseModel

from ekiden.core.conversation.usage import Usage
from ekiden.core.errors import UserError
from ekiden.core.foreign import (
    CheckpointDelta,
    Durability,
    ForeignTurn,
    TurnAnswer,
    TurnDelta,
    TurnPart,
    TurnQuestion,
    TurnToolCall,
    TurnToolResult,
    TurnUsage,
)
from ekiden.tools import to_jsonable


def adapter(obj: Any) -> CrewAIAgent:
    """The adapter of a flow, a crew or an agent."""
    return CrewAIAgent(obj)


class CrewAIAgent:
    """A flow, a crew or an agent of CrewAI as a member of a team.

    Each turn makes a new flow of the class. `input` gives the inputs of a turn; without, ``text``
    is what the person said. For example::

        CrewAIAgent(ReviewFlow, input=lambda turn: {"topic": turn.text})
    """

    framework = "crewai"
    durability: Durability

    def __init__(
        self, obj: Any, *, input: Callable[[ForeignTurn], Mapping[str, Any]] | None = None
    ) -> None:
        self._obj = type(obj) if isinstance(obj, Flow) else obj
        self._is_flow = isinstance(self._obj, type) and issubclass(self._obj, Flow)
        self.durability = "method" if self._is_flow else "turn"
        self._input = input
        if not self._is_flow and not hasattr(obj, "kickoff_async"):
            raise UserError(f"{type(obj).__name__} of CrewAI is no flow, crew or agent")

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter`."""
        listener = _Listener(turn)
        token = _listener.set(listener)
        try:
            end = await (
                self._flow(turn, listener) if self._is_flow else self._crew(turn, listener)
            )
        except _Asked as asked:
            end = asked.question
        finally:
            _listener.reset(token)
        yield end

    async def _flow(self, turn: ForeignTurn, listener: _Listener) -> TurnPart:
        flow = self._obj()
        for name, method in list(flow._methods.items()):
            flow._methods[name] = _stored(flow, name, method, listener)
        known = {**(turn.checkpoint or {}), **self._inputs(turn, flow)}
        result = await flow.kickoff_async(inputs=known)
        state = {name: value for name, value in _state(flow).items() if name != "id"}
        return TurnAnswer(output=_output(result), checkpoint=state)

    def _inputs(self, turn: ForeignTurn, flow: Any) -> Mapping[str, Any]:
        if self._input is not None:
            return self._input(turn)
        if not isinstance(flow.state, dict) and "text" not in type(flow.state).model_fields:
            raise UserError(
                f"the state of the flow {type(flow).__name__} has no field `text` for what the "
                "person said: add it, or give CrewAIAgent(flow, input=lambda turn: {…})"
            )
        return {"text": turn.text}

    async def _crew(self, turn: ForeignTurn, listener: _Listener) -> TurnPart:
        before = turn.checkpoint or []
        given: Any
        if isinstance(self._obj, Agent):
            given = [*before, *turn.messages()]
        else:
            given = dict(self._input(turn) if self._input else {"text": turn.text})

        async def kick_off(key: str) -> Any:
            result = await self._obj.kickoff_async(given)
            await listener.tell()
            return _output(result)

        output = await turn.step("kickoff", None, kick_off, is_tool=False)
        if not isinstance(self._obj, Agent):
            return TurnAnswer(output=output)
        said = {"role": "assistant", "content": str(output)}
        return TurnAnswer(output=output, checkpoint=CheckpointDelta([*turn.messages(), said]))


def _stored(flow: Any, name: str, method: Any, listener: _Listener) -> Any:
    """The method, run once for each place of the flow; after that its result and what it changed of
    the state are taken from the store."""

    @functools.wraps(method)
    async def call(*args: Any, **options: Any) -> Any:
        ran: list[Any] = []

        async def run(key: str) -> Any:
            before = _state(flow)
            is_async = asyncio.iscoroutinefunction(method)
            given = (
                method(*args, **options)
                if is_async
                else asyncio.to_thread(method, *args, **options)
            )
            result = await given
            ran.append(await result if asyncio.iscoroutine(result) else result)
            await listener.tell()
            changed = {k: v for k, v in _state(flow).items() if before.get(k) != v}
            return {"result": _dump(ran[0]), "state": changed}

        stored = await listener.turn.step(str(name), None, run, scope="flow", is_tool=False)
        if ran:
            return ran[0]
        _change(flow, stored["state"])
        return _load(stored["result"])

    return call


def _state(flow: Any) -> dict[str, Any]:
    state = flow.state
    found = dict(state) if isinstance(state, dict) else state.model_dump(mode="json")
    return {name: to_jsonable(value) for name, value in found.items()}


def _change(flow: Any, changed: Mapping[str, Any]) -> None:
    if isinstance(flow.state, dict):
        flow.state.update(changed)
        return
    whole = type(flow.state).model_validate({**_state(flow), **changed})
    for name in changed:
        setattr(flow.state, name, getattr(whole, name))


def _dump(result: Any) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        kind = type(result)
        data = to_jsonable(result.model_dump(mode="json"))
        return {"model": f"{kind.__module__}.{kind.__qualname__}", "value": data}
    return {"value": to_jsonable(result)}


def _load(stored: Mapping[str, Any]) -> Any:
    kind = locate(stored["model"]) if "model" in stored else None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_validate(stored["value"])
    return stored["value"]


def _output(result: Any) -> Any:
    return result.raw if isinstance(getattr(result, "raw", None), str) else to_jsonable(result)


class _Asked(BaseException):
    """A person has to answer first. CrewAI lets it through, unlike an `Exception`."""

    def __init__(self, question: TurnQuestion) -> None:
        super().__init__(question.subject)
        self.question = question


class _Listener:
    """Collects what CrewAI says during a turn; its handlers run in threads of their own."""

    def __init__(self, turn: ForeignTurn) -> None:
        self.turn, self._parts = turn, list[TurnPart]()
        self._asked: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()

    async def tell(self) -> None:
        """Emit what was heard so far."""
        await asyncio.to_thread(crewai_event_bus.flush)
        parts, self._parts = self._parts, []
        for part in parts:
            await self.turn.emit(part)

    def show(self, text: str) -> None:
        """Emit a piece of text at once."""
        asyncio.run_coroutine_threadsafe(self.turn.emit(TurnDelta(text=text)), self._loop)

    def hear(self, *parts: TurnPart) -> None:
        """Emit these when the method ends."""
        self._parts += parts

    def answer(self, place: str, subject: str, options: tuple[str, ...], about: Any) -> str:
        """The person's words; `_Asked` until there are some."""
        self._asked[place] += 1
        question = f"{place}.{self._asked[place]}"
        if question in self.turn.answers:
            return self.turn.answers[question].words
        body = about if isinstance(about, str) else ""
        raise _Asked(
            TurnQuestion(
                id=question,
                subject=subject[:500],
                body=body or subject,
                options=options,
                context=None if body else to_jsonable(about),
            )
        )


_listener: ContextVar[_Listener | None] = ContextVar("ekiden_crewai_listener", default=None)


class _People:
    """Asks people in the inbox during a turn, and whoever was asked before otherwise."""

    def __init__(self) -> None:
        self._feedback: Any = flow_config.hitl_provider or ConsoleProvider()
        self._input: Any = flow_config.input_provider or ConsoleProvider()

    def request_feedback(self, context: Any, flow: Any) -> Any:
        """See `HumanFeedbackProvider`."""
        if (listener := _listener.get()) is None:
            return self._feedback.request_feedback(context, flow)
        options = tuple(context.emit or ())
        return listener.answer(context.method_name, context.message, options, context.method_output)

    def request_input(self, message: str, flow: Any, metadata: Any = None) -> Any:
        """See `InputProvider`."""
        if (listener := _listener.get()) is None:
            return self._input.request_input(message, flow, metadata)
        return listener.answer("ask", message, (), metadata)


flow_config.hitl_provider = flow_config.input_provider = _People()


@crewai_event_bus.on(LLMCallCompletedEvent)
def _used(source: Any, event: Any) -> None:
    if listener := _listener.get():
        used = UsageMetrics.from_provider_dict(event.usage or {})
        tokens = {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens}
        listener.hear(TurnUsage(usage=Usage(requests=1, **tokens), model=event.model))


@crewai_event_bus.on(LLMStreamChunkEvent)
def _streamed(source: Any, event: Any) -> None:
    if (listener := _listener.get()) and event.chunk and event.tool_call is None:
        listener.show(event.chunk)


@crewai_event_bus.on(ToolUsageFinishedEvent)
@crewai_event_bus.on(ToolUsageErrorEvent)
def _called(source: Any, event: Any) -> None:
    if listener := _listener.get():
        error, output = getattr(event, "error", None), getattr(event, "output", None)
        arguments = to_jsonable(event.tool_args)
        listener.hear(
            TurnToolCall(call_id=event.event_id, name=event.tool_name, arguments=arguments),
            TurnToolResult(
                call_id=event.event_id,
                output=to_jsonable(output),
                error=None if error is None else str(error),
            ),
        )
