"""A scripted answer as the events in which OpenAI's API would stream it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from ekiden.compat.agents.usage import Usage
from ekiden.core.conversation.model import to_item

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
