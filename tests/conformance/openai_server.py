"""A loopback server that speaks OpenAI's wire format and answers by fixed rules.

`python openai_server.py` prints its port and serves until it is stopped. The same conversation
gets the same answer, whoever asks: each tool is called once per user message, structured output is
made from its schema, and a text answer says what the model saw (messages, tool outputs).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

Json = dict[str, Any]

_numbers = itertools.count(1)
_responses: dict[str, list[Json]] = {}
"""All items up to and including a response, by its id."""
_conversations: dict[str, list[Json]] = {}
_files: dict[str, Json] = {}


def _id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):024d}"


# What the model answers


def decide(items: list[Json], body: Json) -> list[Json]:
    """The output items for a conversation."""
    tools = body.get("tools") or []
    choice = body.get("tool_choice") or "auto"
    since = _since_last_user(items)
    user = _last_user_text(items)
    output: list[Json] = []
    if (body.get("reasoning") or {}).get("summary"):
        summary = [{"type": "summary_text", "text": f"Thinking about: {user[:40]}"}]
        output.append({"type": "reasoning", "id": _id("rs"), "summary": summary})
    if choice != "none":
        called = {_call_key(item) for item in since if item.get("type", "").endswith("_call")}
        handed_off = any(str(key).startswith("transfer_to_") for key in called)
        named = choice.get("name") if isinstance(choice, dict) else None
        for tool in _flat(tools):
            name = tool.get("name") or tool["type"]
            if named is not None and name != named:
                continue
            if name.startswith("transfer_to_") and handed_off:
                continue
            if tool["type"] in _SERVER_SIDE or _runs_at_server(tool):
                if _server_key(tool) not in called:
                    output += _SERVER_SIDE_ITEMS[tool["type"]](tool, user, since)
                    if output and output[-1]["type"] == "mcp_approval_request":
                        return output
                continue
            if name in called or tool["type"] not in _CLIENT_SIDE_ITEMS:
                continue
            if len(called) >= 4:
                break
            return [*output, _CLIENT_SIDE_ITEMS[tool["type"]](tool, user)]
    return [*output, _message(items, since, user, (body.get("text") or {}).get("format"))]


def _flat(tools: list[Json]) -> Iterator[Json]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from tool.get("tools", ())
        else:
            yield tool


def _since_last_user(items: list[Json]) -> list[Json]:
    for index in range(len(items) - 1, -1, -1):
        if items[index].get("role") == "user":
            return items[index + 1 :]
    return items


def _last_user_text(items: list[Json]) -> str:
    for item in reversed(items):
        if item.get("role") == "user":
            return _text(item.get("content"))
    return ""


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text") or f"<{part.get('type')}>") for part in content)
    return str(content or "")


def _call_key(item: Json) -> Any:
    if item["type"] in ("function_call", "custom_tool_call"):
        return item.get("name")
    if item["type"] == "mcp_call":
        return ("mcp", item.get("server_label"))
    return {"computer_call": "computer", "local_shell_call": "local_shell"}.get(
        item["type"], item["type"].removesuffix("_call")
    )


def _server_key(tool: Json) -> Any:
    if tool["type"] == "mcp":
        return ("mcp", tool.get("server_label"))
    return tool["type"].removesuffix("_preview")


def _message(items: list[Json], since: list[Json], user: str, form: Json | None) -> Json:
    if form and form.get("type") == "json_schema":
        text = json.dumps(sample(form["schema"], user))
    elif form and form.get("type") == "json_object":
        text = "{}"
    else:
        users = sum(item.get("role") == "user" for item in items)
        outputs = [item for item in since if str(item.get("type")).endswith("_output")]
        results = "; ".join(_text(item.get("output"))[:60] for item in outputs)
        text = f"Answer {users} to: {user[:120]}" + (f" Tools said: {results}" if outputs else "")
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed"}
    return {**message, "content": [part]}


def sample(schema: Json, user: str, root: Json | None = None, name: str = "") -> Any:
    """A value that fits a JSON Schema, made from the user's words."""
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return sample(target, user, root, name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return sample(schema[key][0], user, root, name)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        properties = schema.get("properties") or {}
        needed = schema.get("required", list(properties))
        return {
            key: sample(properties[key], user, root, key) for key in properties if key in needed
        }
    if kind == "array":
        count = max(1, schema.get("minItems") or 1)
        return [sample(schema.get("items") or {}, user, root, name) for _ in range(count)]
    if kind == "boolean":
        return hashlib.sha256(f"{name}{user}".encode()).digest()[0] % 2 == 1
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum") or 1)
    if kind == "null":
        return None
    names = re.findall(r"(?<!^)\b[A-Z][a-z]+\b", user)
    return names[-1] if names else f"some {name or 'text'}"


# Calls that the caller runs


def _function_call(tool: Json, user: str) -> Json:
    arguments = json.dumps(sample(tool.get("parameters") or {}, user))
    call = {"type": "function_call", "id": _id("fc"), "call_id": _id("call")}
    return {**call, "name": tool["name"], "arguments": arguments, "status": "completed"}


def _custom_call(tool: Json, user: str) -> Json:
    call = {"type": "custom_tool_call", "id": _id("ctc"), "call_id": _id("call")}
    return {**call, "name": tool["name"], "input": user[:40]}


def _computer_call(tool: Json, user: str) -> Json:
    call = {"type": "computer_call", "id": _id("cu"), "call_id": _id("call")}
    call |= {"pending_safety_checks": [], "status": "completed"}
    if tool["type"] == "computer":
        return {**call, "actions": [{"type": "screenshot"}]}
    return {**call, "action": {"type": "screenshot"}}


def _local_shell_call(tool: Json, user: str) -> Json:
    call = {"type": "local_shell_call", "id": _id("lsh"), "call_id": _id("call")}
    action = {"type": "exec", "command": ["echo", "hello"], "env": {}}
    return {**call, "action": action, "status": "completed"}


def _shell_call(tool: Json, user: str) -> Json:
    call = {"type": "shell_call", "id": _id("sh"), "call_id": _id("call"), "status": "completed"}
    action = {"commands": ["echo hello"], "timeout_ms": 5000, "max_output_length": 1000}
    return {**call, "action": action}


def _apply_patch_call(tool: Json, user: str) -> Json:
    call = {"type": "apply_patch_call", "id": _id("apc"), "call_id": _id("call")}
    operation = {"type": "create_file", "path": "note.md", "diff": "+hello\n+world\n"}
    return {**call, "status": "completed", "operation": operation}


_CLIENT_SIDE_ITEMS = {
    "function": _function_call,
    "custom": _custom_call,
    "computer": _computer_call,
    "computer_use_preview": _computer_call,
    "local_shell": _local_shell_call,
    "shell": _shell_call,
    "apply_patch": _apply_patch_call,
}


# Calls that OpenAI's side runs


def _runs_at_server(tool: Json) -> bool:
    environment = (tool.get("environment") or {}).get("type")
    return tool["type"] == "shell" and str(environment).startswith("container")


def _web_search(tool: Json, user: str, since: list[Json]) -> list[Json]:
    action = {"type": "search", "query": user[:40], "sources": []}
    return [{"type": "web_search_call", "id": _id("ws"), "status": "completed", "action": action}]


def _file_search(tool: Json, user: str, since: list[Json]) -> list[Json]:
    found = {
        "file_id": "file_1",
        "filename": "a.txt",
        "score": 0.5,
        "text": "Arrakis",
        "attributes": {},
    }
    call = {"type": "file_search_call", "id": _id("fs"), "status": "completed"}
    return [{**call, "queries": [user[:40]], "results": [found]}]


def _code_interpreter(tool: Json, user: str, since: list[Json]) -> list[Json]:
    call = {"type": "code_interpreter_call", "id": _id("ci"), "status": "completed"}
    return [{**call, "code": "print(1)", "container_id": "cntr_1", "outputs": []}]


_PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def _image_generation(tool: Json, user: str, since: list[Json]) -> list[Json]:
    call = {"type": "image_generation_call", "id": _id("ig"), "status": "completed"}
    return [{**call, "result": _PIXEL}]


def _mcp(tool: Json, user: str, since: list[Json]) -> list[Json]:
    label = tool.get("server_label", "server")
    answered = [item for item in since if item.get("type") == "mcp_approval_response"]
    if tool.get("require_approval") != "never" and not answered:
        request = {"type": "mcp_approval_request", "id": _id("mcpr"), "server_label": label}
        return [{**request, "name": "search", "arguments": json.dumps({"query": user[:40]})}]
    listed = {"type": "mcp_list_tools", "id": _id("mcpl"), "server_label": label}
    listed["tools"] = [{"name": "search", "input_schema": {"type": "object"}}]
    if answered and not answered[-1].get("approve"):
        return [listed]
    call = {"type": "mcp_call", "id": _id("mcp"), "server_label": label, "name": "search"}
    return [listed, {**call, "arguments": "{}", "output": "found", "status": "completed"}]


def _container_shell(tool: Json, user: str, since: list[Json]) -> list[Json]:
    call = _shell_call(tool, user)
    output = {"type": "shell_call_output", "id": _id("sho"), "call_id": call["call_id"]}
    result = {"stdout": "hello\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    return [call, {**output, "output": [result], "status": "completed", "max_output_length": 1000}]


_SERVER_SIDE_ITEMS = {
    "web_search": _web_search,
    "web_search_preview": _web_search,
    "file_search": _file_search,
    "code_interpreter": _code_interpreter,
    "image_generation": _image_generation,
    "mcp": _mcp,
    "shell": _container_shell,
}
_SERVER_SIDE = set(_SERVER_SIDE_ITEMS) - {"shell"}


# The Responses interface


def _respond(body: Json) -> Json:
    given = body.get("input") or []
    new = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    conversation = body.get("conversation")
    key = conversation["id"] if isinstance(conversation, dict) else conversation
    before = _conversations.setdefault(key, []) if key else _before(body)
    items = [*before, *new]
    output = decide(items, body)
    response = _envelope(body, output, len(items))
    _responses[response["id"]] = [*items, *output]
    if key:
        _conversations[key] = [*items, *output]
    return response


def _before(body: Json) -> list[Json]:
    return _responses.get(body.get("previous_response_id") or "", [])


def _envelope(body: Json, output: list[Json], seen: int) -> Json:
    usage = {"input_tokens": 10 * seen, "output_tokens": 5, "total_tokens": 10 * seen + 5}
    usage["input_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": 0}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    response = {"id": _id("resp"), "object": "response", "created_at": int(time.time())}
    response |= {"status": "completed", "model": body.get("model"), "output": output}
    response |= {"usage": usage, "error": None, "incomplete_details": None, "metadata": {}}
    response |= {"instructions": body.get("instructions"), "parallel_tool_calls": True}
    response |= {"temperature": 1.0, "top_p": 1.0, "tools": body.get("tools") or []}
    response |= {"tool_choice": body.get("tool_choice") or "auto"}
    return response | {"previous_response_id": body.get("previous_response_id")}


def _events(response: Json) -> Iterator[Json]:
    """The events of a streamed response."""
    counter = itertools.count()

    def event(kind: str, **fields: Any) -> Json:
        return {"type": kind, "sequence_number": next(counter), **fields}

    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, item in enumerate(response["output"]):
        where = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"} if "status" in item else dict(item)
        if item["type"] == "message":
            empty["content"] = []
        if item["type"] == "function_call":
            empty["arguments"] = ""
        yield event("response.output_item.added", output_index=index, item=empty)
        if item["type"] == "message":
            yield from _text_events(event, item, where)
        elif item["type"] == "function_call":
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", delta=piece, **where)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield event("response.function_call_arguments.done", **done, **where)
        elif item["type"] == "reasoning":
            for part in item["summary"]:
                spot = {**where, "summary_index": 0}
                blank = {**part, "text": ""}
                yield event("response.reasoning_summary_part.added", part=blank, **spot)
                for piece in _pieces(part["text"]):
                    yield event("response.reasoning_summary_text.delta", delta=piece, **spot)
                yield event("response.reasoning_summary_text.done", text=part["text"], **spot)
                yield event("response.reasoning_summary_part.done", part=part, **spot)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=response)


def _text_events(event: Any, item: Json, where: Json) -> Iterator[Json]:
    for place, part in enumerate(item["content"]):
        spot = {**where, "content_index": place}
        yield event("response.content_part.added", part={**part, "text": ""}, **spot)
        for piece in _pieces(part["text"]):
            yield event("response.output_text.delta", delta=piece, logprobs=[], **spot)
        yield event("response.output_text.done", text=part["text"], logprobs=[], **spot)
        yield event("response.content_part.done", part=part, **spot)


def _pieces(text: str) -> list[str]:
    return re.findall(r".{1,12}", text, re.DOTALL)


async def responses(request: Request) -> Response:
    """`POST /v1/responses`."""
    body = await request.json()
    if str(body.get("model")).startswith("no-such"):
        return _error(404, f"The model {body['model']!r} does not exist", "model_not_found")
    response = _respond(body)
    if not body.get("stream"):
        return JSONResponse(response)
    lines = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in _events(response))
    return StreamingResponse(_slowly(lines), media_type="text/event-stream")


