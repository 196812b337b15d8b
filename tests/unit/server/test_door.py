"""What every request goes through: names, origins, sizes, JSON, headers, and the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from ekiden.core.checks.addresses import parse_host, parse_origin
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.server import KeyExpired, RequestInvalid
from ekiden.server import ServerConfig
from ekiden.server.access import LOCAL, Caller
from ekiden.server.middleware import admission, bodies
from ekiden.server.middleware.access_log import AccessLog
from ekiden.server.middleware.admission import Authentication, ConcurrencyLimit, Origins
from ekiden.server.middleware.bodies import check_json
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, is_problem, make_key

API = "/api/v1"
RUNS = f"{API}/runs"
SESSIONS = f"{API}/sessions"
PAGE = "https://desk.example.com"
CONFIG = ServerConfig(
    hosts=["Desk.Example.com", "other.example.com:8443"],
    origins=[PAGE],
    max_body=20_000,
    console=False,
)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FastAPI]:
    """One for all tests that change nothing."""
    root = tmp_path_factory.mktemp("door")
    async with application(root, workers=0, config=CONFIG) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as caller:
        yield caller


@pytest_asyncio.fixture(loop_scope="module")
async def own_app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    """One for a test that makes keys."""
    async with application(tmp_path, workers=0, config=CONFIG) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def own_client(own_app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(own_app) as caller:
        yield caller


async def post(client: httpx2.AsyncClient, content: Any, **headers: str) -> httpx2.Response:
    sent = {"Content-Type": "application/json", **headers}
    return await client.post(RUNS, content=content, headers=sent)


# Names


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8321",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:8321",
        "localhost.",
        "127.0.0.1",
    ],
)
async def test_local_host_names_are_accepted(client: httpx2.AsyncClient, host: str) -> None:
    assert (await client.get(SESSIONS, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "localhost.evil.example.com",
        "evil.example.com:8321",
        "127.0.0.1.evil.example.com",
        "localhost@evil.example.com",
        "localhost:99999",
        "localhost:0",
        "localhost:x",
        "[::1",
        "0.0.0.0",
        "127.0.0.2",
        "169.254.169.254",
        "",
        " ",
        "localhost, evil.example.com",
        "desk.example.com.evil.net",
        "other.example.com",
        "other.example.com:1",
        "x" * 5000,
        "localhost/..",
    ],
)
async def test_other_host_names_are_refused(client: httpx2.AsyncClient, host: str) -> None:
    assert is_problem(await client.get(SESSIONS, headers={"Host": host}), 403, "auth.origin")


async def test_configured_host_names_are_accepted(
    own_app: FastAPI, own_client: httpx2.AsyncClient
) -> None:
    made = await make_key(own_app)
    for host in ("desk.example.com", "DESK.example.com:443", "other.example.com:8443"):
        found = await own_client.get(SESSIONS, headers=bearer(made, Host=host))
        assert found.status_code == 200, host


async def test_the_listening_address_is_accepted_as_host_name(tmp_path: Path) -> None:
    for listening, host in (("192.168.1.2", "192.168.1.2:8321"), ("fd00::1", "[fd00::1]:8321")):
        config = ServerConfig(host=listening)
        async with application(tmp_path, workers=0, config=config) as app, client_of(app) as client:
            made = await make_key(app)
            found = await client.get(SESSIONS, headers=bearer(made, Host=host))
            assert found.status_code == 200


async def test_health_is_answered_for_any_host_name(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/healthz", headers={"Host": "10.0.0.7:8321"})).status_code == 200
    assert (await client.get("/docs", headers={"Host": "10.0.0.7:8321"})).status_code == 403


async def test_two_host_headers_are_refused(app: FastAPI) -> None:
    status, _ = await _raw(app, [(b"host", b"localhost"), (b"host", b"localhost")])
    assert status == 403
    status, _ = await _raw(app, [])
    assert status == 403


async def _raw(
    app: FastAPI, headers: list[tuple[bytes, bytes]], *, path: str = SESSIONS, method: str = "GET"
) -> tuple[int, bytes]:
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0"},
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(errors="replace"),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8321),
    }
    sent: list[Message] = []

    asked = 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        if asked > 1:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


# Origins


@pytest.mark.parametrize("origin", ["http://127.0.0.1", "https://127.0.0.1", "http://127.0.0.1:80"])
async def test_pages_of_the_server_may_call_it(client: httpx2.AsyncClient, origin: str) -> None:
    found = await client.get(SESSIONS, headers={"Origin": origin})
    assert found.status_code == 200
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example.com",
        "http://desk.example.com",
        "https://desk.example.com:444",
        "https://desk.example.com.evil.net",
        "https://desk.example.com/",
        "https://evil.example.com#https://desk.example.com",
        "file://",
        "chrome-extension://abcdef",
        "http://127.0.0.1:8080",
        "javascript:alert(1)",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_foreign_pages_may_not_call_it(
    client: httpx2.AsyncClient, origin: str, method: str
) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    found = await client.request(method, SESSIONS, headers=headers)
    assert is_problem(found, 403, "auth.origin")
    assert not [name for name in found.headers if name.startswith("access-control")]


async def test_a_configured_page_may_call_and_read(client: httpx2.AsyncClient) -> None:
    found = await client.get(SESSIONS, headers={"Origin": PAGE})
    assert found.status_code == 200
    assert found.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-credentials" not in found.headers
    assert "Origin" in found.headers["vary"]


async def test_a_configured_page_can_read_problems(
    own_app: FastAPI, own_client: httpx2.AsyncClient
) -> None:
    await make_key(own_app)
    found = await own_client.get(SESSIONS, headers={"Origin": PAGE})
    assert found.status_code == 401
    assert found.headers["access-control-allow-origin"] == PAGE


async def test_a_cors_preflight_request_needs_no_key(
    own_app: FastAPI, own_client: httpx2.AsyncClient
) -> None:
    await make_key(own_app)
    headers = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,idempotency-key",
    }
    found = await own_client.options(RUNS, headers=headers)
    assert found.status_code == 204
    assert found.headers["access-control-allow-origin"] == PAGE
    assert "Idempotency-Key" in found.headers["access-control-allow-headers"]
    assert "POST" in found.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in found.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_cross_site_requests_without_cors_are_refused(
    client: httpx2.AsyncClient, site: str
) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert is_problem(await client.get(SESSIONS, headers=headers), 403, "auth.origin")
    visit = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert (await client.get("/docs", headers=visit)).status_code == 200


@pytest.mark.parametrize(
    "given",
    [{"origins": ["*"]}, {"origins": ["desk.example.com"]}, {"hosts": ["*"]}, {"hosts": ["a b"]}],
)
async def test_invalid_host_names_are_refused_when_the_server_is_created(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match=r"server\."):
        Origins(_nothing, ServerConfig(**given))


@pytest.mark.parametrize("text", ["http://", "://x", "ftp://x", "http://a/b", "http://a:0", "x"])
async def test_an_invalid_origin_is_parsed_as_none(text: str) -> None:
    assert parse_origin(text) is None


async def test_a_host_header_with_an_ipv6_address_is_parsed() -> None:
    host = parse_host("[FD00::1]:99")
    assert host is not None
    assert (host.name, host.port) == ("fd00::1", 99)


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers nothing."""


