"""Agents whose memories are mirrored to Pinecone: runs never wait for it, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ekiden import Agent, Runner, Session
from ekiden.core.profile import MemorySettings
from ekiden.embeddings.local import HashingEmbedder
from ekiden.integrations.pinecone import open_backend
from ekiden.memory import Memory, backend, base as registry, register_backend
from ekiden.runtime import RunConfig
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from tests.support.pinecone_server import PineconeServer
from tests.support.vendor import DROP, HANG, Trouble, status

pytest.importorskip("pinecone")

LENGTH = 64
VECTOR = MemorySettings(type="vector", backend="pinecone")
EMBEDDER = HashingEmbedder(LENGTH)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PineconeServer]:
    """The index of this process; it knows of no failures in other tests."""
    async with PineconeServer(dimensions=LENGTH) as running:
        monkeypatch.setenv("PINECONE_API_KEY", "pc-test")
        monkeypatch.setenv("PINECONE_HOST", running.origin)
        monkeypatch.setattr(registry, "_open", {})
        monkeypatch.setattr(registry, "_registered", {})
        # A busy machine answers late; the test about a vendor that is away sets its own limit.
        monkeypatch.setattr("ekiden.memory.memory.SEARCH_TIMEOUT_S", 60)
        yield running
        await backend("pinecone", dimensions=LENGTH).close()


def memory(store: MemoryStore, user: str = "ada") -> Memory:
    return Memory(store, user=user, app="desk", settings=VECTOR, embedder=EMBEDDER)


async def ask(store: MemoryStore, *steps: Any, user: str = "ada") -> str:
    agent = Agent("desk", model=ScriptedModel([*steps, say("done")]), memory=VECTOR)
    result = await Runner.run(
        agent,
        "hello",
        session=Session(store=store, user_id=user),
        run_config=RunConfig(app="desk", embedder=EMBEDDER),
    )
    return str(result.final_output)


def remembered(number: int) -> Any:
    return call("remember", key=f"fact {number}", content=f"Her lucky number {number} is blue.")


async def test_entries_of_agents_are_in_the_index_without_their_text(
    server: PineconeServer,
) -> None:
    async with MemoryStore() as store:
        assert await ask(store, remembered(1), remembered(2)) == "done"
        [namespace] = server.namespaces.values()
        assert {each["metadata"]["key"] for each in namespace.values()} == {"fact 1", "fact 2"}
        assert not any(b"lucky" in request.body for request in server.requests)
        found = await memory(store).retrieve("lucky number blue", top_k=1)
        assert found[0].content.startswith("Her lucky number")
        assert any(request.path == "/query" for request in server.requests)


async def test_another_user_finds_nothing_even_if_the_index_mixes_spaces(
    server: PineconeServer,
) -> None:
    async with MemoryStore() as store:
        await ask(store, remembered(1))
        await ask(store, remembered(2), user="bob")
        one, other = server.namespaces.values()
        one.update(other)
        other.update(one)
        found = await memory(store, "bob").retrieve("lucky number", top_k=10)
        assert [each.key for each in found] == ["fact 2"]


@pytest.mark.parametrize(
    "trouble",
    [status(401), status(429, retry_after="0"), status(503, retry_after="0"), DROP, HANG],
    ids=["401", "429", "503", "drop", "hang"],
)
async def test_a_run_during_an_outage_continues_and_entries_are_delivered_later(
    server: PineconeServer, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.memory.memory.SEARCH_TIMEOUT_S", 0.1)
    server.away = trouble
    async with MemoryStore() as store:
        steps = [remembered(number) for number in range(5)]
        assert await ask(store, *steps, call("recall", query="lucky number blue")) == "done"
        found = await memory(store).retrieve("lucky number blue", top_k=10)
        assert len(found) == 5
        assert not server.namespaces
        server.away = None
        await recovered(store)
        [namespace] = server.namespaces.values()
        assert {each["metadata"]["key"] for each in namespace.values()} == {
            f"fact {number}" for number in range(5)
        }


async def recovered(store: MemoryStore) -> None:
    """The pauses after failures are over, and what waits is delivered."""
    own = registry.remote_copy_of(backend("pinecone", dimensions=LENGTH))
    own._rests_until, own._failures = 0.0, 0
    messages = await store.find_messages()
    assert messages
    store.advance(400.0)
    assert (await memory(store).deliver()).waiting == 0


async def test_an_entry_deleted_during_an_outage_is_deleted_in_the_index_later(
    server: PineconeServer,
) -> None:
    async with MemoryStore() as store:
        await ask(store, remembered(1), remembered(2))
        server.away = status(401)
        await ask(store, call("forget", key="fact 1"))
        assert len(next(iter(server.namespaces.values()))) == 2
        server.away = None
        await recovered(store)
        [namespace] = server.namespaces.values()
        assert {each["metadata"]["key"] for each in namespace.values()} == {"fact 2"}


async def test_a_missing_key_does_not_end_a_run(
    server: PineconeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PINECONE_API_KEY")
    async with MemoryStore() as store:
        assert await ask(store, remembered(1)) == "done"
    monkeypatch.setenv("PINECONE_API_KEY", "pc-test")
    register_backend("pinecone", open_backend)
