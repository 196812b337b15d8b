"""Who is let in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import HTTPConnection

from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.server import (
    KeyExpired,
    ServerExposed,
    TooManyRequests,
    Unauthenticated,
)
from ekiden.project.keys import KeyStore
from ekiden.server import ServerConfig
from ekiden.server.access import LOCAL
from ekiden.server.authorization import (
    FRESH_S,
    NOTED_EVERY_S,
    KeyAuthorization,
    KeyRing,
    Rates,
    check_exposure,
    subprotocol_of,
)
from ekiden.server.lifespan import BackgroundTasks
from ekiden.storage.memory import MemoryStore
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, is_problem, keys_of, make_key

SESSIONS = "/api/v1/sessions"


class Time:
    """A monotonic clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    async with application(tmp_path, workers=0) as running:
        yield running


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as caller:
        yield caller


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


@pytest.fixture
async def chores() -> AsyncIterator[BackgroundTasks]:
    chores = BackgroundTasks()
    yield chores
    await chores.close()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def ring(store: MemoryStore, chores: BackgroundTasks, time: Time) -> KeyRing:
    async def keys() -> KeyStore:
        return KeyStore(store)

    return KeyRing(keys, chores, monotonic=time)


def connection(
    *,
    client: tuple[str, int] | None = ("127.0.0.1", 50000),
    kind: str = "http",
    query: bytes = b"",
    **headers: str,
) -> HTTPConnection:
    names = {"host": "localhost:8321", **headers}
    raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in names.items()]
    return HTTPConnection(
        {"type": kind, "headers": raw, "client": client, "query_string": query, "path": "/"}
    )


async def test_without_any_key_local_callers_are_admitted(ring: KeyRing) -> None:
    gate = KeyAuthorization(ring, ServerConfig())
    assert await gate.caller(connection()) == LOCAL
    assert await gate.caller(connection(client=("::1", 1))) == LOCAL
    assert await gate.caller(connection(client=("::ffff:127.0.0.1", 1))) == LOCAL
    assert await gate.caller(connection(host="[::1]:8321")) == LOCAL


@pytest.mark.parametrize("address", ["10.0.0.7", "192.168.1.2", "::2", "testclient", "", "0.0.0.0"])
async def test_without_any_key_remote_callers_are_refused(ring: KeyRing, address: str) -> None:
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig()).caller(connection(client=(address, 1)))


async def test_a_connection_without_an_address_is_refused(ring: KeyRing) -> None:
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig()).caller(connection(client=None))


@pytest.mark.parametrize(
    "config",
    [
        ServerConfig(host="0.0.0.0"),
        ServerConfig(host="192.168.1.2"),
        ServerConfig(host="desk.example.com"),
        ServerConfig(host="::"),
        ServerConfig(allow_local=False),
    ],
    ids=["any", "network", "name", "any6", "strict"],
)
async def test_an_exposed_server_refuses_callers_without_a_key(
    ring: KeyRing, config: ServerConfig
) -> None:
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, config).caller(connection())


@pytest.mark.parametrize(
    "header",
    [
        "forwarded",
        "x_forwarded_for",
        "x_forwarded_host",
        "x_forwarded_proto",
        "x_forwarded_anything",
        "x_real_ip",
        "x_client_ip",
        "cf_connecting_ip",
        "true_client_ip",
        "via",
    ],
)
async def test_a_forwarded_request_is_not_treated_as_local(ring: KeyRing, header: str) -> None:
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig()).caller(connection(**{header: "127.0.0.1"}))


async def test_an_http_1_0_request_is_not_treated_as_local(ring: KeyRing) -> None:
    old = connection()
    old.scope["http_version"] = "1.0"
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig()).caller(old)


async def test_an_external_host_name_is_not_treated_as_local(ring: KeyRing) -> None:
    gate = KeyAuthorization(ring, ServerConfig(hosts=["desk.example.com"]))
    with pytest.raises(Unauthenticated):
        await gate.caller(connection(host="desk.example.com"))


