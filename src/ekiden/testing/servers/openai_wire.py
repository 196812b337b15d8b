"""The formats of OpenAI's two APIs: answers, plain and streamed, and checks of requests. Invalid
requests are refused with the status 400, as OpenAI does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn

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


# Checks of requests.

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHARED_FIELDS = _names(
    "metadata model moderation parallel_tool_calls prompt_cache_key prompt_cache_options "
    "prompt_cache_retention safety_identifier service_tier store stream stream_options "
    "temperature tool_choice tools top_logprobs top_p user"
)
_RESPONSES_FIELDS = _SHARED_FIELDS | _names(
    "background context_management conversation include input instructions max_output_tokens "
    "max_tool_calls previous_response_id prompt reasoning text truncation"
)
_CHAT_FIELDS = _SHARED_FIELDS | _names(
    "audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens messages "
    "modalities n prediction presence_penalty reasoning_effort response_format seed stop "
    "verbosity web_search_options"
)
_ITEM_FIELDS = {
    "message": frozenset({"type", "role", "content", "id", "status", "phase"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments", "id", "status"}),
    "function_call_output": frozenset({"type", "call_id", "output", "id", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
}
_INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
_OUTPUT_PARTS = frozenset({"output_text", "refusal"})
_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "file"})
_CHAT_ROLES = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal", "audio"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_REASONING_FIELDS = frozenset({"reasoning", "reasoning_content"})
"""Fields that compatible servers accept, but OpenAI does not have."""


class InvalidCall(Exception):
    """A request that the API refuses with the status 400."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param = message, param

    def body(self) -> dict[str, Any]:
        """The error in the format of the API."""
        error = {"message": self.message, "type": "invalid_request_error", "param": self.param}
        return {"error": {**error, "code": None}}


