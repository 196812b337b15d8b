"""Chunks of Chat Completions as the events of the Responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from ekiden.compat.agents.exceptions import ModelBehaviorError
from ekiden.compat.agents.models.chatcmpl_converter import thought_signature
from ekiden.compat.agents.models.fake_id import FAKE_RESPONSES_ID
from ekiden.compat.agents.not_supported import placeholders

_adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@dataclass
class Part:
    """A piece of an answer."""

    text: str
    type: str


class SequenceNumber:
    """Counts events from 0."""

    def __init__(self) -> None:
        self._next = 0

    def get_and_increment(self) -> int:
        """The next number."""
        self._next += 1
        return self._next - 1


@dataclass
class StreamingState:
    """What has come so far: items in their order."""

    items: list[dict[str, Any]] = field(default_factory=list)
    calls: dict[int, int] = field(default_factory=dict)
    """Where a call is among the items, by its number in the chunks."""
    usage: Any = None

    def place_of(self, kind: str) -> int | None:
        """Where the item of that kind is."""
        for place, item in enumerate(self.items):
            if item["type"] == kind:
                return place
        return None


class ChatCmplStreamHandler:
    """Reads a stream of chunks."""

    @classmethod
    async def handle_stream(
        cls,
        response: Response,
        stream: AsyncIterator[Any],
        model: str | None = None,
        strict_feature_validation: bool = False,
        provider_data: dict[str, Any] | None = None,
        needs_finish_reason: bool = False,
    ) -> AsyncIterator[Any]:
        """The events; the last one has the whole answer.

        A stream that breaks off before its `finish_reason` raises if that is needed.
        """
        state, number = StreamingState(), SequenceNumber()
        origin = {} if model is None else {"model": model}
        origin |= provider_data or {}
        is_finished = False

        def event(kind: str, **fields: Any) -> Any:
            data = {"type": kind, "sequence_number": number.get_and_increment(), **fields}
            return _adapter.validate_python(data)

        yield event("response.created", response=response)
        async for chunk in stream:
            state.usage = getattr(chunk, "usage", None) or state.usage
            if getattr(chunk, "id", None):
                origin.setdefault("response_id", chunk.id)
            if not chunk.choices:
                continue
            is_finished = is_finished or chunk.choices[0].finish_reason is not None
            if chunk.choices[0].delta is None:
                continue
            extra = {"provider_data": dict(origin)} if origin else {}
            for kind, fields in _changes(state, chunk.choices[0].delta, extra):
                yield event(kind, **fields)
        if needs_finish_reason and not is_finished:
            raise ModelBehaviorError("the stream ended before receiving a finish_reason")
        for place, item in enumerate(state.items):
            for kind, fields in _endings(item, place):
                yield event(kind, **fields)
        final = response.model_copy(deep=True)
        data = {**final.model_dump(), "status": "completed", "output": state.items}
        data["usage"] = usage_data(state.usage)
        yield event("response.completed", response=data)


def _changes(
    state: StreamingState, delta: Any, extra: dict[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """What one chunk adds, as events."""
    found: list[tuple[str, dict[str, Any]]] = []
    reasoning = getattr(delta, "reasoning_content", None)
    plain = None if reasoning else getattr(delta, "reasoning", None)
    blocks = getattr(delta, "thinking_blocks", None) or ()
    for said, signature in [(plain, None)] if plain else map(_thought, blocks):
        _think(state, said, signature, extra, found)
    if plain:
        item = state.items[state.place_of("reasoning") or 0]
        item["provider_data"] = {**item.get("provider_data", {}), "reasoning_field": "reasoning"}
    if reasoning:
        place = state.place_of("reasoning")
        if place is None:
            item = {"id": FAKE_RESPONSES_ID, "type": "reasoning", "summary": [], **extra}
            place = _added(state, item, found)
        if not state.items[place]["summary"]:
            state.items[place]["summary"] = [{"text": "", "type": "summary_text"}]
            blank = {"text": "", "type": "summary_text"}
            where = _where(place, summary_index=0)
            found.append(("response.reasoning_summary_part.added", {**where, "part": blank}))
        state.items[place]["summary"][0]["text"] += reasoning
        where = _where(place, summary_index=0)
        found.append(("response.reasoning_summary_text.delta", {**where, "delta": reasoning}))
    for kind, said in (
        ("output_text", delta.content),
        ("refusal", getattr(delta, "refusal", None)),
    ):
        if said:
            _say(state, kind, said, extra, found)
    for call in delta.tool_calls or ():
        _call(state, call, extra, found)
    return found


def _thought(block: dict[str, Any]) -> tuple[str | None, str | None]:
    return block.get("thinking"), block.get("signature")


def _think(
    state: StreamingState,
    said: str | None,
    signature: str | None,
    extra: dict[str, Any],
    found: list[Any],
) -> None:
    """Reasoning that is text, not a summary; Claude's comes in blocks with signatures."""
    place = state.place_of("reasoning")
    if place is None:
        item = {"id": FAKE_RESPONSES_ID, "type": "reasoning", "summary": [], **extra}
        place = _added(state, item, found)
    item = state.items[place]
    if signature:
        item["encrypted_content"] = signature
    if said:
        content = item.setdefault("content", [{"text": "", "type": "reasoning_text"}])
        content[0]["text"] += said
        where = _where(place, content_index=0)
        found.append(("response.reasoning_text.delta", {**where, "delta": said}))