async def test_keys_of_other_services_are_ignored_where_no_key_is_needed(ring: KeyRing) -> None:
    gate = KeyAuthorization(ring, ServerConfig())
    assert await gate.caller(connection(authorization="Bearer sk-local")) == LOCAL
    with pytest.raises(Unauthenticated):
        await gate.caller(connection(authorization="Bearer ek_abcdefgh_" + "a" * 40))


async def test_after_the_first_key_every_caller_needs_one(
    ring: KeyRing, store: MemoryStore, time: Time
) -> None:
    gate = KeyAuthorization(ring, ServerConfig())
    assert await gate.caller(connection()) == LOCAL
    made = await KeyStore(store).create("x", scopes=["read"], tenant="acme")
    time.now += FRESH_S
    with pytest.raises(Unauthenticated):
        await gate.caller(connection())
    with pytest.raises(KeyExpired):
        await gate.recheck(LOCAL)
    await KeyStore(store).revoke(made.key.id)
    time.now += FRESH_S
    with pytest.raises(Unauthenticated):
        await gate.caller(connection())


@pytest.mark.parametrize("header", ["authorization", "x_api_key"])
async def test_a_key_identifies_the_caller_and_its_scopes(
    ring: KeyRing, store: MemoryStore, header: str
) -> None:
    made = await KeyStore(store).create("console", scopes=["read", "answer"], tenant="acme")
    text = f"bearer   {made.text} " if header == "authorization" else made.text
    caller = await KeyAuthorization(ring, ServerConfig(host="0.0.0.0")).caller(
        connection(client=("10.1.1.1", 7), **{header: text})
    )
    assert (caller.name, caller.tenant, caller.id) == ("console", "acme", made.key.id)
    assert caller.may("read")
    assert caller.may("answer")
    assert not caller.may("run")
    assert not caller.may("admin")


async def test_a_page_sends_its_key_as_a_websocket_subprotocol(
    ring: KeyRing, store: MemoryStore
) -> None:
    made = await KeyStore(store).create("page", scopes=["read"])
    offer = f"ekiden.v1, ekiden.bearer.{made.text}"
    socket = connection(kind="websocket", sec_websocket_protocol=offer)
    assert (await KeyAuthorization(ring, ServerConfig()).caller(socket)).name == "page"
    assert subprotocol_of(socket) == "ekiden.v1"
    assert subprotocol_of(connection(kind="websocket")) is None
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig()).caller(
            connection(sec_websocket_protocol=offer)
        )


async def test_a_key_in_a_url_is_refused_even_with_a_valid_header(
    ring: KeyRing, store: MemoryStore
) -> None:
    made = await KeyStore(store).create("x", scopes=["admin"])
    gate = KeyAuthorization(ring, ServerConfig())
    with pytest.raises(Unauthenticated, match="revoke it") as caught:
        await gate.caller(
            connection(query=f"key={made.text}".encode(), authorization=f"Bearer {made.text}")
        )
    assert made.text not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer ",
        "Basic YWRhOnNlY3JldA==",
        "Digest x",
        "ek_abcdefgh_" + "a" * 40,
        "Bearer ek_abcdefgh_" + "a" * 40,
        "Bearer ek_abcdefgh",
        "Bearer " + "x" * 5000,
        "Bearer \x00",
        "Bearer ek_../../etc_" + "a" * 40,
    ],
)
async def test_an_invalid_key_is_refused_and_not_repeated(
    ring: KeyRing, store: MemoryStore, value: str
) -> None:
    await KeyStore(store).create("x", scopes=["admin"])
    with pytest.raises(Unauthenticated) as caught:
        await KeyAuthorization(ring, ServerConfig()).caller(connection(authorization=value))
    assert value.partition(" ")[2] not in str(caught.value) or not value.partition(" ")[2].strip()
    assert caught.value.code == "auth.required"


