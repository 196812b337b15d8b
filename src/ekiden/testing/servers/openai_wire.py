"""Answers in the two wire formats of OpenAI, whole and as streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from ekiden.core.conversation.model import Item, Usage, refusal_of, text_of
from ekiden.testing.steps import pieces

_CREATED = 1_750_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WireAnswer:
    """An answer with everything that the wire needs to know of it."""

    id: str
    """Such as ``1``; ids of responses, messages and calls are made from it."""
    model: str
    items: list[Item]
    usage: Usage
    chunks: int
    """Into how many pieces a text is cut in a stream."""

    @property
    def is_incomplete(self) -> bool:
        return any(item.get("status") == "incomplete" for item in self.items)


def response_body(said: WireAnswer) -> dict[str, Any]:
    """The answer of ``/v1/responses``."""
    usage = said.usage
    return {
        **_response_head(said),
        "status": "incomplete" if said.is_incomplete else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if said.is_incomplete else None,
        "output": said.items,
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


def response_events(said: WireAnswer) -> Iterator[tuple[str, str]]:
    """The names and data of the events of a streamed ``/v1/responses``."""
    numbers = count()
    opened = {**_response_head(said), "status": "in_progress", "output": [], "usage": None}
    body = response_body(said)
    last = "response.incomplete" if said.is_incomplete else "response.completed"
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": opened},
        {"type": "response.in_progress", "response": opened},
        *(event for index, item in enumerate(said.items) for event in _item(said, index, item)),
        {"type": last, "response": body},
    ]
    for event in events:
        yield event["type"], json.dumps({**event, "sequence_number": next(numbers)})


def completion_body(said: WireAnswer) -> dict[str, Any]:
    """The answer of ``/v1/chat/completions``."""
    message: dict[str, Any] = {"role": "assistant", "content": _content(said), "refusal": None}
    if refusal := _refusal(said):
        message.update(content=None, refusal=refusal)
    if calls := [_chat_call(item) for item in said.items if item["type"] == "function_call"]:
        message["tool_calls"] = calls
    if reasoning := "".join(map(_summary, said.items)):
        message["reasoning_content"] = reasoning
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(said)}
    head = _completion_head(said, "chat.completion")
    return {**head, "choices": [choice], "usage": _chat_usage(said.usage)}


def completion_events(said: WireAnswer, *, include_usage: bool) -> Iterator[tuple[None, str]]:
    """The data of the events of a streamed ``/v1/chat/completions``."""
    head = _completion_head(said, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    reasoning = "".join(map(_summary, said.items))
    deltas += [{"reasoning_content": text} for text in pieces(reasoning, said.chunks)]
    if refusal := _refusal(said):
        deltas += [{"refusal": text} for text in pieces(refusal, said.chunks)]
    else:
        deltas += [{"content": text} for text in pieces(_content(said) or "", said.chunks)]
    calls = (item for item in said.items if item["type"] == "function_call")
    for index, item in enumerate(calls):
        call = {**_chat_call(item), "index": index}
        call["function"] = {"name": item["name"], "arguments": ""}
        deltas.append({"tool_calls": [call]})
        for text in pieces(item["arguments"], said.chunks):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    for delta in deltas:
        yield None, _chunk(head, {"index": 0, "delta": delta, "finish_reason": None})
    yield None, _chunk(head, {"index": 0, "delta": {}, "finish_reason": _finish(said)})
    if include_usage:
        yield None, json.dumps({**head, "choices": [], "usage": _chat_usage(said.usage)})
    yield None, "[DONE]"


def wire_item(item: Item, number: str) -> Item:
    """An item with the ids and fields that the API always gives."""
    kind = item.get("type", "message")
    status = item.get("status", "completed")
    if kind == "function_call":
        return {"id": f"fc_{number}", "status": status, "call_id": f"call_{number}", **item}
    if kind == "reasoning":
        return {"id": f"rs_{number}", "summary": [], **item}
    parts = [
        part if part["type"] == "refusal" else {"annotations": [], "logprobs": [], **part}
        for part in item["content"]
    ]
    return {"id": f"msg_{number}", "status": status, **item, "content": parts}


def _response_head(said: WireAnswer) -> dict[str, Any]:
    return {
        "id": f"resp_{said.id}",
        "object": "response",
        "created_at": _CREATED,
        "model": said.model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def _item(said: WireAnswer, index: int, item: Item) -> Iterator[dict[str, Any]]:
    where = {"output_index": index, "item_id": item["id"]}
    kind = item["type"]
    if kind == "function_call":
        started = {**item, "arguments": "", "status": "in_progress"}
        inner = _arguments(item, where, said.chunks)
    elif kind == "reasoning":
        started = {**item, "summary": []}
        inner = _summaries(item, where, said.chunks)
    else:
        started = {**item, "content": [], "status": "in_progress"}
        inner = _parts(item, where, said.chunks)
    yield {"type": "response.output_item.added", "output_index": index, "item": started}
    yield from inner
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _arguments(item: Item, where: dict[str, Any], chunks: int) -> Iterator[dict[str, Any]]:
    kind = "response.function_call_arguments"
    for text in pieces(item["arguments"], chunks):
        yield {"type": f"{kind}.delta", **where, "delta": text}
    yield {"type": f"{kind}.done", **where, "name": item["name"], "arguments": item["arguments"]}


def _summaries(item: Item, where: dict[str, Any], chunks: int) -> Iterator[dict[str, Any]]:
    kind = "response.reasoning_summary"
    for index, part in enumerate(item["summary"]):
        at = {**where, "summary_index": index}
        yield {"type": f"{kind}_part.added", **at, "part": {**part, "text": ""}}
        for text in pieces(part["text"], chunks):
            yield {"type": f"{kind}_text.delta", **at, "delta": text}
        yield {"type": f"{kind}_text.done", **at, "text": part["text"]}
        yield {"type": f"{kind}_part.done", **at, "part": part}


def _parts(item: Item, where: dict[str, Any], chunks: int) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(item["content"]):
        at = {**where, "content_index": index}
        field = "refusal" if part["type"] == "refusal" else "text"
        kind = "response.refusal" if field == "refusal" else "response.output_text"
        yield {"type": "response.content_part.added", **at, "part": {**part, field: ""}}
        for text in pieces(part[field], chunks):
            yield {"type": f"{kind}.delta", **at, "delta": text, "logprobs": []}
        yield {"type": f"{kind}.done", **at, field: part[field], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}


def _completion_head(said: WireAnswer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{said.id}", "object": kind, "created": _CREATED, "model": said.model}


def _chunk(head: dict[str, Any], choice: dict[str, Any]) -> str:
    return json.dumps({**head, "choices": [choice]})


def _chat_call(item: Item) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens": usage.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _content(said: WireAnswer) -> str | None:
    return "".join(map(text_of, _messages(said.items))) or None


def _refusal(said: WireAnswer) -> str | None:
    return next(filter(None, map(refusal_of, _messages(said.items))), None)


def _messages(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item["type"] == "message"]


def _summary(item: Item) -> str:
    return "".join(part["text"] for part in item.get("summary") or ())


def _finish(said: WireAnswer) -> str:
    if said.is_incomplete:
        return "length"
    called = any(item["type"] == "function_call" for item in said.items)
    return "tool_calls" if called else "stop"
