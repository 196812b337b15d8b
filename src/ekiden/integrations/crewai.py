# mypy: disable-error-code="import-not-found,misc,no-any-unimported,unused-ignore,untyped-decorator"
"""Runs flows and crews of CrewAI. Each method of a flow is stored when it ends. A crew is one
step."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from pydoc import locate
from typing import Any

from crewai import Agent, events
from crewai.flow import Flow
from crewai.flow.async_feedback.providers import ConsoleProvider
from crewai.flow.flow_config import flow_config
from crewai.types.usage_metrics import UsageMetrics
from pydantic import BaseModel

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
from ekiden.core.integrations.foreign_agents import (
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

    For a flow, each turn creates a new object of the flow's class. The function `input` returns the
    inputs of a turn. By default, the input ``text`` is the person's message. For example::

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
            raise UserError(f"{type(obj).__name__} of CrewAI is not a flow, crew or agent")

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        """See `ForeignAdapter.take_turn`."""
        token = _listener.set(listener := _Listener(turn))
        try:
            end = await (self._run_flow if self._is_flow else self._run_crew)(turn, listener)
        except _Asked as asked:
            end = asked.args[0]
        finally:
            _listener.reset(token)
        yield end

    async def _run_flow(self, turn: ForeignTurn, listener: _Listener) -> TurnPart:
        flow = self._obj()
        for name, method in list(flow._methods.items()):
            flow._methods[name] = _stored(flow, name, method, listener)
        known = turn.checkpoint or {}
        result = await flow.kickoff_async({**known, **self._inputs(turn, flow.state)})
        state = {name: value for name, value in _state(flow).items() if name != "id"}
        return TurnAnswer(output=_output(result), checkpoint=state)

    def _inputs(self, turn: ForeignTurn, state: Any = None) -> dict[str, Any]:
        if self._input is not None:
            return dict(self._input(turn))
        if not isinstance(state, dict | None) and "text" not in type(state).model_fields:
            raise UserError(
                f"the state of the flow {self._obj.__name__} has no field `text` for what the "
                "person said: add it, or give CrewAIAgent(flow, input=lambda turn: {…})"
            )
        return {"text": turn.text}

    async def _run_crew(self, turn: ForeignTurn, listener: _Listener) -> TurnPart:
        has_history, history = isinstance(self._obj, Agent), turn.checkpoint or []
        inputs = [*history, *turn.messages()] if has_history else self._inputs(turn)

        async def kick_off(key: str) -> Any:
            result = await self._obj.kickoff_async(inputs)
            await listener.emit()
            return _output(result)

        output = await turn.step("kickoff", None, kick_off, is_tool=False)
        added = [*turn.messages(), {"role": "assistant", "content": str(output)}]
        return TurnAnswer(output=output, checkpoint=CheckpointDelta(added) if has_history else None)


def _stored(flow: Any, name: str, method: Any, listener: _Listener) -> Any:
    """The method as a stored step. A repeated step returns the stored result, and applies the
    stored changes of the flow's state."""

    @functools.wraps(method)
    async def call(*args: Any, **more: Any) -> Any:
        ran: list[Any] = []

        async def run(key: str) -> Any:
            before = _state(flow)
            is_async = asyncio.iscoroutinefunction(method)
            awaitable = (
                method(*args, **more) if is_async else asyncio.to_thread(method, *args, **more)
            )
            result = await awaitable
            ran.append(await result if asyncio.iscoroutine(result) else result)
            await listener.emit()
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
    values = dict(state) if isinstance(state, dict) else state.model_dump(mode="json")
    return {name: to_jsonable(value) for name, value in values.items()}


def _change(flow: Any, changed: Mapping[str, Any]) -> None:
    if isinstance(flow.state, dict):
        flow.state.update(changed)
    else:
        whole = type(flow.state).model_validate({**_state(flow), **changed})
        for name in changed:
            setattr(flow.state, name, getattr(whole, name))


def _dump(result: Any) -> dict[str, Any]:
    if not isinstance(result, BaseModel):
        return {"value": to_jsonable(result)}
    kind, data = type(result), result.model_dump(mode="json")
    return {"model": f"{kind.__module__}.{kind.__qualname__}", "value": to_jsonable(data)}


def _load(stored: Mapping[str, Any]) -> Any:
    kind = locate(stored["model"]) if "model" in stored else None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_validate(stored["value"])
    return stored["value"]


def _output(result: Any) -> Any:
    return result.raw if isinstance(getattr(result, "raw", None), str) else result


class _Asked(BaseException):
    """Ends the turn with a question to a person. CrewAI would catch an `Exception`."""


class _Listener:
    """Collects the events of CrewAI during a turn. CrewAI calls its handlers in other threads."""

    def __init__(self, turn: ForeignTurn) -> None:
        self.turn, self.loop = turn, asyncio.get_running_loop()
        self.parts: list[TurnPart] = []
        self._asked: Counter[str] = Counter()

    async def emit(self) -> None:
        """Emit the collected parts."""
        await asyncio.to_thread(events.crewai_event_bus.flush)
        parts, self.parts = self.parts, []
        for part in parts:
            await self.turn.emit(part)

    def answer(self, place: str, subject: str, options: tuple[str, ...], about: Any) -> str:
        """The person's answer. Raises `_Asked` if the question is not answered yet."""
        self._asked[place] += 1
        question_id = f"{place}.{self._asked[place]}"
        if question_id in self.turn.answers:
            return self.turn.answers[question_id].words
        is_text = isinstance(about, str) and about != ""
        text = {"subject": subject[:500], "body": about if is_text else subject}
        context = None if is_text else to_jsonable(about)
        raise _Asked(TurnQuestion(id=question_id, options=options, context=context, **text))


_listener: ContextVar[_Listener | None] = ContextVar("ekiden_crewai_listener", default=None)


class _People:
    """Asks people in the inbox during a turn. Outside a turn it uses the original provider."""

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


@events.crewai_event_bus.on(events.LLMCallCompletedEvent)
def _used(source: Any, event: Any) -> None:
    if listener := _listener.get():
        used = UsageMetrics.from_provider_dict(event.usage or {})
        tokens = {"input_tokens": used.prompt_tokens, "output_tokens": used.completion_tokens}
        listener.parts.append(TurnUsage(usage=Usage(requests=1, **tokens), model=event.model))


@events.crewai_event_bus.on(events.LLMStreamChunkEvent)
def _streamed(source: Any, event: Any) -> None:
    if (listener := _listener.get()) and event.chunk and event.tool_call is None:
        shown = listener.turn.emit(TurnDelta(text=event.chunk))
        asyncio.run_coroutine_threadsafe(shown, listener.loop)


@events.crewai_event_bus.on(events.ToolUsageFinishedEvent)
@events.crewai_event_bus.on(events.ToolUsageErrorEvent)
def _called(source: Any, event: Any) -> None:
    if listener := _listener.get():
        call, arguments = event.event_id, to_jsonable(event.tool_args)
        output, error = to_jsonable(getattr(event, "output", None)), getattr(event, "error", None)
        error = None if error is None else str(error)
        made = TurnToolCall(call_id=call, name=event.tool_name, arguments=arguments)
        listener.parts += made, TurnToolResult(call_id=call, output=output, error=error)
