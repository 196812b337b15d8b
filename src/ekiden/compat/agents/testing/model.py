"""`ScriptedModel` at the SDK's boundary of models: each call takes the next step."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseStreamEvent,
)
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ekiden.compat.agents.items import ModelResponse, typed
from ekiden.compat.agents.models.interface import Model
from ekiden.compat.agents.tracing.create import generation_span
from ekiden.compat.agents.usage import Usage
from ekiden.core.conversation.model import to_item
from ekiden.core.conversation.run_items import raw_field


class ModelScriptError(Exception):
    """Base class of script errors."""


class InvalidModelStep(ModelScriptError):
    """A step of the script is invalid."""

    def __init__(self, message: str, *, reason: str, input_index: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.input_index = input_index


class UnexpectedModelCall(ModelScriptError):
    """The model was called more often than the script has steps."""

    def __init__(self, message: str, *, call: ModelCall, call_index: int) -> None:
        super().__init__(message)
        self.call = call
        self.call_index = call_index


class UnconsumedModelSteps(ModelScriptError):
    """Steps of the script were not used."""

    def __init__(self, message: str, *, remaining_steps: int) -> None:
        super().__init__(message)
        self.remaining_steps = remaining_steps


@dataclass(frozen=True)
class ModelCall:
    """The arguments of one model call."""

    system_instructions: str | None
    input: Any
    model_settings: Any
    tools: list[Any]
    output_schema: Any
    handoffs: list[Any]
    tracing: Any
    previous_response_id: str | None
    conversation_id: str | None
    prompt: Any
    streamed: bool

    def copied(self) -> ModelCall:
        """A copy of the call that later changes do not affect."""
        return replace(
            self,
            input=copy.deepcopy(self.input),
            model_settings=copy.deepcopy(self.model_settings),
            tools=list(self.tools),
            handoffs=list(self.handoffs),
            prompt=copy.deepcopy(self.prompt),
        )


@dataclass
class ModelStep:
    """The result of one call: an output, an error, the result of a function, or exact events."""

    output: Sequence[Any] = field(default_factory=tuple)
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = "resp-789"
    request_id: str | None = None
    raw_usage: dict[str, Any] | None = None
    error: Exception | None = None
    responder: Callable[[ModelCall], Any] | None = None
    stream_events: Sequence[Any] | Callable[[ModelCall], Any] | None = None
    retry_advice: Any = None

    @classmethod
    def raise_error(cls, error: Exception, *, retry_advice: Any = None) -> ModelStep:
        """A call that fails."""
        return cls(error=error, retry_advice=retry_advice)

    @classmethod
    def respond(cls, responder: Callable[[ModelCall], Any]) -> ModelStep:
        """A call whose step a function chooses from the arguments of the call."""
        return cls(responder=responder)

    @classmethod
    def stream(
        cls,
        events: Sequence[Any] | Callable[[ModelCall], Any],
        *,
        output: Sequence[Any] = (),
        usage: Usage | None = None,
        response_id: str | None = "resp-789",
    ) -> ModelStep:
        """A call that streams exactly these events."""
        return cls(
            output=output,
            usage=usage or Usage(),
            response_id=response_id,
            stream_events=events if callable(events) else tuple(events),
        )


class ModelStepSpec(TypedDict, total=False):
    """A `ModelStep` as a dictionary."""

    output: Sequence[Any]
    usage: Usage
    response_id: str | None
    request_id: str | None
    raw_usage: dict[str, Any] | None
    error: Exception | None
    responder: Callable[[ModelCall], Any] | None
    stream_events: Any
    retry_advice: Any


ModelScriptItem: TypeAlias = Any
_FIELDS = frozenset(each.name for each in fields(ModelStep))


class ScriptedModel(Model):
    """Plays its steps one after the other, and records the calls."""

    def __init__(
        self,
        steps: Iterable[ModelScriptItem] = (),
        *,
        emit_traces: bool = False,
        default_usage: Usage | None = None,
    ) -> None:
        self._steps = [_step(each, index) for index, each in enumerate(steps)]
        self._emit_traces = emit_traces
        self._default_usage = copy.deepcopy(default_usage)
        self._calls: list[ModelCall] = []
        self._advice: dict[int, Any] = {}

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The recorded calls."""
        return tuple(each.copied() for each in self._calls)

    @property
    def remaining_steps(self) -> int:
        """The number of unused steps."""
        return len(self._steps)

    @property
    def first_call(self) -> ModelCall | None:
        """The first call, if there was one."""
        return self._calls[0].copied() if self._calls else None

    @property
    def last_call(self) -> ModelCall | None:
        """The last call, if there was one."""
        return self._calls[-1].copied() if self._calls else None

    def enqueue(self, step: ModelScriptItem) -> None:
        """Add a step."""
        self._steps.append(_step(step, 0))

    def extend(self, steps: Iterable[ModelScriptItem]) -> None:
        """Add several steps."""
        self._steps.extend([_step(each, index) for index, each in enumerate(steps)])

    def set_default_usage(self, usage: Usage | None) -> None:
        """Set the usage of steps without a usage."""
        self._default_usage = copy.deepcopy(usage)

    def get_retry_advice(self, request: Any) -> Any:
        """The retry advice of the failed step."""
        return copy.deepcopy(self._advice.get(id(request.error)))

    def assert_complete(self) -> None:
        """Raises `UnconsumedModelSteps` if steps are unused."""
        if self._steps:
            raise UnconsumedModelSteps(
                f"{len(self._steps)} scripted model step(s) were not consumed.",
                remaining_steps=len(self._steps),
            )

    async def get_response(self, *given: Any, **more: Any) -> ModelResponse:
        """The answer of the next step."""
        call = self._noted(False, *given, **more)
        with self._span(call):
            step = await self._next(call)
        wants_raw = getattr(call.model_settings, "preserve_raw_usage", None) is True
        return ModelResponse(
            output=list(step.output),
            usage=step.usage,
            response_id=step.response_id,
            request_id=step.request_id,
            raw_usage=copy.deepcopy(step.raw_usage) if wants_raw else None,
        )

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        """The events of the next step."""
        call = self._noted(True, *given, **more)
        with self._span(call):
            step = await self._next(call)
            if callable(step.stream_events):
                events = step.stream_events(call)
                try:
                    async for event in events:
                        yield event
                finally:
                    if hasattr(events, "aclose"):
                        await events.aclose()
                return
            shown = stream_of(step) if step.stream_events is None else step.stream_events
            for event in shown:
                yield event

    def _span(self, call: ModelCall) -> Any:
        return generation_span(disabled=not self._emit_traces)

    def _noted(
        self,
        streamed: bool,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> ModelCall:
        call = ModelCall(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            tracing,
            previous_response_id,
            conversation_id,
            prompt,
            streamed,
        ).copied()
        self._calls.append(call)
        return call.copied()

    async def _next(self, call: ModelCall) -> ModelStep:
        if not self._steps:
            number = len(self._calls)
            mode = "streaming" if call.streamed else "non-streaming"
            raise UnexpectedModelCall(
                f"Unexpected {mode} model call #{number}: no scripted steps remain.",
                call=call,
                call_index=number - 1,
            )
        step = self._steps.pop(0)
        while step.responder is not None:
            given = step.responder(call)
            step = _step(await given if inspect.isawaitable(given) else given, 0)
        if step.error is not None:
            self._advice[id(step.error)] = step.retry_advice
            raise step.error
        usage = step.usage
        if usage == Usage():
            usage = Usage(requests=1) if self._default_usage is None else self._default_usage
        return replace(step, usage=copy.deepcopy(usage), output=_objects(step.output))


def _objects(output: Sequence[Any]) -> list[Any]:
    return [typed(copy.deepcopy(each)) for each in output]


def _step(given: Any, index: int) -> ModelStep:
    """A step, however it is written; `InvalidModelStep`."""
    if isinstance(given, ModelStep):
        step = given
    elif isinstance(given, ModelResponse):
        step = ModelStep(
            output=given.output,
            usage=given.usage,
            response_id=given.response_id,
            request_id=given.request_id,
            raw_usage=given.raw_usage,
        )
    elif isinstance(given, Exception):
        step = ModelStep.raise_error(given)
    elif isinstance(given, Mapping):
        if set(given) - _FIELDS:
            raise _invalid("unsupported_field", index, "contains unsupported fields")
        step = ModelStep(**given)
    else:
        step = ModelStep(output=given)
    _check(step, index)
    return replace(step, output=copy.deepcopy(list(step.output)))


def _check(step: ModelStep, index: int) -> None:
    output: Any = step.output
    if isinstance(output, str | bytes) or not isinstance(output, Sequence):
        raise _invalid("invalid_input", index, "must be a sequence of output items")
    for item in output:
        if raw_field(item, "type") is None:
            raise _invalid("invalid_input", index, "contains something that is no output item")
    error: Any = step.error
    if error is not None and not isinstance(error, Exception):
        raise _invalid("invalid_error", index, "has an error that is no exception")
    if step.responder is not None and not callable(step.responder):
        raise _invalid("invalid_responder", index, "has a responder that is not callable")
    outcomes = [step.error is not None, step.responder is not None, step.stream_events is not None]
    if sum(outcomes) > 1:
        raise _invalid("conflicting_outcomes", index, "has more than one outcome")
    if step.retry_advice is not None and step.error is None:
        raise _invalid("invalid_retry_advice", index, "has retry advice without an error")


def _invalid(reason: str, index: int, detail: str) -> InvalidModelStep:
    return InvalidModelStep(
        f"Invalid model step at index {index}: {detail}.", reason=reason, input_index=index
    )


def assistant_message(text: str, *, item_id: str = "scripted-message") -> Any:
    """An assistant message, as an output item."""
    return ResponseOutputMessage.model_validate(
        {
            "id": item_id,
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
        }
    )


def function_call(
    name: str,
    arguments: str | Mapping[str, Any],
    *,
    call_id: str,
    item_id: str | None = None,
    namespace: str | None = None,
) -> Any:
    """A tool call, as an output item."""
    given = arguments
    if not isinstance(given, str):
        given = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    fields: dict[str, Any] = {
        "id": call_id if item_id is None else item_id,
        "call_id": call_id,
        "type": "function_call",
        "name": name,
        "arguments": given,
    }
    if namespace is not None:
        fields["namespace"] = namespace
    return ResponseFunctionToolCall.model_validate(fields)


# The events of a streamed step.

_event: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def stream_of(step: Any) -> list[Any]:
    """The events of a step."""
    response = _response(step, "in_progress", [])
    plain: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
    ]
    for index, item in enumerate(step.output):
        plain.extend(_item_events(to_item(item), index))
    events = [
        _event.validate_python({**each, "sequence_number": number})
        for number, each in enumerate(plain)
    ]
    done = _event.validate_python(
        {
            "type": "response.completed",
            "response": _response(step, "completed", step.output),
            "sequence_number": len(events),
        }
    )
    return [*events, done]