# WebSockets


async def test_a_websocket_is_refused_before_it_is_accepted(own_app: FastAPI) -> None:
    await make_key(own_app)
    await asyncio.to_thread(_try_sockets, own_app)


def _try_sockets(app: FastAPI) -> None:
    async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
        # The lifespan is somebody else's.
        if scope["type"] != "lifespan":
            await app(scope, receive, send)

    client = TestClient(quiet, base_url="http://localhost", client=("127.0.0.1", 1))
    for headers in (
        {},
        {"Authorization": "Bearer ek_abcdefgh_" + "a" * 40},
        {"Origin": "https://evil.example.com"},
        {"Host": "evil.example.com"},
    ):
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(f"{API}/events", headers=headers),
        ):
            pass


async def test_a_refused_websocket_carries_its_problem_where_supported() -> None:
    for extensions, kind in (({"websocket.http.response": {}}, "websocket.http.response.start"),
                             (None, "websocket.close")):  # fmt: skip
        sent: list[Message] = []

        async def send(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        scope = {
            "type": "websocket",
            "path": f"{API}/events",
            "headers": [(b"host", b"evil.example.com")],
            "extensions": extensions,
        }
        await AccessLog(Origins(_nothing, CONFIG))(scope, _never, send)
        assert sent[0]["type"] == kind


async def _never() -> Message:
    raise AssertionError("nothing is to be read")


# Bodies


async def test_a_too_long_body_is_refused_by_its_content_length(
    client: httpx2.AsyncClient,
) -> None:
    found = await post(client, b"[" + b" " * 20_000)
    assert is_problem(found, 413, "request.too_large")


async def test_a_too_long_body_is_refused_while_it_is_received(
    client: httpx2.AsyncClient,
) -> None:
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b" " * 1000

    assert is_problem(await post(client, pieces()), 413, "request.too_large")
    assert taken < 50


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "٣", "9" * 40, ""])
async def test_an_invalid_content_length_is_refused(app: FastAPI, length: str) -> None:
    headers = [(b"host", b"localhost"), (b"content-length", length.encode())]
    status, body = await _raw(app, headers, path=RUNS, method="POST")
    assert status in (413, 422)
    assert b"request." in body