async def _slowly(lines: Iterator[str]) -> Any:
    for line in lines:
        yield line
        await asyncio.sleep(0)


def _error(status: int, message: str, code: str) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "code": code, "param": None}
    return JSONResponse({"error": error}, status_code=status)


async def responses_socket(socket: WebSocket) -> None:
    """`/v1/responses` over a WebSocket: one `response.create` after the other."""
    await socket.accept()
    try:
        while True:
            body = await socket.receive_json()
            for event in _events(_respond(body.get("response") or body)):
                await socket.send_json(event)
    except WebSocketDisconnect:
        return


async def compact(request: Request) -> Response:
    """`POST /v1/responses/compact`: all that was said becomes one item."""
    body = await request.json()
    given = body.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    items = [*_before(body), *items]
    kept = [item for item in items if item.get("role") == "user"]
    output = [*kept, {"type": "compaction", "id": _id("cmp"), "encrypted_content": "secret"}]
    usage = _envelope(body, [], len(items))["usage"]
    envelope = {"id": _id("resp"), "object": "response.compaction", "created_at": 1}
    return JSONResponse({**envelope, "output": output, "usage": usage})


# Chat Completions


def _from_chat(body: Json) -> tuple[list[Json], Json]:
    items: list[Json] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            call = {"type": "function_call_output", "call_id": message["tool_call_id"]}
            items.append({**call, "output": _text(message.get("content"))})
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls") or ():
            function = {"type": "function_call", "call_id": call["id"], **call["function"]}
            items.append(function)
    tools = [
        {"type": "function", **tool["function"]}
        for tool in body.get("tools") or ()
        if tool["type"] == "function"
    ]
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        form = {"type": "json_schema", **form["json_schema"]}
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = {"type": "function", "name": choice["function"]["name"]}
    return items, {"tools": tools, "text": {"format": form}, "tool_choice": choice}


