"""Memories in Pinecone, over the vendor's own wire format."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.errors.memory import BackendUnavailable
from ekiden.integrations import pinecone as module
from ekiden.integrations.pinecone import PineconeBackend, open_backend
from ekiden.memory.base import BackendOptions, MemoryBackend, RemoteEntry
from tests.support.pinecone_server import PineconeServer
from tests.support.vendor import DROP, GARBLED, HANG, Trouble, status

pytest.importorskip("pinecone")

ALICE, BOB = "memory.user.a1", "memory.user.b2"
NORTH, EAST = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)
NEARLY = (0.8, 0.6, 0.0, 0.0)
AT_ONCE = {"retry_after": "0"}


def entry(
    key: str, vector: Any = NORTH, *, model: str = "m/4", text: str = "secret"
) -> RemoteEntry:
    return RemoteEntry(
        key=key, text=text, metadata={"who": "somebody"}, vector=vector, model=model, version=7
    )


def options(environ: Mapping[str, str], dimensions: int = 4) -> BackendOptions:
    return BackendOptions(dimensions=dimensions, environ=environ)


@pytest.fixture
async def server() -> AsyncIterator[PineconeServer]:
    async with PineconeServer() as running:
        yield running


@pytest.fixture
async def backend(server: PineconeServer) -> AsyncIterator[MemoryBackend]:
    made = open_backend(options({"PINECONE_API_KEY": "pc-test", "PINECONE_HOST": server.origin}))
    yield made
    await made.close()


async def test_stored_entries_are_found_nearest_first(backend: MemoryBackend) -> None:
    await backend.upsert(ALICE, [entry("north"), entry("east", EAST), entry("nearly", NEARLY)])
    hits = await backend.search(ALICE, NORTH, model="m/4", limit=2)
    assert [hit.key for hit in hits] == ["north", "nearly"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.8])


async def test_a_score_is_never_negative(backend: MemoryBackend) -> None:
    await backend.upsert(ALICE, [entry("south", (-1.0, 0.0, 0.0, 0.0))])
    assert [hit.score for hit in await backend.search(ALICE, NORTH, model="m/4", limit=5)] == [0.0]


async def test_a_space_is_a_namespace_of_its_own(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    await backend.upsert(ALICE, [entry("hers")])
    await backend.upsert(BOB, [entry("his")])
    hits = await backend.search(BOB, NORTH, model="m/4", limit=5)
    assert [hit.key for hit in hits] == ["his"]
    assert set(server.namespaces) == {ALICE, BOB}
    assert await backend.search("memory.user.nobody", NORTH, model="m/4", limit=5) == []


async def test_vectors_of_another_model_are_not_compared(backend: MemoryBackend) -> None:
    await backend.upsert(ALICE, [entry("old", model="before/4")])
    assert await backend.search(ALICE, NORTH, model="m/4", limit=5) == []
    await backend.upsert(ALICE, [entry("old")])
    assert len(await backend.search(ALICE, NORTH, model="m/4", limit=5)) == 1
    assert await backend.search(ALICE, NORTH, model="before/4", limit=5) == []


async def test_no_text_and_no_metadata_are_sent(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    await backend.upsert(ALICE, [entry("key", text="my medical file")])
    sent = b"".join(request.body for request in server.requests)
    assert b"medical" not in sent
    assert b"somebody" not in sent


async def test_an_entry_is_replaced_by_key_and_keys_may_have_any_character(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    keys = ["kundin/メモ 🎉", "a" * 512, "a" * 511, "null\x00"]
    await backend.upsert(ALICE, [entry(key) for key in keys])
    await backend.upsert(ALICE, [entry(keys[0], EAST)])
    assert len(server.namespaces[ALICE]) == 4
    hits = await backend.search(ALICE, EAST, model="m/4", limit=1)
    assert [hit.key for hit in hits] == [keys[0]]


async def test_deleting_and_clearing_are_idempotent(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    await backend.upsert(ALICE, [entry("one"), entry("two")])
    for _ in range(2):
        await backend.delete(ALICE, ["one", "never"])
    assert len(server.namespaces[ALICE]) == 1
    for _ in range(2):
        await backend.clear(ALICE)
    assert ALICE not in server.namespaces
    await backend.delete(ALICE, ["one"])


async def test_empty_changes_send_no_request(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    await backend.upsert(ALICE, [])
    await backend.delete(ALICE, [])
    assert server.requests == []


async def test_large_vectors_are_sent_in_requests_of_limited_size() -> None:
    async with PineconeServer(dimensions=3072) as server:
        made = PineconeBackend(api_key="pc-test", host=server.origin, dimensions=3072)
        vector = [-0.018042195912175808 + number / 1e9 for number in range(3072)]
        await made.upsert(ALICE, [entry(f"key {number}", vector) for number in range(100)])
        await made.close()
        assert len(server.namespaces[ALICE]) == 100
        assert len(server.requests) > 1


async def test_foreign_vectors_in_the_index_are_ignored(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    foreign = {"id": "x", "values": list(NORTH), "metadata": {"model": "m/4", "key": 5}}
    server.namespaces[ALICE]["x"] = foreign
    await backend.upsert(ALICE, [entry("ours")])
    hits = await backend.search(ALICE, NORTH, model="m/4", limit=5)
    assert [hit.key for hit in hits] == ["ours"]


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_the_client_retries_transient_errors(
    backend: MemoryBackend, server: PineconeServer, code: int
) -> None:
    server.troubles.append(status(code, **AT_ONCE))
    await backend.upsert(ALICE, [entry("one")])
    assert len(server.requests) == 2


@pytest.mark.parametrize("call", ["upsert", "delete", "clear", "search"])
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (status(401), "answered 401"),
        (status(403), "answered 403"),
        (status(402), "answered 402"),
        (status(429, **AT_ONCE), "answered 429"),
        (status(503, **AT_ONCE), "answered 503"),
    ],
    ids=str,
)
async def test_a_transient_error_is_marked_as_retriable(
    backend: MemoryBackend, server: PineconeServer, call: str, trouble: Trouble, told: str
) -> None:
    server.away = trouble
    with pytest.raises(BackendUnavailable, match=told) as raised:
        await called(backend, call)
    assert raised.value.retry
    server.away = None
    await called(backend, call)


@pytest.mark.parametrize("call", ["upsert", "search"])
async def test_a_truncated_response_is_marked_as_retriable(
    backend: MemoryBackend, server: PineconeServer, call: str
) -> None:
    server.away = GARBLED
    with pytest.raises(BackendUnavailable, match="ResponseParsingError") as raised:
        await called(backend, call)
    assert raised.value.retry


async def called(backend: MemoryBackend, call: str) -> None:
    match call:
        case "upsert":
            await backend.upsert(ALICE, [entry("one")])
        case "delete":
            await backend.delete(ALICE, ["one"])
        case "clear":
            await backend.clear(ALICE)
        case _:
            await backend.search(ALICE, NORTH, model="m/4", limit=1)


async def test_a_missing_index_is_an_error_not_an_empty_result(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    server.away = status(404)
    with pytest.raises(BackendUnavailable) as raised:
        await called(backend, "search")
    assert raised.value.retry


async def test_a_permanent_error_is_not_retried() -> None:
    async with PineconeServer(dimensions=8) as server:
        made = PineconeBackend(api_key="pc-test", host=server.origin, dimensions=4)
        with pytest.raises(BackendUnavailable, match="dimension") as raised:
            await called(made, "upsert")
        assert not raised.value.retry
        with pytest.raises(BackendUnavailable, match="8 numbers, not 4") as raised:
            await made.upsert(ALICE, [entry("one", (0.0,) * 8)])
        assert not raised.value.retry
        with pytest.raises(BackendUnavailable, match="cannot be JSON") as raised:
            await made.upsert(ALICE, [entry("lone \ud800")])
        assert not raised.value.retry
        await made.close()


async def test_a_cancelled_call_leaves_the_next_one_intact(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    server.troubles.append(HANG)
    search = asyncio.create_task(called(backend, "search"))
    await server.until_asked()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    await called(backend, "upsert")
    assert len(server.namespaces[ALICE]) == 1


async def test_a_closed_connection_is_reopened(
    backend: MemoryBackend, server: PineconeServer
) -> None:
    server.troubles.append(DROP)
    await called(backend, "upsert")
    await backend.close()
    await backend.close()
    await called(backend, "search")


async def test_an_index_is_looked_up_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PineconeServer() as server:
        monkeypatch.setenv("PINECONE_CONTROLLER_HOST", server.origin)
        made = open_backend(options({"PINECONE_API_KEY": "pc-test", "PINECONE_INDEX": "desk"}))
        server.troubles.append(status(503, **AT_ONCE))
        await called(made, "upsert")
        await called(made, "search")
        await made.close()
        looked = [request.path for request in server.requests if request.method == "GET"]
        assert looked == ["/indexes/desk", "/indexes/desk"]
        other = open_backend(options({"PINECONE_API_KEY": "pc-test", "PINECONE_INDEX": "other"}))
        with pytest.raises(BackendUnavailable, match="no such index") as raised:
            await called(other, "search")
        assert raised.value.retry


async def test_an_index_under_construction_is_a_retriable_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Young(PineconeServer):
        async def answer(self, request: Any) -> Any:
            return {**await super().answer(request), "host": None}

    async with Young() as server:
        monkeypatch.setenv("PINECONE_CONTROLLER_HOST", server.origin)
        made = open_backend(options({"PINECONE_API_KEY": "pc-test", "PINECONE_INDEX": "desk"}))
        with pytest.raises(BackendUnavailable, match="host") as raised:
            await called(made, "search")
        assert raised.value.retry


def test_each_event_loop_has_its_own_connections() -> None:
    async def use() -> int:
        async with PineconeServer() as server:
            made._host = server.origin
            await called(made, "upsert")
            await made.close()
            return len(server.namespaces[ALICE])

    made = PineconeBackend(api_key="pc-test", host="127.0.0.1", dimensions=4)
    assert [asyncio.run(use()) for _ in range(2)] == [1, 1]
    gc.collect()


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, "set PINECONE_API_KEY"),
        ({"PINECONE_API_KEY": " "}, "set PINECONE_API_KEY"),
        ({"PINECONE_API_KEY": "k"}, "set PINECONE_HOST"),
    ],
)
def test_a_missing_setting_is_reported_immediately(environ: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        open_backend(options(environ))


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'ekiden\[pinecone\]'"):
        open_backend(options({}))


@pytest.mark.parametrize("host", ["nowhere", "  "])
async def test_an_invalid_address_is_a_permanent_error(host: str) -> None:
    made = PineconeBackend(api_key="k", host=host, dimensions=4)
    with pytest.raises(BackendUnavailable, match="host") as raised:
        await called(made, "search")
    assert not raised.value.retry