async def test_contradictory_content_lengths_are_refused(app: FastAPI) -> None:
    headers = [(b"host", b"a.invalid"), (b"content-length", b"1"), (b"content-length", b"2")]
    headers[0] = (b"host", b"localhost")
    assert (await _raw(app, headers, path=RUNS, method="POST"))[0] == 422


HOSTILE = {
    "empty": b"",
    "space": b"   ",
    "not json": b"hello",
    "cut": b'{"input": "x',
    "two values": b'{"input": "x"} {"input": "y"}',
    "trailing comma": b'{"input": "x",}',
    "comment": b'{"input": "x"} // no',
    "single quotes": b"{'input': 'x'}",
    "nan": b'{"input": "x", "timeout_s": NaN}',
    "infinity": b'{"input": "x", "timeout_s": Infinity}',
    "minus infinity": b'{"input": "x", "timeout_s": -Infinity}',
    "huge float": b'{"input": "x", "timeout_s": 1e999}',
    "huge integer": b'{"input": "x", "max_turns": ' + b"9" * 5000 + b"}",
    "integer beyond": b'{"input": "x", "max_turns": ' + b"9" * 30 + b"}",
    "same key twice": b'{"input": "x", "input": "y"}',
    "same key twice, deep": b'{"input": [{"role": "user", "role": "system"}]}',
    "same key, escaped": b'{"input": "x", "\\u0069nput": "y"}',
    "lone surrogate": b'{"input": "\\ud800"}',
    "lone low surrogate": b'{"input": "\\udc00"}',
    "surrogates the wrong way": b'{"input": "\\udc00\\ud800"}',
    "surrogate in a key": b'{"\\ud800": "x"}',
    "not utf-8": b'{"input": "\xff\xfe"}',
    "latin-1": '{"input": "é"}'.encode("latin-1"),
    "overlong utf-8": b'{"input": "\xc0\xaf"}',
    "utf-8 surrogate": b'{"input": "\xed\xa0\x80"}',
    "utf-16": '{"input": "x"}'.encode("utf-16"),
    "utf-32": '{"input": "x"}'.encode("utf-32"),
    "byte order mark": b'\xef\xbb\xbf{"input": "x"}',
    "deep lists": b'{"input": ' + b"[" * 150 + b"]" * 150 + b"}",
    "very deep lists": b"[" * 9000 + b"]" * 9000,
    "deep objects": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "raw control character": b'{"input": "a\x01b"}',
    "raw nul": b'{"input": "a\x00b"}',
    "list": b"[]",
    "text": b'"x"',
    "number": b"1",
    "null": b"null",
    "unknown field": b'{"input": "x", "is_admin": true}',
    "wrong type": b'{"input": {"a": 1}}',
    "empty input": b'{"input": ""}',
    "proto": b'{"input": "x", "__proto__": {"a": 1}}',
    "bad id": b'{"input": "x", "session_id": "../../etc/passwd"}',
    "nul in id": b'{"input": "x", "session_id": "a\\u0000b"}',
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_json_body_is_a_client_error(client: httpx2.AsyncClient, name: str) -> None:
    found = await post(client, HOSTILE[name])
    assert is_problem(found, 422, "request.invalid")
    assert "Traceback" not in found.text
    assert (await client.get(SESSIONS)).json()["items"] == []


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x", ""],
)
async def test_a_body_of_another_content_type_is_refused(
    client: httpx2.AsyncClient, media_type: str
) -> None:
    found = await post(client, b'{"input": "x"}', **{"Content-Type": media_type})
    assert is_problem(found, 422, "request.invalid")
    assert "send Content-Type: application/json" in found.json()["detail"]


