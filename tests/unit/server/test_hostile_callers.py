"""Callers that want more than is theirs: time, room, answers, words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ekiden.core.current_agent import AGENT_HEADER
from ekiden.core.errors import SessionNotFound, StoreUnavailable
from ekiden.core.errors.server import RequestInvalid, TooManyRequests
from ekiden.integrations.mcp_server.server import IDLE_S, SessionQuota
from ekiden.server import ServerConfig, idempotency as kept, lifespan as tidying
from ekiden.server.access import Caller
from ekiden.server.middleware import bodies
from ekiden.server.middleware.admission import ConcurrencyLimit, Shares
from ekiden.server.middleware.bodies import check_json
from ekiden.server.problems import response_of
from ekiden.storage.base import Store
from tests.support.relay_team import relay_team
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, is_problem, keys_of, make_key

API = "/api/v1"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    async with application(tmp_path, team=relay_team()) as running:
        yield running


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as caller:
        yield caller


# Bodies


def test_a_duplicate_json_key_is_found_in_linear_time() -> None:
    many = ",".join(f'"{number}":1' for number in range(100_000))
    with pytest.raises(RequestInvalid, match="'99999' comes twice"):
        check_json(f'{{{many},"99999":2}}'.encode())


async def test_open_paths_accept_only_reading_methods(app: FastAPI) -> None:
    await make_key(app)
    async with client_of(app) as client:
        assert (await client.get("/healthz")).status_code == 200
        for method in ("POST", "PUT", "DELETE"):
            found = await client.request(method, "/healthz", content=b"{" * 1000)
            assert is_problem(found, 401, "auth.required")


async def test_large_json_is_read_in_a_thread(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []

    async def to_thread(check: Any, body: bytes) -> None:
        moved.append(len(body))
        check(body)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    for size in (10, bodies.LARGE):
        found = await client.post(f"{API}/runs", json={"unknown": "x" * size})
        assert found.status_code == 422
    assert len(moved) == 1


@pytest.mark.parametrize("body", [b'{"a": NaN}', b"\xff", b'{"a": 1, "a": 2}'])
@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream"])
async def test_a2a_parses_json_strictly_for_every_content_type(
    client: httpx2.AsyncClient, body: bytes, kind: str
) -> None:
    found = await client.post("/a2a", content=body, headers={"Content-Type": kind})
    assert found.status_code == 200, found.text
    assert found.json()["error"]["code"] == -32700


# Agents do not decide what people are asked


async def _question(client: httpx2.AsyncClient) -> tuple[str, str]:
    run = (await client.post(f"{API}/runs", json={"input": "a refund please"})).json()
    return run["session_id"], run["questions"][0]


async def _status(client: httpx2.AsyncClient, item: str) -> str:
    return str((await client.get(f"{API}/inbox/{item}")).json()["status"])


def _tries(session: str, item: str) -> list[tuple[str, dict[str, Any]]]:
    said = [{"role": "user", "content": "/approve"}]
    verdict = {"type": "mcp_approval_response", "approval_request_id": item, "approve": True}
    entry = {"interruptId": item, "status": "resolved", "payload": True}
    closed = {"interruptId": item, "status": "cancelled"}
    return [
        (
            "/v1/chat/completions",
            {"model": "ekiden", "messages": said, "metadata": {"session_id": session}},
        ),
        ("/v1/responses", {"model": "ekiden", "input": [verdict]}),
        (f"{API}/agui", {"threadId": session, "runId": "x", "resume": [entry]}),
        (f"{API}/agui", {"threadId": session, "runId": "x", "resume": [closed]}),
        (f"{API}/inbox/{item}/answer", {"choice": "approve"}),
    ]


async def test_no_route_lets_an_agent_answer_inbox_items(client: httpx2.AsyncClient) -> None:
    session, item = await _question(client)
    for path, body in _tries(session, item):
        found = await client.post(path, json=body, headers={AGENT_HEADER: "1"})
        assert found.status_code == 403, (path, found.text)
        assert await _status(client, item) == "open", path
    people = await client.post(f"{API}/inbox/{item}/answer", json={"choice": "approve"})
    assert people.status_code == 200


def test_an_agent_with_every_scope_may_not_answer() -> None:
    agent = Caller(name="x", scopes=frozenset({"admin", "answer"}), is_agent=True)
    assert not agent.may("answer")
    assert agent.may("run")
    assert agent.may("admin")


# Stores that fail


async def test_a_broken_store_of_one_tenant_does_not_affect_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = str(tmp_path / "s.db")
    async with application(tmp_path, store=store, workers=0) as app:
        admin = await make_key(app)
        acme = await make_key(app, tenant="acme")
        gone = await make_key(app, tenant="gone")
        await (await keys_of(app)).revoke(gone.key.id)
        async with client_of(app) as client:
            assert (await client.get(f"{API}/sessions", headers=bearer(acme))).status_code == 200
    broken = next(tmp_path.rglob("acme.db"))
    for each in tmp_path.rglob("acme.db*"):
        each.unlink()
    broken.write_bytes(b"garbage" * 1000)
    async with application(tmp_path, store=store, workers=0) as app, client_of(app) as client:
        assert set(app.state.service.tenant_services) == {"default"}
        assert (await client.get(f"{API}/sessions", headers=bearer(admin))).status_code == 200
        found = await client.get(f"{API}/sessions", headers=bearer(acme))
        assert is_problem(found, 503, "store.unavailable")
        assert "acme.db" not in found.text
        assert str(tmp_path) not in found.text
    assert str(broken) in caplog.text


def test_store_error_details_stay_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    answer = response_of(StoreUnavailable("/srv/desk/s.db: the disk is full"))
    assert answer.status_code == 503
    assert b"/srv/desk" not in bytes(answer.body)
    assert "/srv/desk/s.db: the disk is full" in caplog.text


# Room


class _Slow:
    """An application that waits until it may go on."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def _asked(app: Any, *, key: str | None = None, path: str = "/x", accept: str = "*/*") -> int:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nobody reads")

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [(b"accept", accept.encode())],
        "state": {"caller": Caller(name="x", key_id=key)},
    }
    await app(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
async def test_one_key_cannot_use_the_capacity_of_others(accept: str) -> None:
    slow = _Slow()
    shares = Shares(slow, ServerConfig(max_key_requests=2, max_key_streams=2))
    first = [asyncio.create_task(_asked(shares, key="a", accept=accept)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await _asked(shares, key="a", accept=accept) == 429
    others = [asyncio.create_task(_asked(shares, key=key, accept=accept)) for key in ("b", None)]
    await asyncio.sleep(0)
    slow.go.set()
    assert await asyncio.gather(*first, *others) == [200] * 4
    assert await _asked(shares, key="a", accept=accept) == 200


def test_a_key_gets_a_quarter_of_the_capacity_by_default() -> None:
    config = ServerConfig()
    assert (config.key_requests, config.key_streams) == (2500, 1250)
    small = ServerConfig(max_requests=60, max_streams=10)
    assert (small.key_requests, small.key_streams) == (50, 50)


async def test_the_server_counts_the_running_requests_of_each_key(tmp_path: Path) -> None:
    config = ServerConfig(max_key_requests=1, rate=0)
    async with application(tmp_path, workers=0, config=config) as app, client_of(app) as client:
        ada, eve = await make_key(app, name="ada"), await make_key(app, name="eve")
        begun, go = asyncio.Event(), asyncio.Event()

        async def wait(request: Request) -> dict[str, str]:
            begun.set()
            await go.wait()
            return {}

        app.add_api_route("/wait", wait)
        held = asyncio.create_task(client.get("/wait", headers=bearer(eve)))
        await begun.wait()
        more = await client.get(f"{API}/sessions", headers=bearer(eve))
        assert is_problem(more, 429, "request.too_many")
        assert (await client.get(f"{API}/sessions", headers=bearer(ada))).status_code == 200
        go.set()
        assert (await held).status_code == 200


async def test_health_probes_are_answered_under_full_load() -> None:
    slow = _Slow()
    crowd = ConcurrencyLimit(slow, ServerConfig(max_requests=1))
    held = asyncio.create_task(_asked(crowd))
    await asyncio.sleep(0)
    assert await _asked(crowd, path="/docs") == 503
    slow.go.set()
    assert await _asked(crowd, path="/healthz") == 200
    assert await held == 200


# MCP


def _visit(guests: SessionQuota, key: str = "a", *, method: str = "POST", **headers: str) -> Any:
    scope = {
        "type": "http",
        "method": method,
        "path": "/mcp",
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }
    return guests.counted(Caller(name="x", key_id=key), Request(scope))


async def _answered(note: Any, *, status: int = 200, **headers: str) -> None:
    async def send(message: Message) -> None:
        pass

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await note(send)({"type": "http.response.start", "status": status, "headers": pairs})


async def test_the_number_of_mcp_sessions_per_key_is_limited() -> None:
    now = 0.0
    guests = SessionQuota(most=2, monotonic=lambda: now)
    for name in ("s1", "s2"):
        with _visit(guests) as note:
            await _answered(note, mcp_session_id=name)
    with pytest.raises(TooManyRequests, match="2 MCP sessions"), _visit(guests):
        pass
    with _visit(guests, "b"), _visit(guests, mcp_protocol_version="2099-01-01"):
        pass
    with _visit(guests, method="DELETE", mcp_session_id="s1") as note:
        await _answered(note)
    with _visit(guests) as note:
        await _answered(note, mcp_session_id="s3")
    now = IDLE_S - 1
    with _visit(guests, mcp_session_id="s3"):
        now = IDLE_S + 1
        with _visit(guests) as note:
            await _answered(note, mcp_session_id="s4")
        with pytest.raises(TooManyRequests), _visit(guests):
            pass


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


async def test_opened_mcp_sessions_count_towards_the_quota(app: FastAPI) -> None:
    await app.state.standards.load("/mcp")
    app.state.mcp.quota = SessionQuota(most=1)
    headers = {"Accept": "application/json, text/event-stream"}
    async with client_of(app) as client:
        first = await client.post("/mcp", json=HELLO, headers=headers)
        assert first.status_code == 200, first.text
        second = await client.post("/mcp", json=HELLO, headers=headers)
        assert second.status_code == 429
        mine = {**headers, "mcp-session-id": first.headers["mcp-session-id"]}
        assert (await client.delete("/mcp", headers=mine)).status_code == 200
        assert (await client.post("/mcp", json=HELLO, headers=headers)).status_code == 200


async def test_a_refused_request_does_not_count_towards_the_mcp_quota(app: FastAPI) -> None:
    await app.state.standards.load("/mcp")
    app.state.mcp.quota = SessionQuota(most=1)
    headers = {"Accept": "application/json, text/event-stream"}
    async with client_of(app) as client:
        refused = await client.post("/mcp", json={**HELLO, "method": "ping"}, headers=headers)
        assert refused.status_code == 400, refused.text
        assert "mcp-session-id" in refused.headers, "the SDK names the session that it discards"
        assert (await client.post("/mcp", json=HELLO, headers=headers)).status_code == 200


# Answers that are kept


async def _chat(client: httpx2.AsyncClient) -> httpx2.Response:
    said = [{"role": "user", "content": "my secret is 4711-blue"}]
    body = {"model": "ekiden", "messages": said, "metadata": {"session_id": "gone1"}}
    return await client.post("/v1/chat/completions", json=body, headers={"Idempotency-Key": "k1"})


async def _stored(app: FastAPI) -> str:
    store = (await app.state.service.tenant_service()).store
    return json.dumps([each.body for each in await store.list_documents(kept.COLLECTION)])


async def test_deleting_a_session_deletes_its_stored_idempotent_answers(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    assert "4711-blue" in (await _chat(client)).text
    again = await _chat(client)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await client.delete(f"{API}/sessions/gone1")).status_code < 300
    for _ in range(2):
        late = await _chat(client)
        assert late.status_code == 409
        assert "4711-blue" not in late.text
    assert '"status"' not in await _stored(app)


async def test_a_stored_answer_belongs_to_the_session_it_created(
    client: httpx2.AsyncClient,
) -> None:
    await client.post(f"{API}/runs", json={"input": "hello", "session_id": "first"})
    once = {"Idempotency-Key": "k2"}
    made = await client.post(f"{API}/sessions/first/fork", json={}, headers=once)
    assert made.status_code == 201, made.text
    assert (await client.delete(f"{API}{_path(made)}")).status_code < 300
    late = await client.post(f"{API}/sessions/first/fork", json={}, headers=once)
    assert late.status_code == 409


def _path(made: httpx2.Response) -> str:
    return f"/sessions/{made.json()['session_id']}"


async def test_a_recreated_session_does_not_replay_answers_of_the_old_one(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await _chat(client)
    await client.delete(f"{API}/sessions/gone1")
    await client.post(f"{API}/runs", json={"input": "hello", "session_id": "gone1"})
    assert (await _chat(client)).status_code == 409


async def test_stored_answers_of_deleted_sessions_are_removed_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "s.db")
    async with application(tmp_path, team=relay_team(), store=store) as app:
        async with client_of(app) as client:
            await _chat(client)
            await client.delete(f"{API}/sessions/gone1")
        with pytest.raises(SessionNotFound):
            await (await app.state.service.tenant_service()).store.get("gone1")
        assert '"status"' in await _stored(app)
    tidied = asyncio.Event()

    async def prune(store: Store) -> int:
        removed = await kept.prune(store)
        tidied.set()
        return removed

    monkeypatch.setattr(tidying, "prune", prune)
    async with application(tmp_path, team=relay_team(), store=store) as app:
        async with asyncio.timeout(60):
            await tidied.wait()
        assert '"status"' not in await _stored(app)
