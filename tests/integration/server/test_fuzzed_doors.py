"""Whatever is sent to a door, it answers in the door's own language, and goes on.

Messages that are nearly right are made from right ones: parts are replaced by nonsense, left out,
repeated, or put somewhere else. No answer is a 5xx, shows a traceback, or leaves one in the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.fuzzing import (
    REPEATABLE,
    Rig,
    Socket,
    bodies,
    check_plain,
    check_problem,
    header_values,
    no_complaints,
)
from tests.support.relay_team import relay_team

API = "/api/v1"
JSON = {"Content-Type": "application/json"}
SOME, MANY = 60, 3_000

some_or_many = pytest.mark.parametrize(
    "examples", [SOME, pytest.param(MANY, marks=pytest.mark.slow)], ids=["some", "many"]
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("fuzz"), relay_team())
    for text, session in (("hello", "known"), ("please refund it", "asks")):
        body = {"input": text, "session_id": session}
        assert made.call("POST", f"{API}/runs", json=body).status_code == 200
    yield made
    made.close()


def play(examples: int, strategy: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Check so many examples; many of them are others every time."""
    seldom = examples > SOME
    profile = settings(
        REPEATABLE,
        max_examples=examples,
        derandomize=not seldom,
        suppress_health_check=list(HealthCheck),
    )

    @profile
    @given(strategy)
    def each(example: Any) -> None:
        with no_complaints():
            check(example)

    each()


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **more}


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


OLD = {
    "kind": "message",
    "messageId": "m2",
    "role": "user",
    "parts": [{"kind": "text", "text": "x"}],
}
A2A = [
    rpc("SendMessage", message=user("hello")),
    rpc(
        "SendMessage", message=user("hello", contextId="known"), configuration={"historyLength": 1}
    ),
    rpc("SendMessage", message=user("approve", taskId="asks:1")),
    rpc("SendStreamingMessage", message=user("hello", metadata={"a": 1})),
    rpc("GetTask", id="known:1", historyLength=2),
    rpc("ListTasks", contextId="known", pageSize=5, pageToken="", statusTimestampAfter=""),
    rpc("CancelTask", id="known:1"),
    rpc("SubscribeToTask", id="known:1"),
    rpc("GetExtendedAgentCard"),
    rpc("CreateTaskPushNotificationConfig", taskId="known:1", url="https://x.example"),
    rpc("message/send", message=OLD),
    rpc("message/stream", message=OLD),
    rpc("tasks/get", id="known:1"),
]


def check_rpc(response: httpx2.Response) -> None:
    """An answer, or a stream of answers, of JSON-RPC; or nothing for what needs no answer."""
    check_plain(response)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
        answers = [json.loads(line[6:]) for line in lines if line != "data: "]
    elif response.status_code == 202 or not response.content:
        return
    else:
        answers = [response.json()]
    for answer in answers:
        assert answer["jsonrpc"] == "2.0", response.text
        assert ("result" in answer) != ("error" in answer), response.text
        if "error" in answer:
            assert isinstance(answer["error"]["code"], int), response.text
            assert answer["error"]["message"], response.text
            # So the library calls a method of the old protocol with the new one's version.
            is_version = "version" in answer["error"]["message"]
            assert answer["error"]["code"] != -32603 or is_version, response.text


@some_or_many
def test_a2a_over_json_rpc_survives_fuzzing(rig: Rig, examples: int) -> None:
    def check(sent: tuple[bytes, str, str]) -> None:
        body, version, path = sent
        headers = {**JSON, "A2A-Version": version}
        check_rpc(rig.call("POST", path, content=body, headers=headers))

    versions = st.sampled_from(["1.0", "0.3", "", "9.9"])
    paths = st.sampled_from(["/a2a", "/a2a/desk"])
    play(examples, st.tuples(bodies(A2A), versions, paths), check)
    good = rig.call("POST", "/a2a", json=A2A[0], headers={"A2A-Version": "1.0"})
    assert good.json()["id"] == 7


@some_or_many
def test_a2a_over_http_and_json_survives_fuzzing(rig: Rig, examples: int) -> None:
    def check(sent: tuple[bytes, str]) -> None:
        body, path = sent
        headers = {**JSON, "A2A-Version": "1.0"}
        response = rig.call("POST", path, content=body, headers=headers)
        check_plain(response)

    templates = [each["params"] for each in A2A[:4]]
    paths = st.sampled_from(["/a2a/message:send", "/a2a/message:stream", "/a2a/tasks/x:cancel"])
    play(examples, st.tuples(bodies(templates), paths), check)


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
BEGIN = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
MCP = [
    rpc("initialize", **BEGIN),
    rpc("tools/list", _meta=META),
    rpc("tools/call", name="ask_team", arguments={"input": "hello"}, _meta=META),
    rpc("tools/call", name="get_run", arguments={"run_id": "known:1"}, _meta=META),
    rpc("tools/call", name="list_sessions", arguments={"limit": 3}, _meta=META),
    rpc(
        "tools/call", name="handoff", arguments={"session_id": "known", "to": "triage"}, _meta=META
    ),
    rpc("tools/call", name="answer_inbox", arguments={"item_id": "x", "choice": "y"}, _meta=META),
    rpc("resources/list", _meta=META),
    rpc("ping"),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
]