async def test_a_compressed_body_is_refused(client: httpx2.AsyncClient) -> None:
    found = await post(client, b"\x1f\x8b...", **{"Content-Encoding": "gzip"})
    assert is_problem(found, 422, "request.invalid")
    assert "Content-Encoding" in found.json()["detail"]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"名前": "駅伝 😀"}'.encode(), {"名前": "駅伝 😀"}),
        (b'{"a": "\\\\ud800"}', {"a": "\\ud800"}),
        (b"[1, 1.5, true, null]", [1, 1.5, True, None]),
        (b"[" * 99 + b"]" * 99, None),
    ],
)
async def test_valid_json_is_parsed_like_the_standard_library(body: bytes, value: Any) -> None:
    assert check_json(body) == (json.loads(body) if value is None else value)


async def test_a_json_syntax_error_names_its_position() -> None:
    with pytest.raises(RequestInvalid, match="line 2, column 3"):
        check_json(b"{\n  x}")
    with pytest.raises(RequestInvalid, match="'a' comes twice"):
        check_json(b'{"a": 1, "b": 2, "a": 3}')


@pytest.mark.parametrize(
    "path", [f"{SESSIONS}/a%00b", f"{SESSIONS}/a%0Ab", f"{SESSIONS}/%1b", "/healthz%00"]
)
async def test_nothing_is_at_an_address_with_control_characters(
    client: httpx2.AsyncClient, path: str
) -> None:
    assert is_problem(await client.get(path), 404, "request.not_found")


@pytest.mark.parametrize(
    "path",
    [f"{SESSIONS}/..%2f..%2fetc%2fpasswd", f"{SESSIONS}/%ff", f"{SESSIONS}/{'x' * 4000}",
     f"{SESSIONS}/../../..", "/%2e%2e/", "//", f"{API}//sessions", "/docs/../api"],
)  # fmt: skip
async def test_malformed_paths_are_answered_with_problems(
    client: httpx2.AsyncClient, path: str
) -> None:
    found = await client.get(path)
    assert found.status_code in (404, 422)
    assert found.headers["content-type"] == "application/problem+json"


async def test_a_nul_in_a_query_is_refused(client: httpx2.AsyncClient) -> None:
    found = await client.get(f"{SESSIONS}?agent=a%00b")
    assert is_problem(found, 422, "request.invalid")


async def test_an_unsupported_method_lists_the_allowed_methods(client: httpx2.AsyncClient) -> None:
    for method in ("PUT", "TRACE", "OPTIONS", "PROPFIND"):
        found = await client.request(method, SESSIONS)
        assert is_problem(found, 405, "request.method_not_allowed")
        assert found.headers["allow"] == ", ".join(found.json()["allowed"])
        assert "GET" in found.json()["allowed"]