def _response(step: Any, status: str, output: Any) -> dict[str, Any]:
    whole = Response.model_construct(
        id=step.response_id or "",
        created_at=0.0,
        model="scripted-model",
        object="response",
        parallel_tool_calls=False,
        tool_choice="none",
        tools=[],
        status=status,
    ).model_dump(exclude_unset=True)
    whole["output"] = [to_item(item) for item in output]
    whole["usage"] = _usage(step.usage)
    return whole


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_details": usage.input_tokens_details.model_dump(),
        "output_tokens_details": usage.output_tokens_details.model_dump(),
    }


def _item_events(item: dict[str, Any], index: int) -> Iterator[dict[str, Any]]:
    at = {"output_index": index, "item_id": item.get("id") or f"item-{index}"}
    kind = item.get("type")
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    if kind == "message":
        begun["content"] = []
    elif kind == "function_call":
        begun["arguments"] = ""
    elif kind == "reasoning":
        begun["summary"] = []
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if kind == "message":
        for number, part in enumerate(item["content"]):
            yield from _part_events(part, {**at, "content_index": number})
    elif kind == "function_call":
        given = item["arguments"]
        yield {"type": "response.function_call_arguments.delta", "delta": given, **at}
        yield {
            "type": "response.function_call_arguments.done",
            "arguments": given,
            "name": item["name"],
            **at,
        }
    elif kind == "reasoning":
        for number, part in enumerate(item.get("summary") or ()):
            here = {**at, "summary_index": number}
            empty = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", "part": empty, **here}
            text = part["text"]
            yield {"type": "response.reasoning_summary_text.delta", "delta": text, **here}
            yield {"type": "response.reasoning_summary_text.done", "text": text, **here}
            yield {"type": "response.reasoning_summary_part.done", "part": part, **here}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(part: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    is_text = part["type"] == "output_text"
    field, name = ("text", "output_text") if is_text else ("refusal", "refusal")
    empty = {**part, field: ""}
    more = {"logprobs": part.get("logprobs") or []} if is_text else {}
    yield {"type": "response.content_part.added", "part": empty, **at}
    yield {"type": f"response.{name}.delta", "delta": part[field], **more, **at}
    yield {"type": f"response.{name}.done", field: part[field], **more, **at}
    yield {"type": "response.content_part.done", "part": part, **at}