def _where(place: int, **more: Any) -> dict[str, Any]:
    return {"item_id": FAKE_RESPONSES_ID, "output_index": place, **more}


def _added(state: StreamingState, item: dict[str, Any], found: list[Any]) -> int:
    place = len(state.items)
    found.append(("response.output_item.added", {"output_index": place, "item": dict(item)}))
    state.items.append(item)
    return place


def _say(
    state: StreamingState, kind: str, said: str, extra: dict[str, Any], found: list[Any]
) -> None:
    place = state.place_of("message")
    if place is None:
        item = {"id": FAKE_RESPONSES_ID, "type": "message", "role": "assistant", "content": []}
        place = _added(state, {**item, "status": "in_progress", **extra}, found)
        state.items[place]["content"] = []
    content: list[dict[str, Any]] = state.items[place]["content"]
    key = "text" if kind == "output_text" else "refusal"
    index = next((i for i, part in enumerate(content) if part["type"] == kind), None)
    if index is None:
        index = len(content)
        part: dict[str, Any] = {"type": kind, key: ""}
        part |= {"annotations": [], "logprobs": []} if key == "text" else {}
        content.append(part)
        where = _where(place, content_index=index)
        found.append(("response.content_part.added", {**where, "part": dict(part)}))
    content[index][key] += said
    more: dict[str, Any] = {"logprobs": []} if key == "text" else {}
    where = _where(place, content_index=index)
    found.append((f"response.{kind}.delta", {**where, "delta": said, **more}))


def _call(state: StreamingState, call: Any, extra: dict[str, Any], found: list[Any]) -> None:
    function = call.function
    if call.index not in state.calls:
        item = {"id": FAKE_RESPONSES_ID, "type": "function_call", "call_id": call.id or ""}
        item |= {"name": (function and function.name) or "", "arguments": "", **extra}
        state.calls[call.index] = _added(state, item, found)
        new = True
    else:
        new = False
    place = state.calls[call.index]
    item = state.items[place]
    if not new and function is not None and function.name and not item["name"]:
        item["name"] = function.name
    item["call_id"] = item["call_id"] or call.id or ""
    signed = thought_signature(call)
    if signed:
        item["provider_data"] = {**item.get("provider_data", {}), **signed}
    if function is not None and function.arguments:
        item["arguments"] += function.arguments
        fields = {**_where(place), "delta": function.arguments}
        found.append(("response.function_call_arguments.delta", fields))


def _endings(item: dict[str, Any], place: int) -> list[tuple[str, dict[str, Any]]]:
    """The events that close an item."""
    found: list[tuple[str, dict[str, Any]]] = []
    if item["type"] == "message":
        item["status"] = "completed"
        for index, part in enumerate(item["content"]):
            where = _where(place, content_index=index)
            found.append(("response.content_part.done", {**where, "part": part}))
    elif item["type"] == "reasoning":
        for part in item.get("content", ()):
            where = _where(place, content_index=0)
            found.append(("response.reasoning_text.done", {**where, "text": part["text"]}))
    if item["type"] == "reasoning" and item["summary"]:
        where, part = _where(place, summary_index=0), item["summary"][0]
        found.append(("response.reasoning_summary_text.done", {**where, "text": part["text"]}))
        found.append(("response.reasoning_summary_part.done", {**where, "part": part}))
    if item["type"] == "function_call":
        done = {"arguments": item["arguments"], "name": item["name"]}
        found.append(("response.function_call_arguments.done", {**_where(place), **done}))
    found.append(("response.output_item.done", {"output_index": place, "item": item}))
    return found


def usage_data(usage: Any) -> dict[str, Any] | None:
    """Token counts of Chat Completions in the words of the Responses API."""
    if usage is None:
        return None
    sent, made = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = (getattr(sent, "cached_tokens", 0) or 0) if sent else 0
    written = (getattr(sent, "cache_write_tokens", 0) or 0) if sent else 0
    return {
        "input_tokens": usage.prompt_tokens or 0,
        "output_tokens": usage.completion_tokens or 0,
        "total_tokens": usage.total_tokens or 0,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens_details": {
            "reasoning_tokens": (getattr(made, "reasoning_tokens", 0) or 0) if made else 0
        },
    }


__getattr__ = placeholders(__name__)