async def test_a_known_prefix_with_another_secret_is_refused(
    ring: KeyRing, store: MemoryStore
) -> None:
    made = await KeyStore(store).create("x", scopes=["admin"])
    other = await KeyStore(store).create("y", scopes=["admin"])
    mixed = f"ek_{made.key.id}_{other.text.rpartition('_')[2]}"
    with pytest.raises(Unauthenticated):
        await KeyAuthorization(ring, ServerConfig()).caller(connection(x_api_key=mixed))


async def test_several_different_keys_are_refused(ring: KeyRing, store: MemoryStore) -> None:
    made = await KeyStore(store).create("x", scopes=["admin"])
    other = await KeyStore(store).create("y", scopes=["read"])
    gate = KeyAuthorization(ring, ServerConfig())
    both = connection(authorization=f"Bearer {made.text}", x_api_key=other.text)
    with pytest.raises(Unauthenticated, match="several"):
        await gate.caller(both)
    same = connection(authorization=f"Bearer {made.text}", x_api_key=made.text)
    assert (await gate.caller(same)).key_id == made.key.id


async def test_a_key_revoked_by_another_process_is_refused_within_a_second(
    ring: KeyRing, store: MemoryStore, time: Time
) -> None:
    made = await KeyStore(store).create("x", scopes=["read"])
    gate = KeyAuthorization(ring, ServerConfig())
    asks = connection(x_api_key=made.text)
    caller = await gate.caller(asks)
    await KeyStore(store).revoke(made.key.id)
    time.now += FRESH_S * 0.9
    assert await gate.caller(asks) == caller
    time.now += FRESH_S * 0.2
    with pytest.raises(KeyExpired) as caught:
        await gate.caller(asks)
    assert caught.value.code == "auth.expired"
    with pytest.raises(KeyExpired):
        await gate.recheck(caller)


async def test_a_key_revoked_by_this_process_is_refused_at_once(
    ring: KeyRing, store: MemoryStore
) -> None:
    made = await KeyStore(store).create("x", scopes=["read"])
    gate = KeyAuthorization(ring, ServerConfig())
    await gate.caller(connection(x_api_key=made.text))
    await KeyStore(store).revoke(made.key.id)
    ring.forget()
    with pytest.raises(KeyExpired):
        await gate.caller(connection(x_api_key=made.text))


async def test_an_unavailable_store_admits_no_caller(ring: KeyRing, store: MemoryStore) -> None:
    made = await KeyStore(store).create("x", scopes=["read"])
    await store.close()
    with pytest.raises(StoreUnavailable):
        await KeyAuthorization(ring, ServerConfig()).caller(connection(x_api_key=made.text))
    with pytest.raises(StoreUnavailable):
        await KeyAuthorization(ring, ServerConfig()).caller(connection())


async def test_the_last_use_of_a_key_is_stored_once_a_minute_without_waiting(
    ring: KeyRing, store: MemoryStore, chores: BackgroundTasks, time: Time
) -> None:
    keys = KeyStore(store)
    made = await keys.create("x", scopes=["read"])
    gate = KeyAuthorization(ring, ServerConfig())
    for _ in range(20):
        await gate.caller(connection(x_api_key=made.text))
    await chores.settle()
    first = await keys.used_at_us(made.key.id)
    assert first is not None
    document = await store.get_document("api_key_uses", made.key.id)
    assert document is not None
    assert document.version == 1
    time.now += NOTED_EVERY_S
    await gate.caller(connection(x_api_key=made.text))
    await chores.settle()
    document = await store.get_document("api_key_uses", made.key.id)
    assert document is not None
    assert document.version == 2


async def test_a_rate_limit_refills_over_time(time: Time) -> None:
    rates = Rates(2.0, 3, monotonic=time)
    for _ in range(3):
        rates.take("a")
    with pytest.raises(TooManyRequests) as caught:
        rates.take("a")
    assert caught.value.retry_after_s == 1.0
    rates.take("b")
    time.now += 0.5
    rates.take("a")
    with pytest.raises(TooManyRequests):
        rates.take("a")
    time.now += 3600
    for _ in range(3):
        rates.take("a")
    with pytest.raises(TooManyRequests):
        rates.take("a")


