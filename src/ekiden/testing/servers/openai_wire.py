"""Answers in the formats of OpenAI's two APIs, plain and streamed."""

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
    """An answer, independent of the API."""

    id: str
    """An id such as ``1``. The ids of responses, messages and calls are made from this id."""
    model: str
    items: list[Item]
    usage: Usage
    chunks: int
    """The number of pieces of a text in a stream."""

    @property
    def is_incomplete(self) -> bool:
        return any(item.get("status") == "incomplete" for item in self.items)


def response_body(answer: WireAnswer) -> dict[str, Any]:
    """The answer of ``/v1/responses``."""
    usage = answer.usage
    return {
        **_response_head(answer),
        "status": "incomplete" if answer.is_incomplete else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if answer.is_incomplete else None,
        "output": answer.items,
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


def response_events(answer: WireAnswer) -> Iterator[tuple[str, str]]:
    """The names and data of the events of a streamed ``/v1/responses``."""
    numbers = count()
    opened = {**_response_head(answer), "status": "in_progress", "output": [], "usage": None}
    body = response_body(answer)
    last = "response.incomplete" if answer.is_incomplete else "response.completed"
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": opened},
        {"type": "response.in_progress", "response": opened},
        *(event for index, item in enumerate(answer.items) for event in _item(answer, index, item)),
        {"type": last, "response": body},
    ]
    for event in events:
        yield event["type"], json.dumps({**event, "sequence_number": next(numbers)})


def completion_body(answer: WireAnswer) -> dict[str, Any]:
    """The answer of ``/v1/chat/completions``."""
    message: dict[str, Any] = {"role": "assistant", "content": _content(answer), "refusal": None}
    if refusal := _refusal(answer):
        message.update(content=None, refusal=refusal)
    if calls := [_chat_call(item) for item in answer.items if item["type"] == "function_call"]:
        message["tool_calls"] = calls
    if reasoning := "".join(map(_summary, answer.items)):
        message["reasoning_content"] = reasoning
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    head = _completion_head(answer, "chat.completion")
    return {**head, "choices": [choice], "usage": _chat_usage(answer.usage)}


def completion_events(answer: WireAnswer, *, include_usage: bool) -> Iterator[tuple[None, str]]:
    """The data of the events of a streamed ``/v1/chat/completions``."""
    head = _completion_head(answer, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    reasoning = "".join(map(_summary, answer.items))
    deltas += [{"reasoning_content": text} for text in pieces(reasoning, answer.chunks)]
    if refusal := _refusal(answer):
        deltas += [{"refusal": text} for text in pieces(refusal, answer.chunks)]
    else:
        deltas += [{"content": text} for text in pieces(_content(answer) or "", answer.chunks)]
    calls = (item for item in answer.items if item["type"] == "function_call")
    for index, item in enumerate(calls):
        call = {**_chat_call(item), "index": index}
        call["function"] = {"name": item["name"], "arguments": ""}
        deltas.append({"tool_calls": [call]})
        for text in pieces(item["arguments"], answer.chunks):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    for delta in deltas:
        yield None, _chunk(head, {"index": 0, "delta": delta, "finish_reason": None})
    yield None, _chunk(head, {"index": 0, "delta": {}, "finish_reason": _finish(answer)})
    if include_usage:
        yield None, json.dumps({**head, "choices": [], "usage": _chat_usage(answer.usage)})
    yield None, "[DONE]"


def wire_item(item: Item, number: str) -> Item:
    """The item with the ids and fields that the API always sends."""
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


def _response_head(answer: WireAnswer) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": _CREATED,
        "model": answer.model,
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


def _item(answer: WireAnswer, index: int, item: Item) -> Iterator[dict[str, Any]]:
    where = {"output_index": index, "item_id": item["id"]}
    kind = item["type"]
    if kind == "function_call":
        started = {**item, "arguments": "", "status": "in_progress"}
        inner = _arguments(item, where, answer.chunks)
    elif kind == "reasoning":
        started = {**item, "summary": []}
        inner = _summaries(item, where, answer.chunks)
    else:
        started = {**item, "content": [], "status": "in_progress"}
        inner = _parts(item, where, answer.chunks)
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


def _completion_head(answer: WireAnswer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": _CREATED,
        "model": answer.model,
    }


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


def _content(answer: WireAnswer) -> str | None:
    return "".join(map(text_of, _messages(answer.items))) or None


def _refusal(answer: WireAnswer) -> str | None:
    return next(filter(None, map(refusal_of, _messages(answer.items))), None)


def _messages(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item["type"] == "message"]


def _summary(item: Item) -> str:
    return "".join(part["text"] for part in item.get("summary") or ())


def _finish(answer: WireAnswer) -> str:
    if answer.is_incomplete:
        return "length"
    called = any(item["type"] == "function_call" for item in answer.items)
    return "tool_calls" if called else "stop"