@some_or_many
def test_mcp_over_http_survives_fuzzing(rig: Rig, examples: int) -> None:
    accept = {**JSON, "Accept": "application/json, text/event-stream"}
    begun = rig.call("POST", "/mcp", json=MCP[0], headers=accept)
    session = begun.headers.get("mcp-session-id")

    def check(sent: tuple[bytes, dict[str, str]]) -> None:
        body, headers = sent
        response = rig.call("POST", "/mcp", content=body, headers={**accept, **headers})
        check_rpc(response)
        opened = response.headers.get("mcp-session-id")
        if response.is_success and opened not in (None, session):
            # A key may have only so many, and what is made up opens more.
            closed = rig.call("DELETE", "/mcp", headers={**accept, "Mcp-Session-Id": opened})
            assert closed.status_code == 200

    known = {"Mcp-Session-Id": session} if session else {}
    headers = st.sampled_from(
        [
            {},
            known,
            {**known, "MCP-Protocol-Version": "2025-06-18"},
            {"MCP-Protocol-Version": "2026-07-28"},
            {"Mcp-Session-Id": "nobody"},
            {"Accept": "text/plain"},
        ]
    )
    play(examples, st.tuples(bodies(MCP), headers), check)
    assert rig.call("POST", "/mcp", json=MCP[0], headers=accept).status_code == 200


SPEC = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CHAT = [
    {"model": "team", "messages": [{"role": "user", "content": "hello"}]},
    {
        "model": "desk",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "hello again"},
        ],
        "temperature": 0.5,
        "n": 1,
        "max_tokens": 10,
        "tools": [SPEC],
        "user": "ada",
        "metadata": {"a": "b"},
    },
]
RESPONSES = [
    {"model": "team", "input": "hello"},
    {
        "model": "team",
        "input": [{"type": "message", "role": "user", "content": "hello"}],
        "instructions": "be brief",
        "stream": True,
        "store": True,
        "previous_response_id": None,
        "metadata": {"a": "b"},
    },
    {"model": "team", "input": "again", "previous_response_id": "resp_known:1"},
]


def check_openai(response: httpx2.Response) -> None:
    """What clients of OpenAI can read."""
    check_plain(response)
    if response.status_code >= 400:
        error = response.json()["error"]
        assert {"message", "type", "param", "code"} <= set(error), response.text
        assert error["message"], response.text
    elif response.headers["content-type"].startswith("text/event-stream"):
        for line in response.text.splitlines():
            if line.startswith("data: ") and line != "data: [DONE]":
                json.loads(line[6:])
    else:
        assert response.json()["object"]


