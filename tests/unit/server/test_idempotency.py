"""What is sent again is not done again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ekiden.core.errors import SessionBusy, StaleDocument
from ekiden.core.errors.server import IdempotencyConflict
from ekiden.project.run_tasks import RunOrder, StartedRun
from ekiden.server import idempotency
from ekiden.server.idempotency import (
    COLLECTION,
    KEPT_S,
    LEASE_S,
    Reservation,
    StoredAnswer,
    Ticket,
    _new_session_id,
    prune,
    reserve,
    start_once,
    ticket_for,
)
from ekiden.server.middleware import repeats
from ekiden.server.problems import takes_query
from ekiden.storage.base import DocumentWrite, NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, is_problem, make_key

RUNS = "/api/v1/runs"
WORK = "/api/v1/work"
BODY = {"input": "Where is my order 1042?"}
TICKET = Ticket(key="k", digest="d")
DONE = StoredAnswer(status=201, headers=[("content-type", "text/plain")], body=b"\xff done")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    async with application(tmp_path) as running:
        running.state.calls = 0
        running.add_api_route(WORK, _work, methods=["POST"])
        yield running


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as caller:
        yield caller


@takes_query("dry")
async def _work(request: Request) -> Response:
    """Counts its calls, and answers as the body says."""
    app = request.app
    app.state.calls += 1
    body = await request.json()
    what = body.get("what")
    if what == "wait":
        app.state.begun.set()
        await app.state.go.wait()
    if what == "fail":
        raise ValueError("a mistake")
    if what == "stream":

        async def pieces() -> AsyncIterator[bytes]:
            for number in range(3):
                yield f"data: {number}\n\n".encode()

        return StreamingResponse(pieces(), media_type="text/event-stream")
    status = body.get("status", 200)
    headers = {"Location": "/there", "ETag": '"v1"', "X-Other": "x"}
    content = {"calls": app.state.calls, "text": "x" * body.get("length", 0)}
    return JSONResponse(content, status, headers=headers)


def once(key: str = "one", **headers: str) -> dict[str, str]:
    return {"Idempotency-Key": key, **headers}


async def sent(client: httpx2.AsyncClient, key: str = "one", **body: Any) -> httpx2.Response:
    return await client.post(WORK, json=body, headers=once(key))


async def test_a_repeated_request_gets_the_same_answer(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    first = await sent(client, status=201)
    again = await sent(client, status=201)
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert app.state.calls == 1
    for name in ("content-type", "location", "etag"):
        assert first.headers[name] == again.headers[name]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert "x-other" not in again.headers


async def test_requests_without_an_idempotency_key_are_all_executed(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    for _ in range(2):
        await client.post(WORK, json={})
    assert app.state.calls == 2


async def test_reusing_an_idempotency_key_for_another_request_is_refused(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await sent(client)
    other = await sent(client, more=1)
    assert is_problem(other, 409, "request.idempotency")
    assert "retry-after" not in other.headers
    other = await client.post(f"{WORK}?dry=1", json={}, headers=once())
    assert is_problem(other, 409, "request.idempotency")
    assert app.state.calls == 1


async def test_idempotency_keys_of_different_callers_are_separate(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = [await make_key(app, tenant=tenant) for tenant in ("default", "default", "acme")]
    for key in made:
        found = await client.post(WORK, json={}, headers=bearer(key, **once()))
        assert "idempotency-replayed" not in found.headers
    assert app.state.calls == 3


@pytest.mark.parametrize("status", [400, 404, 409, 422, 429, 500, 503])
async def test_a_refused_request_may_be_repeated(
    app: FastAPI, client: httpx2.AsyncClient, status: int
) -> None:
    for _ in range(2):
        assert (await sent(client, status=status)).status_code == status
    assert app.state.calls == 2
    assert (await sent(client)).status_code == 200


async def test_a_request_that_failed_internally_may_be_repeated(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    for _ in range(2):
        assert is_problem(await sent(client, what="fail"), 500, "server.internal")
    assert app.state.calls == 2


async def test_a_repeat_during_the_first_request_gets_retry_after(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    app.state.begun, app.state.go = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(sent(client, what="wait"))
    await app.state.begun.wait()
    second = await sent(client, what="wait")
    assert is_problem(second, 409, "request.idempotency")
    assert 1 <= int(second.headers["retry-after"]) <= 5
    app.state.go.set()
    assert (await first).status_code == 200
    assert (await sent(client, what="wait")).content == (await first).content
    assert app.state.calls == 1


async def test_a_repeated_stream_is_replayed_as_a_whole(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    first = await sent(client, what="stream")
    again = await sent(client, what="stream")
    assert first.content == again.content == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert again.headers["content-type"].startswith("text/event-stream")
    assert app.state.calls == 1


async def test_a_too_long_answer_is_not_stored_and_not_recreated(
    app: FastAPI, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "_MAX_ANSWER", 1000)
    first = await sent(client, length=5000)
    assert len(first.json()["text"]) == 5000
    assert is_problem(await sent(client, length=5000), 409, "request.idempotency")
    assert app.state.calls == 1


async def test_a_long_request_renews_its_reservation(
    app: FastAPI, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = asyncio.Event()
    original = Reservation.renew

    async def renew(self: Reservation) -> None:
        await original(self)
        renewed.set()

    monkeypatch.setattr(Reservation, "renew", renew)
    monkeypatch.setattr(repeats, "LEASE_S", 0.001)
    app.state.begun, app.state.go = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(sent(client, what="wait"))
    await renewed.wait()
    app.state.go.set()
    assert (await first).status_code == 200
    assert "idempotency-replayed" in (await sent(client, what="wait")).headers


async def test_an_answer_is_returned_although_the_reservation_was_lost(
    app: FastAPI, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(self: Reservation) -> None:
        app.state.lost.set()
        raise StaleDocument(COLLECTION, "k", expected=1, found=2)

    app.state.lost = asyncio.Event()
    monkeypatch.setattr(Reservation, "renew", lost)
    monkeypatch.setattr(repeats, "LEASE_S", 0.001)
    app.state.begun, app.state.go = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(sent(client, what="wait"))
    await app.state.lost.wait()
    app.state.go.set()
    assert (await first).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 201, "é", "a\tb"])
async def test_an_invalid_idempotency_key_is_refused(
    app: FastAPI, client: httpx2.AsyncClient, key: str
) -> None:
    raw = {"Idempotency-Key": key.encode("latin-1")}
    found = await client.post(WORK, json={}, headers=raw)
    assert is_problem(found, 422, "request.invalid")
    assert app.state.calls == 0


async def test_two_idempotency_keys_are_refused(app: FastAPI, client: httpx2.AsyncClient) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert is_problem(await client.post(WORK, json={}, headers=headers), 422, "request.invalid")


# The documents


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[MemoryStore]:
    async with MemoryStore(clock) as opened:
        yield opened


async def reserved(store: MemoryStore, ticket: Ticket = TICKET) -> Reservation:
    found = await reserve(store, ticket)
    assert isinstance(found, Reservation)
    return found


async def test_a_request_of_a_dead_process_is_executed_again_after_its_lease(
    store: MemoryStore, clock: ManualClock
) -> None:
    dead = await reserved(store)
    with pytest.raises(IdempotencyConflict):
        await reserve(store, TICKET)
    clock.advance(LEASE_S + 0.1)
    alive = await reserved(store)
    with pytest.raises(StaleDocument):
        await dead.finish(DONE)
    with pytest.raises(StaleDocument):
        await dead.renew()
    await alive.finish(DONE)
    assert await reserve(store, TICKET) == DONE


async def test_a_renewed_reservation_does_not_expire(
    store: MemoryStore, clock: ManualClock
) -> None:
    mine = await reserved(store)
    for _ in range(5):
        clock.advance(LEASE_S * 0.9)
        await mine.renew()
    with pytest.raises(IdempotencyConflict) as caught:
        await reserve(store, TICKET)
    assert caught.value.retry_after_s == 5.0
    await mine.finish(DONE)
    assert await reserve(store, TICKET) == DONE


async def test_an_idempotency_key_can_be_reused_after_a_day(
    store: MemoryStore, clock: ManualClock
) -> None:
    await (await reserved(store)).finish(DONE)
    other = Ticket(key="k", digest="another")
    with pytest.raises(IdempotencyConflict):
        await reserve(store, other)
    clock.advance(KEPT_S + 1)
    await (await reserved(store, other)).give_up()
    await reserved(store)


async def test_of_concurrent_reservations_one_succeeds(store: MemoryStore) -> None:
    found = await asyncio.gather(
        *(reserve(store, TICKET) for _ in range(20)), return_exceptions=True
    )
    assert len([each for each in found if isinstance(each, Reservation)]) == 1
    assert len([each for each in found if isinstance(each, IdempotencyConflict)]) == 19


async def test_old_reservations_are_removed(store: MemoryStore, clock: ManualClock) -> None:
    for number in range(450):
        await (await reserved(store, Ticket(key=f"old{number}", digest="d"))).finish(DONE)
    clock.advance(KEPT_S / 2)
    await (await reserved(store, Ticket(key="new", digest="d"))).finish(DONE)
    clock.advance(KEPT_S / 2 + 1)
    assert await prune(store) == 450
    assert [each.key for each in await store.list_documents(COLLECTION)] == ["new"]
    assert await prune(store) == 0


def test_the_parts_of_a_ticket_are_unambiguous() -> None:
    def ticket(**parts: Any) -> Ticket:
        whole = {"caller": "a", "path": "/b", "query": b"", "media_type": "", "body": b""}
        return ticket_for(parts.pop("key", "k"), **{**whole, **parts})

    assert ticket(caller="ab", path="c").key != ticket(caller="a", path="bc").key
    assert ticket(query=b"a", body=b"b").digest != ticket(query=b"ab").digest
    assert ticket() == ticket()


# Runs


async def messages(app: FastAPI, session_id: str) -> int:
    store = (await app.state.service.tenant_service()).store
    events = await store.events(session_id)
    return len([each for each in events if each.type == "message" and each.step is None])


async def test_a_repeated_message_is_stored_once(app: FastAPI, client: httpx2.AsyncClient) -> None:
    first = await client.post(RUNS, json=BODY, headers=once())
    assert first.status_code == 200, first.text
    again = await client.post(RUNS, json=BODY, headers=once())
    assert again.status_code == 200
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert await messages(app, first.json()["session_id"]) == 1
    assert len((await client.get("/api/v1/sessions")).json()["items"]) == 1


async def test_another_message_with_the_same_idempotency_key_is_refused(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await client.post(RUNS, json=BODY, headers=once())
    other = await client.post(RUNS, json={"input": "And 1043?"}, headers=once())
    assert is_problem(other, 409, "request.idempotency")


async def test_a_repeat_in_a_continued_session_returns_its_own_run(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    body = {**BODY, "session_id": "mine"}
    first = (await client.post(RUNS, json=body, headers=once())).json()
    await client.post(RUNS, json={"input": "And 1043?", "session_id": "mine"})
    again = (await client.post(RUNS, json=body, headers=once())).json()
    assert again["run_id"] == first["run_id"] == "mine:1"
    assert again["output"] == first["output"]
    assert await messages(app, "mine") == 2


async def test_a_repeated_stream_shows_the_run_from_its_beginning(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    body = {**BODY, "stream": True}
    first = await client.post(RUNS, json=body, headers=once())
    again = await client.post(RUNS, json=body, headers=once())
    ids = [line for line in first.text.splitlines() if line.startswith("id:")]
    assert ids
    assert [line for line in again.text.splitlines() if line.startswith("id:")] == ids
    assert "event: end" in again.text
    assert again.headers["x-ekiden-run"] == first.headers["x-ekiden-run"]
    assert await messages(app, first.headers["x-ekiden-session"]) == 1


async def test_concurrent_repeats_store_the_message_once(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    found = await asyncio.gather(*(client.post(RUNS, json=BODY, headers=once()) for _ in range(10)))
    done = [each for each in found if each.status_code == 200]
    assert done
    assert {each.status_code for each in found} <= {200, 202, 409}
    for each in found:
        if each.status_code == 409:
            assert is_problem(each, 409, "request.idempotency")
            assert "retry-after" in each.headers
    [session] = (await client.get("/api/v1/sessions")).json()["items"]
    assert await messages(app, session["session_id"]) == 1


async def test_a_repeat_does_not_recreate_a_deleted_session(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    first = (await client.post(RUNS, json=BODY, headers=once())).json()
    await client.delete(f"/api/v1/sessions/{first['session_id']}")
    again = await client.post(RUNS, json=BODY, headers=once())
    assert is_problem(again, 409, "request.idempotency")


@pytest.mark.parametrize("change", [None, lambda body: {**body, "kept_until_us": 0}])
async def test_an_expired_idempotency_key_starts_another_session(
    app: FastAPI,
    client: httpx2.AsyncClient,
    change: Callable[[dict[str, Any]], dict[str, Any]] | None,
) -> None:
    first = (await client.post(RUNS, json=BODY, headers=once())).json()
    store = (await app.state.service.tenant_service()).store
    [document] = await store.list_documents(COLLECTION)
    body = None if change is None else change(document.body)
    await store.write_documents([DocumentWrite(collection=COLLECTION, key=document.key, body=body)])
    second = (await client.post(RUNS, json=BODY, headers=once())).json()
    assert second["session_id"] != first["session_id"]
    assert await messages(app, first["session_id"]) == 1


async def test_a_refused_message_can_be_sent_again(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    body = {**BODY, "agent": "nobody"}
    for _ in range(2):
        assert (await client.post(RUNS, json=body, headers=once())).status_code == 404
    assert (await client.post(RUNS, json=BODY, headers=once())).status_code == 200


class _Asked:
    """A connection whose ticket is known."""

    def __init__(self) -> None:
        self.state = self
        self.ticket = TICKET


async def test_a_new_session_claimed_by_the_first_request_is_reported_as_in_progress(
    app: FastAPI,
) -> None:
    desk = await app.state.service.tenant_service()
    session_id = await _new_session_id(desk.store, TICKET)
    await desk.store.claim(
        session_id, owner="x", lease_s=30, create=NewSession(id=session_id, agent="triage")
    )
    order = RunOrder(input="Hello")
    with pytest.raises(IdempotencyConflict) as caught:
        await start_once(_Asked(), desk, order, desk.runs.start)  # type: ignore[arg-type]
    assert caught.value.retry_after_s == 5.0


async def test_a_busy_session_named_by_the_caller_is_reported_as_busy(app: FastAPI) -> None:
    desk = await app.state.service.tenant_service()
    await desk.store.claim(
        "mine", owner="x", lease_s=30, create=NewSession(id="mine", agent="triage")
    )
    order = RunOrder(input="Hello", session_id="mine")
    with pytest.raises(SessionBusy):
        await start_once(_Asked(), desk, order, desk.runs.start)  # type: ignore[arg-type]


async def test_a_simultaneous_repeat_returns_the_run_of_the_first_request(app: FastAPI) -> None:
    desk = await app.state.service.tenant_service()
    first: list[StartedRun] = []

    async def overtaken(order: RunOrder) -> StartedRun:
        if not first:
            first.append(await desk.runs.start(order))
        started: StartedRun = await desk.runs.start(order)
        return started

    order = RunOrder(input="Hello", on_busy="wait")
    found = await start_once(_Asked(), desk, order, overtaken)  # type: ignore[arg-type]
    assert found == first[0]
    assert await messages(app, found.session_id) == 1


async def test_an_idempotency_key_used_on_too_many_days_is_refused(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_MOST_SESSIONS", 0)
    desk = await app.state.service.tenant_service()
    with pytest.raises(IdempotencyConflict, match="too often"):
        await start_once(_Asked(), desk, RunOrder(input="x"), desk.runs.start)  # type: ignore[arg-type]