def check_responses(body: Any, *, reasoning_of: Mapping[str, str]) -> None:
    """Check a request of ``/v1/responses``. `reasoning_of` maps the id of an item to the id of the
    reasoning item that must precede it."""
    _fields(body, _RESPONSES_FIELDS, "")
    _string(body, "model", "model")
    _sampling(body)
    tools = [_responses_tool(tool, f"tools[{i}]") for i, tool in _listed(body.get("tools"))]
    _tool_choice(body.get("tool_choice"), tools)
    limit = body.get("max_output_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 16):
        _refuse("Invalid 'max_output_tokens': expected an integer >= 16.", "max_output_tokens")
    form = (body.get("text") or {}).get("format")
    if form and form.get("type") == "json_schema":
        _schema_format(form, "text.format")
    items = body.get("input")
    if not isinstance(items, str):
        if not isinstance(items, list) or not items:
            _refuse("Missing required parameter: 'input'.", "input")
        _items(items, reasoning_of)


def check_chat(body: Any) -> None:
    """Check a request of ``/v1/chat/completions``."""
    _fields(body, _CHAT_FIELDS, "")
    _string(body, "model", "model")
    _sampling(body)
    tools = [_chat_tool(tool, f"tools[{i}]") for i, tool in _listed(body.get("tools"))]
    _tool_choice(body.get("tool_choice"), tools)
    form = body.get("response_format")
    if form and form.get("type") == "json_schema":
        _schema_format(form.get("json_schema"), "response_format.json_schema")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        _refuse("Missing required parameter: 'messages'.", "messages")
    _check_messages(messages)


def _items(items: Sequence[Any], reasoning_of: Mapping[str, str]) -> None:
    calls: set[str] = set()
    answered: set[str] = set()
    reasoning: set[str] = set()
    for index, item in enumerate(items):
        path = f"input[{index}]"
        kind = _check_item(item, path)
        if kind == "function_call":
            calls.add(item["call_id"])
        elif kind == "function_call_output":
            call_id = item["call_id"]
            if call_id not in calls:
                _refuse(f"No tool call found for function call output with call_id {call_id}.")
            answered.add(call_id)
        elif kind == "reasoning":
            reasoning.add(item["id"])
            following = items[index + 1] if index + 1 < len(items) else {}
            if following.get("type") not in ("reasoning", "function_call", "message"):
                _refuse(
                    f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                    "following item."
                )
        needed = reasoning_of.get(item.get("id") or "")
        if needed is not None and needed not in reasoning:
            _refuse(
                f"Item '{item['id']}' of type '{kind}' was provided without its required "
                f"'reasoning' item: '{needed}'."
            )
    for call_id in sorted(calls - answered):
        _refuse(f"No tool output found for function call {call_id}.")


def _check_item(item: Any, path: str) -> str:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind not in _ITEM_FIELDS:
        _refuse(f"Invalid value: '{kind}' of '{path}.type'.", path)
    _fields(item, _ITEM_FIELDS[kind], f"{path}.")
    if kind == "message":
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            _refuse(f"Invalid value: '{role}'.", f"{path}.role")
        allowed = _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS
        _check_content(item.get("content"), allowed, f"{path}.content")
    elif kind == "reasoning":
        _string(item, "id", f"{path}.id")
        if not isinstance(item.get("summary"), list):
            _refuse(f"Missing required parameter: '{path}.summary'.", path)
    else:
        _string(item, "call_id", f"{path}.call_id")
        if kind == "function_call":
            _string(item, "name", f"{path}.name")
            _string(item, "arguments", f"{path}.arguments")
        else:
            _check_content(item.get("output"), _INPUT_PARTS, f"{path}.output")
    return str(kind)


def _check_messages(messages: Sequence[Any]) -> None:
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _CHAT_ROLES:
            _refuse(f"Invalid value: '{role}'.", f"{path}.role")
        extra = _REASONING_FIELDS if role == "assistant" else frozenset()
        _fields(message, _CHAT_ROLES[role] | extra, f"{path}.")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                _refuse(
                    "messages with role 'tool' must be a response to a preceding message with "
                    "'tool_calls'.",
                    path,
                )
            waiting.discard(message["tool_call_id"])
        elif waiting:
            break
        if role == "assistant":
            waiting = {_check_chat_call(call, path) for call in message.get("tool_calls") or ()}
        if message.get("content") is not None or role != "assistant" or not waiting:
            _check_content(message.get("content"), _CHAT_PARTS, f"{path}.content")
    if waiting:
        _refuse(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id': {', '.join(sorted(waiting))}"
        )


def _check_chat_call(call: Any, path: str) -> str:
    _string(call, "id", f"{path}.tool_calls.id")
    _string(call.get("function") or {}, "name", f"{path}.tool_calls.function.name")
    _string(call["function"], "arguments", f"{path}.tool_calls.function.arguments")
    return str(call["id"])


def _check_content(content: Any, allowed: frozenset[str], path: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        _refuse(f"Invalid type for '{path}': expected a string or an array.", path)
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            _refuse(f"Invalid value: '{kind}'.", f"{path}[{index}].type")


def _responses_tool(tool: Any, path: str) -> str:
    _fields(tool, {"type", "name", "description", "parameters", "strict"}, f"{path}.")
    return _function(tool, path, strict_by_default=True)


def _chat_tool(tool: Any, path: str) -> str:
    _fields(tool, {"type", "function"}, f"{path}.")
    return _function(tool.get("function") or {}, f"{path}.function", strict_by_default=False)


def _function(tool: Any, path: str, *, strict_by_default: bool) -> str:
    name = tool.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _refuse(f"Invalid '{path}.name': does not match '^[a-zA-Z0-9_-]+$'.", f"{path}.name")
    parameters = tool.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        _refuse(f"Invalid schema for function '{name}': schema must have type 'object'.", path)
    if tool.get("strict", strict_by_default):
        _strict(parameters, f"Invalid schema for function '{name}'")
    return name


def _tool_choice(choice: Any, tools: list[str]) -> None:
    if len(set(tools)) < len(tools):
        _refuse("Tool names must be unique.", "tools")
    if choice is None:
        return
    if not tools:
        _refuse("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            _refuse(f"Invalid value: '{choice}'.", "tool_choice")
        return
    name = choice.get("name") or (choice.get("function") or {}).get("name")
    if name is not None and name not in tools:
        _refuse(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")


def _schema_format(form: Any, path: str) -> None:
    name = form.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _refuse(f"Invalid '{path}.name'.", f"{path}.name")
    if not isinstance(form.get("schema"), dict):
        _refuse(f"Missing required parameter: '{path}.schema'.", path)
    if form.get("strict"):
        _strict(form["schema"], f"Invalid schema for response_format '{name}'")


def _strict(schema: Any, what: str, context: tuple[str, ...] = ()) -> None:
    """Check that all objects are closed, and require every property."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            _refuse(
                f"{what}: In context={context}, 'additionalProperties' is required to be supplied "
                "and to be false."
            )
        missing = set(schema.get("properties") or {}) - set(schema.get("required") or ())
        if missing:
            _refuse(
                f"{what}: In context={context}, 'required' is required to be supplied and to be "
                f"an array including every key in properties. Missing '{min(missing)}'."
            )
    for key in ("properties", "$defs", "definitions"):
        for name, child in (schema.get(key) or {}).items():
            _strict(child, what, (*context, key, name))
    for child in [*(schema.get("anyOf") or ()), schema.get("items")]:
        _strict(child, what, context)


def _sampling(body: Mapping[str, Any]) -> None:
    for name, highest in (("temperature", 2), ("top_p", 1)):
        value = body.get(name)
        if value is not None and not (isinstance(value, int | float) and 0 <= value <= highest):
            _refuse(f"Invalid '{name}': expected a number between 0 and {highest}.", name)


def _fields(value: Any, known: Iterable[str], path: str) -> None:
    if not isinstance(value, dict):
        _refuse(f"Invalid type for '{path}': expected an object.", path)
    for name in value:
        if name not in known:
            _refuse(f"Unknown parameter: '{path}{name}'.", f"{path}{name}")


def _string(value: Mapping[str, Any], name: str, path: str) -> None:
    if not isinstance(value.get(name), str) or (name != "arguments" and not value[name]):
        _refuse(f"Missing required parameter: '{path}'.", path)


def _listed(value: Any) -> Iterable[tuple[int, Any]]:
    if value is not None and not isinstance(value, list):
        _refuse("Invalid type for 'tools': expected an array.", "tools")
    return enumerate(value or ())


def _refuse(message: str, param: str | None = None) -> NoReturn:
    raise InvalidCall(message, param=param)