@some_or_many
@pytest.mark.parametrize(
    ("path", "templates"), [("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES)]
)
def test_the_openai_api_survives_fuzzing(
    rig: Rig, examples: int, path: str, templates: list[Any]
) -> None:
    play(
        examples,
        bodies(templates),
        lambda body: check_openai(rig.call("POST", path, content=body, headers=JSON)),
    )
    assert rig.call("POST", path, json=templates[0]).status_code == 200


AGUI = [
    {
        "threadId": "thread",
        "runId": "run",
        "messages": [{"id": "u1", "role": "user", "content": "hello"}],
        "tools": [{"name": "t", "description": "d", "parameters": {}}],
        "context": [{"description": "d", "value": "v"}],
        "state": {"a": 1},
        "forwardedProps": {"agent": "desk"},
    },
    {
        "threadId": "asks",
        "runId": "run",
        "messages": [],
        "resume": [{"interruptId": "x", "status": "resolved", "payload": {"choice": "approve"}}],
    },
    {
        "threadId": "known",
        "runId": "run",
        "messages": [
            {"id": "a", "role": "assistant", "content": "hi", "toolCalls": []},
            {"id": "t", "role": "tool", "toolCallId": "c", "content": "out"},
            {"id": "u", "role": "user", "content": [{"type": "text", "text": "hello"}]},
        ],
    },
]


@some_or_many
def test_the_agui_endpoint_survives_fuzzing(rig: Rig, examples: int) -> None:
    def check(body: bytes) -> None:
        response = rig.call("POST", f"{API}/agui", content=body, headers=JSON)
        check_problem(response)
        if response.status_code == 200:
            for line in response.text.splitlines():
                if line.startswith("data: "):
                    assert json.loads(line[6:])["type"]

    play(examples, bodies(AGUI), check)


RUNS = [
    {"input": "hello", "session_id": "known", "agent": "auto", "timeout_s": 5, "max_turns": 3},
    {"input": [{"type": "message", "role": "user", "content": "hello"}], "title": "t"},
    {"input": "hello", "user_id": "u", "correlation_id": "c", "stream": True},
]


@some_or_many
def test_the_runs_endpoint_survives_fuzzing(rig: Rig, examples: int) -> None:
    play(
        examples,
        bodies(RUNS),
        lambda body: check_problem(
            rig.call("POST", f"{API}/runs", content=body, headers={**JSON, "Connection": "close"})
        ),
    )


HEADERS = (
    "Last-Event-ID",
    "traceparent",
    "tracestate",
    "Idempotency-Key",
    "Host",
    "Origin",
    "Authorization",
    "X-API-Key",
    "X-Request-Id",
    "If-Match",
    "If-None-Match",
    "Accept",
    "Content-Type",
    "Range",
    "Cookie",
)


@some_or_many
def test_request_headers_survive_fuzzing(rig: Rig, examples: int) -> None:
    def check(sent: tuple[str, str, bytes]) -> None:
        where, name, value = sent
        method, path, body = where.split(" ")
        headers = {**(JSON if method == "POST" else {}), name: value}
        raw = [(each.encode(), _raw(given)) for each, given in headers.items()]
        check_problem(rig.call(method, path, content=body.encode() or None, headers=raw))

    places = st.sampled_from(
        [
            f"GET {API}/runs/known:1/events ",
            f"GET {API}/sessions/known/events ",
            f"GET {API}/sessions/known/state ",
            f"GET {API}/traces/known ",
            f'POST {API}/runs {{"input":"hello"}}',
            f'POST {API}/route {{"input":"hello"}}',
        ]
    )
    play(examples, st.tuples(places, st.sampled_from(HEADERS), header_values), check)


def _raw(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


CURSORS = (
    "/sessions",
    "/sessions/known/events",
    "/agents",
    "/inbox",
    "/audit/records",
    "/handoff/history/triage",
    "/keys",
    "/traces/known/spans",
    "/memory",
    "/messages",
    "/collaborations",
    "/tasks",
    "/runs",
)


@some_or_many
def test_cursors_and_limits_survive_fuzzing(rig: Rig, examples: int) -> None:
    def check(sent: tuple[str, str, str]) -> None:
        path, cursor, limit = sent
        query = httpx2.QueryParams({"cursor": cursor, "limit": limit})
        check_problem(rig.call("GET", f"{API}{path}?{query}"))

    given_cursors = st.one_of(
        st.sampled_from(["", "0", "-1", "known", "9" * 30, "1.5", "a" * 600, "MTIz", "2026-01-01"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    )
    limits = st.sampled_from(["1", "0", "-1", "1001", "x", "", "1e3", "٣"])
    play(examples, st.tuples(st.sampled_from(CURSORS), given_cursors, limits), check)


FRAMES = [
    {"type": "subscribe", "id": "a", "after": "", "follow": False},
    {"type": "subscribe", "id": "b", "sessions": ["known"], "types": ["llm_call"], "agents": ["x"]},
    {"type": "subscribe", "id": "c", "inbox": True, "after": "known/1"},
    {"type": "unsubscribe", "id": "a"},
    {"type": "ping"},
]
CLOSED = {1003, 1007, 1008, 1009}
"""What a socket may be closed with when it is misused."""


@some_or_many
def test_websocket_messages_survive_fuzzing(rig: Rig, examples: int) -> None:
    async def talk(frames: list[str | bytes]) -> None:
        socket = Socket(rig.app, f"{API}/events")
        assert await socket.accepted()
        for frame in frames:
            socket.send(frame)
            socket.send('{"type": "ping"}')
            found = await socket.until("pong")
            for message in found:
                if message["type"] == "error":
                    assert message["code"], message
                    assert message["message"], message
            if socket.closed is not None:
                assert socket.closed in CLOSED, socket.closed
                break
        await socket.leave()

    texts = bodies(FRAMES).map(lambda body: body.decode("utf-8", "replace"))
    frames = st.lists(st.one_of(texts, texts, texts, st.binary(max_size=20)), max_size=6)
    play(examples, frames, lambda sent: rig.run(lambda: talk(sent)))


@some_or_many
def test_websocket_handshakes_survive_fuzzing(rig: Rig, examples: int) -> None:
    async def knock(sent: tuple[bytes, str, bytes]) -> None:
        query, name, value = sent
        socket = Socket(rig.app, f"{API}/events", query=query, **{name.lower(): value})
        if await socket.accepted():
            socket.send('{"type": "ping"}')
            assert (await socket.until("pong"))[-1]["type"] == "pong"
        else:
            assert socket.closed is not None
            assert 400 <= socket.closed < 500, socket.closed
        await socket.leave()

    names = st.sampled_from(["after", "sessions", "types", "inbox", "id", "agents", "token", "x"])
    values = st.one_of(
        st.sampled_from(["", "1", "known/1", "llm_call", "a,b,,c", "%00", "%ff", "9" * 300]),
        st.text("abc,/%=&é", max_size=12),
    )
    queries = st.lists(st.tuples(names, values), max_size=3).map(
        lambda pairs: "&".join(f"{name}={value}" for name, value in pairs).encode()
    )
    headers = st.sampled_from(
        ["Origin", "Host", "Authorization", "Sec-WebSocket-Protocol", "traceparent", "X-API-Key"]
    )
    play(
        examples,
        st.tuples(queries, headers, header_values),
        lambda sent: rig.run(lambda: knock(sent)),
    )