async def test_the_total_size_of_buffered_bodies_is_limited(
    app: FastAPI, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD", 100)
    found = await post(client, b" " * 200)
    assert is_problem(found, 503, "server.busy")
    assert "retry-after" in found.headers
    monkeypatch.undo()
    assert (await post(client, b'{"input": ""}')).status_code == 422


async def test_a_body_that_never_arrives_times_out(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.0)

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.get_running_loop().create_future()

    assert (await post(client, never())).status_code == 408


# Headers, ids and the log


@pytest.mark.parametrize("path", [SESSIONS, "/healthz", "/nothing", f"{SESSIONS}/none", "/docs"])
async def test_every_answer_has_security_headers(client: httpx2.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"].startswith("req_")


async def test_a_safe_request_id_of_the_caller_is_kept(
    client: httpx2.AsyncClient,
) -> None:
    for given, kept in (("abc-123", True), ("a b", False), ("x" * 200, False), ("<b>", False)):
        found = await client.get("/healthz", headers={"X-Request-Id": given})
        assert (found.headers["x-request-id"] == given) is kept


async def test_an_access_log_line_contains_no_query_body_or_key(
    own_app: FastAPI, own_client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    made = await make_key(own_app)
    with caplog.at_level(logging.INFO):
        await own_client.get(f"{SESSIONS}/my-session?x=PRIVATE", headers=bearer(made))
        await own_client.get(f"{SESSIONS}?key={made.text}")
        await own_client.get("/nothing/PRIVATE", headers=bearer(made))
    lines = [each for each in caplog.records if each.name == "ekiden.access"]
    assert [each.getMessage() for each in lines] == [
        "GET /api/v1/sessions/{session_id} 422",
        "GET - 401",
        "GET - 404",
    ]
    facts = vars(lines[0])
    assert (facts["key"], facts["status"], facts["route"]) == (
        made.key.id,
        422,
        "/api/v1/sessions/{session_id}",
    )
    assert facts["ms"] >= 0
    secret = made.text.rpartition("_")[2]
    for record in caplog.records:
        if not record.name.startswith("ekiden"):
            continue  # The client's own.
        assert secret not in record.getMessage() + json.dumps(vars(record), default=repr)
        assert "PRIVATE" not in record.getMessage()


async def test_an_internal_error_is_answered_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with application(tmp_path, workers=0) as app:

        @app.get("/api/v1/broken")
        async def broken() -> None:
            raise ValueError("a secret detail")

        async with client_of(app) as client:
            found = await client.get("/api/v1/broken")
    assert is_problem(found, 500, "server.internal")
    assert "secret detail" not in found.text
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "/api/v1/broken" in caplog.text


async def test_an_internal_error_in_the_middle_of_an_answer_cuts_it(tmp_path: Path) -> None:
    async with application(tmp_path, workers=0) as app:

        @app.get("/api/v1/broken")
        async def broken() -> StreamingResponse:
            async def pieces() -> AsyncIterator[bytes]:
                yield b"x"
                raise ValueError("in the middle")

            return StreamingResponse(pieces())

        scope_headers = [(b"host", b"localhost")]
        with pytest.raises(ValueError, match="in the middle"):
            await _raw(app, scope_headers, path="/api/v1/broken")


async def test_the_api_page_cannot_run_or_load_foreign_code(
    client: httpx2.AsyncClient,
) -> None:
    found = await client.get("/docs")
    assert found.status_code == 200
    assert "text/html" in found.headers["content-type"]
    assert "<script" not in found.text
    assert "http://" not in found.text
    assert "https://" not in found.text
    assert "/api/v1/sessions/{session_id}" in found.text
    assert "script-src" not in found.headers["content-security-policy"]


# How much at once


class _App:
    """An application that answers on a signal."""

    def __init__(self, media_type: bytes = b"text/plain") -> None:
        self.go = asyncio.Event()
        self.media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", self.media_type)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.go.wait()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _asked(crowd: ConcurrencyLimit, *, accept: bytes = b"*/*", kind: str = "http") -> int:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": kind, "path": "/", "headers": [(b"accept", accept)], "method": "GET"}
    await crowd(scope, _never, send)
    return int(sent[0].get("status", sent[0].get("code", 0)))


async def test_requests_beyond_the_concurrency_limit_get_retry_after() -> None:
    inner = _App()
    crowd = ConcurrencyLimit(inner, ServerConfig(max_requests=2, max_streams=1))
    under_way = [asyncio.create_task(_asked(crowd)) for _ in range(2)]
    await asyncio.sleep(0)
    assert crowd.requests == 2
    assert await _asked(crowd) == 503
    inner.go.set()
    assert await asyncio.gather(*under_way) == [200, 200]
    assert await _asked(crowd) == 200
    assert crowd.requests == crowd.streams == 0


async def test_streams_have_their_own_concurrency_limit() -> None:
    inner = _App(b"text/event-stream; charset=utf-8")
    crowd = ConcurrencyLimit(inner, ServerConfig(max_requests=5, max_streams=2))
    under_way = [
        asyncio.create_task(_asked(crowd)),
        asyncio.create_task(_asked(crowd, accept=b"text/event-stream")),
    ]
    await asyncio.sleep(0)
    assert (crowd.requests, crowd.streams) == (0, 2)
    assert await _asked(crowd, accept=b"text/event-stream") == 503
    assert await _asked(crowd) == 503
    assert await _asked(crowd, kind="websocket") == 1008
    assert crowd.requests == 0
    inner.go.set()
    assert await asyncio.gather(*under_way) == [200, 200]
    assert crowd.streams == 0


async def test_other_exceptions_pass_through_the_concurrency_limit() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise OSError("gone")

    crowd = ConcurrencyLimit(broken, ServerConfig())
    with pytest.raises(OSError, match="gone"):
        await _asked(crowd)
    assert crowd.requests == 0


# Streams of keys that are good no more


class _Gate:
    """Accepts every caller until it is switched off."""

    def __init__(self) -> None:
        self.is_good = True
        self.asked = 0

    async def caller(self, connection: object) -> Caller:
        return LOCAL

    async def recheck(self, caller: Caller) -> None:
        self.asked += 1
        if not self.is_good:
            raise KeyExpired


class _Holder:
    """What middleware takes for the application."""

    def __init__(self, gate: _Gate) -> None:
        self.state = self
        self.gate = gate


async def _stream(kind: str, gate: _Gate, pieces: int) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        for number in range(pieces):
            if number == 2:
                gate.is_good = False
            if kind == "http":
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
            else:
                await send({"type": "websocket.send", "text": "x"})

    scope = {"type": kind, "path": "/x", "headers": [], "app": _Holder(gate), "query_string": b""}
    await Authentication(inner)(scope, _never, send)
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_a_stream_is_cut_when_its_key_is_revoked(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "RECHECK_S", 0.0)
    gate = _Gate()
    sent = await _stream(kind, gate, 10)
    assert len(sent) == 3
    if kind == "http":
        assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    else:
        assert sent[-1] == {"type": "websocket.close", "code": 1008}


async def test_a_stream_does_not_recheck_the_key_with_every_piece() -> None:
    gate = _Gate()
    sent = await _stream("http", gate, 10)
    assert len(sent) == 10
    assert gate.asked == 0


async def test_a_stream_continues_while_the_store_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(_Gate):
        async def recheck(self, caller: Caller) -> None:
            self.asked += 1
            raise StoreUnavailable("gone")

    monkeypatch.setattr(admission, "RECHECK_S", 0.0)
    gate = Silent()
    assert len(await _stream("http", gate, 3)) == 3
    assert gate.asked == 3


async def test_lifespan_messages_pass_through_the_middleware() -> None:
    seen: list[str] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def send(message: Message) -> None:
        raise AssertionError("nothing is to be sent")

    for wrapped in (
        AccessLog(inner),
        Origins(inner, CONFIG),
        ConcurrencyLimit(inner, CONFIG),
        Authentication(inner),
    ):
        await wrapped({"type": "lifespan"}, _never, send)
    assert seen == ["lifespan"] * 4


async def test_a_disconnected_client_is_only_logged(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "POST",
        "path": RUNS,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }
    with caplog.at_level(logging.INFO, logger="ekiden.access"):
        await app(scope, receive, send)
    assert sent == []
    [line] = [each for each in caplog.records if each.name == "ekiden.access"]
    assert line.getMessage() == "POST - 499"
