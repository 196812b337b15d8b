"""Translates responses and stream events of the library pydantic-ai to items and deltas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic_ai.messages import (
    FilePart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from ekiden.core.conversation import model as core
from ekiden.core.conversation.model import Item, Usage
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.values import dumps
from ekiden.models.requests import ORIGIN

_FILTERED = "The provider's content filter stopped this answer."
_REDACTED = "redacted_thinking"
_KINDS = frozenset({_REDACTED, "content", "reasoning", "reasoning_content", "thinking"})
"""Constants that the library uses as the id of reasoning if a provider has no ids."""


def to_response(response: ModelResponse, *, source: str, label: str) -> core.ModelResponse:
    """Convert the library's response to the complete answer. `source` names the provider in items
    with data that only this provider understands.

    Raises `ModelBehaviorError` if the provider reports that the answer failed.
    """
    output = _items(response.parts, source, label)
    details = response.provider_details or {}
    if response.finish_reason == "content_filter":
        refusal = str(details.get("refusal") or _FILTERED)
        output.append(_message([{"type": "refusal", "refusal": refusal}]))
    elif response.finish_reason == "error":
        reason = details.get("finish_reason") or "no reason given"
        raise ModelBehaviorError(f"the answer of {label} was cut off: {reason}")
    elif response.finish_reason == "length":
        if all(item["type"] == "reasoning" for item in output):
            raise ModelBehaviorError(
                f"{label} reached its limit of tokens before it said anything: raise max_tokens"
            )
        output[-1]["status"] = "incomplete"
    return core.ModelResponse(
        output=output,
        usage=_usage(response.usage),
        response_id=response.provider_response_id,
        model=response.model_name,
    )


class Deltas:
    """Converts the events of one stream to deltas, numbered like the items of the answer."""

    def __init__(self) -> None:
        self._keys: list[tuple[str, str] | None] = []

    def of(self, event: ModelResponseStreamEvent) -> core.ModelDelta | None:
        """Return the delta of an event; `None` if the event has no text."""
        if isinstance(event, PartStartEvent):
            # A call whose name has not arrived yet has an index, but has not started.
            for index in range(len(self._keys), event.index):
                self._keys.append(("function_call", f"#{index}"))
            self._keys[event.index : event.index + 1] = [_key(event.part, event.index)]
            return self._delta(event.index, _start_text(event.part))
        if isinstance(event, PartDeltaEvent):
            return self._delta(event.index, _delta_text(event.delta))
        return None

    def _delta(self, index: int, text: str) -> core.ModelDelta | None:
        key = self._keys[index]
        if key is None or not text:
            return None
        before = [each for each in self._keys[: index + 1] if each is not None]
        changes = sum(a != b for a, b in pairwise(before))
        match key[0]:
            case "message":
                return core.ModelDelta(kind="text", text=text, index=changes)
            case "reasoning":
                return core.ModelDelta(kind="reasoning", text=text, index=changes)
            case _:
                return core.ModelDelta(kind="arguments", text=text, index=changes)


def _key(part: ModelResponsePart, index: int) -> tuple[str, str] | None:
    """A key that neighbouring parts of one item share; `None` for a part that is not an item."""
    match part:
        case TextPart():
            return "message", part.id or f"#{index}"
        case ThinkingPart():
            own = part.id is None or part.id == _REDACTED
            return "reasoning", f"#{index}" if own else str(part.id)
        case ToolCallPart():
            return "function_call", f"#{index}"
    return None


def _items(parts: Sequence[ModelResponsePart], source: str, label: str) -> list[Item]:
    items: list[Item] = []
    last: tuple[str, str] | None = None
    for index, part in enumerate(parts):
        key = _key(part, index)
        match part:
            case TextPart() if key == last:
                items[-1]["content"].append(_text(part))
            case TextPart():
                items.append(_with_origin(_message([_text(part)]), part, source))
            case ThinkingPart() if key == last:
                items[-1]["summary"].append(_summary(part))
            case ThinkingPart():
                items.append(_reasoning(part, source))
            case ToolCallPart():
                items.append(_with_origin(_call(part), part, source))
            case FilePart():
                raise ModelBehaviorError(f"{label} returned a file, which is not supported")
            case _:
                continue
        last = key
    if any(item["type"] == "reasoning" for item in items):
        _link_reasoning(items)
    else:
        _forget_ids(items)
    return items


def _message(content: list[dict[str, Any]]) -> Item:
    return {"type": "message", "role": "assistant", "content": content}


def _text(part: TextPart) -> dict[str, Any]:
    return {"type": "output_text", "text": part.content}


def _call(part: ToolCallPart) -> Item:
    arguments = part.args if isinstance(part.args, str) else dumps(part.args or {})
    return {
        "type": "function_call",
        "call_id": part.tool_call_id,
        "name": part.tool_name,
        "arguments": arguments or "{}",
    }


def _reasoning(part: ThinkingPart, source: str) -> Item:
    item: Item = {"type": "reasoning", "summary": [_summary(part)] if part.content else []}
    origin: dict[str, Any] = {"provider": source}
    if part.id is not None:
        if part.id in _KINDS:
            origin["label"] = part.id
        else:
            item["id"] = part.id
    if part.signature is not None:
        item["encrypted_content"] = part.signature
    details = _json_only(part.provider_details)
    raw = details.pop("raw_content", None)
    if raw:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in raw]
    if details:
        origin["details"] = details
    item[ORIGIN] = origin
    return item


def _summary(part: ThinkingPart) -> dict[str, Any]:
    return {"type": "summary_text", "text": part.content}


def _with_origin(item: Item, part: TextPart | ToolCallPart, source: str) -> Item:
    """The item with the provider's id and details, if the part has any."""
    details = _json_only(part.provider_details)
    if part.id is not None:
        item["id"] = part.id
    if details or part.id is not None:
        item[ORIGIN] = {"provider": source, **({"details": details} if details else {})}
    return item


def _json_only(details: dict[str, Any] | None) -> dict[str, Any]:
    kept = {}
    for name, value in (details or {}).items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            continue
        kept[name] = value
    return kept


def _link_reasoning(items: list[Item]) -> None:
    """Note in each reasoning item the id of the item that resulted from it, if it has one."""
    result: Item | None = None
    for item in reversed(items):
        if item["type"] != "reasoning":
            result = item
        elif result is not None:
            named = result.get("call_id") or result.get("id")
            if named is not None:
                item[ORIGIN]["followed_by"] = named


def _forget_ids(items: list[Item]) -> None:
    """Drop the ids in an answer without reasoning: they are never sent back."""
    for item in items:
        item.pop("id", None)
        if not item.get(ORIGIN, {}).get("details"):
            item.pop(ORIGIN, None)


def _start_text(part: ModelResponsePart) -> str:
    if isinstance(part, ToolCallPart):
        return _arguments(part.args)
    return part.content if isinstance(part, TextPart | ThinkingPart) else ""


def _delta_text(delta: object) -> str:
    match delta:
        case TextPartDelta():
            return delta.content_delta
        case ThinkingPartDelta():
            return delta.content_delta or ""
        case ToolCallPartDelta():
            return _arguments(delta.args_delta)
    return ""


def _arguments(args: str | Mapping[str, Any] | None) -> str:
    return args or "" if args is None or isinstance(args, str) else dumps(args)


def _usage(usage: RequestUsage) -> Usage:
    details = usage.details
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=details.get("reasoning_tokens") or details.get("thoughts_tokens") or 0,
    )