async def chat(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    body = await request.json()
    items, asked = _from_chat(body)
    [item] = decide(items, asked)
    message: Json = {"role": "assistant", "content": None}
    if item["type"] == "message":
        message["content"] = item["content"][0]["text"]
    else:
        function = {"name": item["name"], "arguments": item["arguments"]}
        message["tool_calls"] = [{"id": item["call_id"], "type": "function", "function": function}]
    reason = "tool_calls" if "tool_calls" in message else "stop"
    usage = {"prompt_tokens": 10 * len(items), "completion_tokens": 5}
    usage["total_tokens"] = usage["prompt_tokens"] + 5
    base = {"id": _id("chatcmpl"), "created": int(time.time()), "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        return JSONResponse(whole)
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        blank = {**call, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [{"index": index, **blank}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(call["function"]["arguments"])
        ]
    chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": reason})
    base["object"] = "chat.completion.chunk"
    frames = [{**base, "choices": [chunk]} for chunk in chunks]
    frames.append({**base, "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(frame)}\n\n" for frame in frames] + ["data: [DONE]\n\n"]
    return StreamingResponse(_slowly(iter(lines)), media_type="text/event-stream")


# Conversations and files


async def conversations(request: Request) -> Response:
    """`/v1/conversations` and one of them."""
    key = request.path_params.get("key") or _id("conv")
    if request.method == "DELETE":
        _conversations.pop(key, None)
        return JSONResponse({"id": key, "object": "conversation.deleted", "deleted": True})
    if request.method == "POST":
        body = await request.json() if await request.body() else {}
        _conversations.setdefault(key, []).extend(body.get("items") or [])
    known = {"id": key, "object": "conversation", "created_at": 1, "metadata": {}}
    return JSONResponse(known)


async def conversation_items(request: Request) -> Response:
    """The items of one conversation, and one of them."""
    items = _conversations.setdefault(request.path_params["key"], [])
    for item in items:
        item.setdefault("id", _id("msg"))
        item.setdefault("type", "message")
        if item["type"] == "message" and isinstance(item.get("content"), str):
            item["content"] = [{"type": "input_text", "text": item["content"]}]
    wanted = request.path_params.get("item")
    if request.method == "DELETE":
        items[:] = [item for item in items if item["id"] != wanted]
        return JSONResponse({"id": request.path_params["key"], "object": "conversation"})
    if request.method == "POST":
        items += [{"id": _id("msg"), **item} for item in (await request.json())["items"]]
    order = request.query_params.get("order", "desc")
    limit = int(request.query_params.get("limit", 100))
    listed = (items if order == "asc" else items[::-1])[:limit]
    page = {"object": "list", "data": listed, "has_more": False}
    return JSONResponse(
        {
            **page,
            "first_id": listed[0]["id"] if listed else "",
            "last_id": listed[-1]["id"] if listed else "",
        }
    )


async def files(request: Request) -> Response:
    """Files, vector stores, containers and skills: accepted, and at once ready."""
    kind = request.path_params["kind"]
    known = {"id": _id(kind), "object": kind, "status": "completed", "created_at": 1}
    known |= {"name": "a.txt", "filename": "a.txt", "bytes": 1, "purpose": "assistants"}
    known |= {"usage_bytes": 1, "vector_store_id": "vs_1", "deleted": True}
    known["file_counts"] = {
        "in_progress": 0,
        "completed": 1,
        "failed": 0,
        "cancelled": 0,
        "total": 1,
    }
    if request.method == "GET" and request.url.path.endswith("/content"):
        return Response(b"content")
    return JSONResponse(known)


def application() -> Starlette:
    """All routes."""
    anything = ["GET", "POST", "DELETE"]
    return Starlette(
        routes=[
            Route("/v1/responses", responses, methods=["POST"]),
            WebSocketRoute("/v1/responses", responses_socket),
            Route("/v1/responses/compact", compact, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/conversations", conversations, methods=["POST"]),
            Route("/v1/conversations/{key}", conversations, methods=anything),
            Route("/v1/conversations/{key}/items", conversation_items, methods=anything),
            Route("/v1/conversations/{key}/items/{item}", conversation_items, methods=anything),
            Route("/v1/{kind}", files, methods=anything),
            Route("/v1/{kind}/{rest:path}", files, methods=anything),
        ]
    )


def main() -> None:
    """Listen on a free port, print it, serve."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(application(), log_level="error", lifespan="off")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