async def test_a_slow_rate_limit_names_the_waiting_time(time: Time) -> None:
    rates = Rates(0.1, 1, monotonic=time)
    rates.take("a")
    with pytest.raises(TooManyRequests) as caught:
        rates.take("a")
    assert caught.value.retry_after_s == pytest.approx(10.0)


async def test_the_number_of_remembered_callers_is_limited(time: Time) -> None:
    rates = Rates(1.0, 2, monotonic=time)
    for number in range(25_000):
        rates.take(str(number))
    assert len(rates._buckets) <= 10_000
    time.now += 100
    rates.take("one more")
    Rates(0, 1).take("no limit")


async def test_too_many_requests_of_a_key_get_retry_after(tmp_path: Path) -> None:
    config = ServerConfig(rate=0.5, burst=2)
    async with application(tmp_path, workers=0, config=config) as app, client_of(app) as client:
        made = await make_key(app, "read")
        for _ in range(2):
            assert (await client.get(SESSIONS, headers=bearer(made))).status_code == 200
        refused = await client.get(SESSIONS, headers=bearer(made))
        assert is_problem(refused, 429, "request.too_many")
        assert int(refused.headers["retry-after"]) >= 1
        other = await make_key(app, "read")
        assert (await client.get(SESSIONS, headers=bearer(other))).status_code == 200


async def test_local_callers_are_not_rate_limited(tmp_path: Path) -> None:
    config = ServerConfig(rate=0.001, burst=1)
    async with application(tmp_path, workers=0, config=config) as app, client_of(app) as client:
        found = [(await client.get(SESSIONS)).status_code for _ in range(5)]
        assert found == [200] * 5


async def test_authentication_problems_name_the_scheme(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    made = await make_key(app, "read")
    refused = await client.get(SESSIONS)
    assert is_problem(refused, 401, "auth.required")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    await (await keys_of(app)).revoke(made.key.id)
    app.state.keyring.forget()
    assert is_problem(await client.get(SESSIONS, headers=bearer(made)), 401, "auth.expired")


async def test_a_caller_is_authenticated_before_the_body_is_read(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await make_key(app, "read")
    asked = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        for _ in range(1000):
            asked += 1
            yield b"x" * 1000

    refused = await client.post("/api/v1/runs", content=endless())
    assert refused.status_code == 401
    assert asked <= 1


async def test_without_a_key_unknown_paths_are_not_revealed(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await make_key(app, "read")
    assert (await client.get("/api/v1/nothing-here")).status_code == 401
    assert (await client.get("/nothing-here")).status_code == 401
    assert (await client.put("/healthz/x")).status_code == 401


async def test_an_exposed_server_does_not_start_without_a_valid_key(store: MemoryStore) -> None:
    keys = KeyStore(store)
    exposed = ServerConfig(host="0.0.0.0")
    await check_exposure(ServerConfig(), keys)
    await check_exposure(ServerConfig(host="localhost"), keys)
    await check_exposure(ServerConfig(host="::1"), keys)
    with pytest.raises(ServerExposed, match="ekiden keys create"):
        await check_exposure(exposed, keys)
    made = await keys.create("x", scopes=["read"])
    await check_exposure(exposed, keys)
    await keys.revoke(made.key.id)
    with pytest.raises(ServerExposed):
        await check_exposure(exposed, keys)


async def test_failed_background_tasks_are_logged_and_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chores = BackgroundTasks()

    async def fail(exc: Exception) -> None:
        raise exc

    assert chores.begin(lambda: fail(StoreUnavailable("gone")), what="one was not done")
    assert chores.begin(lambda: fail(ValueError("x")), what="another was not done")
    await chores.settle()
    assert "one was not done" in caplog.text
    assert "another was not done" in caplog.text
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await waiting

    assert chores.begin(wait, what="never")
    await chores.close()
    assert not chores.begin(wait, what="late")
