"""Embedders, back ends and messages that are not what they should be cost meanings at most."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ekiden.core.errors import UserError
from ekiden.core.profile import MemorySettings
from ekiden.embeddings.local import HashingEmbedder
from ekiden.memory import (
    Memory,
    MemoryBackend,
    RemoteHit,
    backend,
    register_backend,
    search as timing,
)
from ekiden.memory.base import remote_copy_of
from ekiden.memory.outbox import queue_of, refused_by, unreadable_for
from ekiden.memory.search import EmbedderThreads, Resting
from ekiden.storage.base import QueuePut, Store
from tests.unit.memory.conftest import Shelf

VECTOR = MemorySettings(type="vector")
SHELVED = MemorySettings(type="vector", backend="shelf")
QUEUE = queue_of("shelf")
BY_WORDS = ["The embedding is not available now: this was found by words only."]
LOCAL = ["shelf is not available now: the local copy was searched."]


def memory_in(store: Store, user: str = "u") -> Memory:
    return Memory(store, user=user, settings=SHELVED, embedder=HashingEmbedder(64))


class Odd:
    """An embedder that returns a given value."""

    name = "odd"
    dimensions = 3

    def __init__(self, made: Any) -> None:
        self.made = made

    def embed(self, texts: Sequence[str]) -> Any:
        if isinstance(self.made, BaseException):
            raise self.made
        return self.made


@pytest.mark.parametrize(
    "made",
    [
        np.full((1, 3), np.nan),
        np.zeros((0, 3)),
        np.ones((2, 3)),
        np.ones((1, 4)),
        np.ones(3),
        None,
        [["a", "b", "c"]],
        SystemExit(3),
    ],
    ids=["nan", "none", "many", "long", "flat", "nothing", "words", "exit"],
)
async def test_an_embedder_without_vectors_leaves_the_word_search(
    quick_store: Store, made: Any
) -> None:
    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=Odd(made))
    await memory.store("k", "hello world")
    answer = await memory.recall("hello")
    assert [(each.key, each.found_by) for each in answer.found] == [("k", "words")]
    assert answer.notes == BY_WORDS


async def test_vectors_may_be_plain_lists(quick_store: Store) -> None:
    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=Odd([[1.0, 0.0, 0.0]]))
    await memory.store("k", "hello world")
    [found] = await memory.retrieve("hello")
    assert found.found_by == "both"


@dataclass
class Hanging:
    """An embedder that does not return until it is let go; no key of a dictionary."""

    gate: threading.Event
    calls: int = 0
    name = "hanging"
    dimensions = 3

    def embed(self, texts: Sequence[str]) -> Any:
        self.calls += 1
        self.gate.wait(60)
        return np.ones((len(texts), 3))


async def test_a_hanging_embedder_blocks_no_other_memory_and_is_paused(
    quick_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timing, "EMBED_TIMEOUT_S", 0.05)
    monkeypatch.setattr(timing, "_by_name", {})
    embedder = Hanging(threading.Event())
    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=embedder)
    try:
        await asyncio.gather(*(memory.store(f"k{n}", f"text {n}") for n in range(40)))
        assert embedder.calls == 2
        async with asyncio.timeout(60):
            assert await asyncio.gather(*(asyncio.to_thread(int) for _ in range(40))) == [0] * 40
        answer = await memory.recall("7")
        assert [each.key for each in answer.found] == ["k7"]
        assert answer.notes == BY_WORDS
        assert embedder.calls == 2
        assert caplog.text.count("hanging failed") == 1
    finally:
        embedder.gate.set()


async def test_the_pause_of_a_slow_embedder_grows() -> None:
    now = 100.0
    gate = threading.Event()
    lane = EmbedderThreads(clock=lambda: now)
    for pause in (30.0, 60.0, 120.0, 240.0, 300.0, 300.0):
        with pytest.raises(TimeoutError, match="no vectors"):
            await lane.run(gate.wait, seconds=0.01)
        now += pause - 1
        with pytest.raises(Resting):
            await lane.run(int, seconds=5)
        now += 1
    gate.set()
    assert await lane.run(int, seconds=5) == 0
    assert await lane.run(int, seconds=5) == 0
    lane.close()


async def test_a_missing_key_counts_as_a_backend_outage(
    quick_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    key: list[str] = []
    made = Shelf()

    def factory(options: Any) -> MemoryBackend:
        if not key:
            raise UserError("set SHELF_KEY")
        return made

    register_backend("shelf", factory)
    memory = memory_in(quick_store)
    await memory.store("k", "some text")
    await memory.store("gone", "other text")
    assert await memory.forget("gone")
    answer = await memory.recall("some")
    assert [each.key for each in answer.found] == ["k"]
    assert answer.notes == LOCAL
    assert "set SHELF_KEY" in caplog.text
    delivery = await memory.deliver()
    assert (delivery.delivered, delivery.waiting > 0) == (0, True)
    key.append("here")
    assert backend("shelf", dimensions=64) is made
    await memory_in(quick_store, "another").store("new", "new text")
    assert made.keys()[-1:] == ["new"]


async def test_a_factory_that_returns_none_counts_as_a_backend_outage(quick_store: Store) -> None:
    def factory(options: Any) -> Any:
        return None

    register_backend("shelf", factory)
    memory = memory_in(quick_store)
    await memory.store("k", "some text")
    assert (await memory.recall("some")).notes == LOCAL


@pytest.mark.parametrize(
    "says",
    [
        None,
        [RemoteHit(key="k", score=float("nan"))],
        [RemoteHit(key=None, score=1.0)],  # type: ignore[arg-type]
        [RemoteHit(key="k", score="x")],  # type: ignore[arg-type]
        ["k"],
    ],
    ids=["nothing", "nan", "no key", "no score", "words"],
)
async def test_invalid_hits_of_a_backend_are_ignored(
    quick_store: Store, shelf: Shelf, says: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_in(quick_store)
    await memory.store("k", "some text")

    async def search(*args: Any, **options: Any) -> Any:
        return says

    monkeypatch.setattr(shelf, "search", search)
    answer = await memory.recall("some")
    assert [each.key for each in answer.found] == ["k"]
    assert answer.notes == LOCAL


async def test_an_unhashable_backend_can_be_used() -> None:
    @dataclass
    class Plain(Shelf):
        name: str = "plain"

    plain = Plain()
    assert remote_copy_of(plain) is remote_copy_of(plain)


async def test_a_refused_entry_does_not_stop_backend_searches(store: Store, shelf: Shelf) -> None:
    shelf.refused = {"bad"}
    await memory_in(store).store("bad", "refused text")
    other = memory_in(store, "another")
    await other.store("good", "fine text")
    assert shelf.keys() == ["good"]
    shelf.calls.clear()
    assert [each.key for each in await other.retrieve("fine")] == ["good"]
    assert shelf.calls == ["search"]
    assert await store.queue_depth(QUEUE) == 0
    assert await store.queue_depth(refused_by("shelf")) == 1
    delivery = await other.deliver()
    assert (delivery.delivered, delivery.waiting) == (0, 1)


async def test_an_undelivered_memory_does_not_stop_backend_searches_of_others(
    store: Store, shelf: Shelf
) -> None:
    behind, other = memory_in(store, "behind"), memory_in(store, "another")
    await other.store("good", "fine text")
    await behind.store("here", "fine text")
    later = QueuePut(queue=QUEUE, body={"space": behind.space, "key": "bad"}, delay_s=60)
    await store.put_messages([later])
    shelf.calls.clear()
    assert [each.key for each in await other.retrieve("fine")] == ["good"]
    assert shelf.calls == ["search"]
    assert [each.key for each in await behind.retrieve("fine")] == ["here"]
    assert shelf.calls == ["search"]


async def test_pending_changes_of_one_entry_are_merged_and_the_last_wins(
    store: Store, shelf: Shelf
) -> None:
    memory = memory_in(store)
    await memory.store("old", "text")
    shelf.is_disconnected = True
    for number in range(20):
        await memory.store("k", f"text {number}")
    await memory.forget("old")
    assert await store.queue_depth(QUEUE) == 2
    shelf.is_disconnected = False
    mirror = remote_copy_of(shelf)
    mirror._rests_until = 0.0
    await store.put_messages(
        [QueuePut(queue=QUEUE, body={"space": memory.space, "key": key}) for key in ("k", "old")]
    )
    await memory.deliver()
    assert [entry.text for entry in shelf.spaces[memory.space].values()] == ["text 19"]


async def test_a_change_during_a_delivery_is_delivered_afterwards(
    store: Store, shelf: Shelf
) -> None:
    memory = memory_in(store)
    await memory.store("k", "first")
    plain = Memory(store, user="u", settings=VECTOR, embedder=HashingEmbedder(64))

    async def meanwhile() -> None:
        await plain.store("k", "third")

    shelf.before_upsert = meanwhile
    await memory.store("k", "second")
    await memory.deliver()
    [entry] = shelf.spaces[memory.space].values()
    assert entry.text == "third"
    assert await store.queue_depth(QUEUE) == 0


@pytest.mark.parametrize(
    "body", [{"oops": 1}, {"space": 5, "key": None}, {"space": "s"}, [], None, "x"]
)
async def test_an_unreadable_message_is_set_aside(
    quick_store: Store, shelf: Shelf, body: Any
) -> None:
    await quick_store.put_messages([QueuePut(queue=QUEUE, body=body)])
    memory = memory_in(quick_store)
    await memory.store("k", "text")
    assert shelf.keys() == ["k"]
    assert await quick_store.queue_depth(QUEUE) == 0
    assert await quick_store.queue_depth(unreadable_for("shelf")) == 1


async def test_common_words_do_not_dominate_the_search_by_meaning(quick_store: Store) -> None:
    class Homes:
        name = "homes"
        dimensions = 2

        def embed(self, texts: Sequence[str]) -> Any:
            near = ["Lisbon" in text or "home" in text for text in texts]
            return np.array([[1.0, 0.0] if each else [0.2, 0.98] for each in near])

    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=Homes())
    for key, text in {
        "city": "She lives in Lisbon.",
        "colour": "Her favourite colour is blue.",
        "dog": "Her dog is called Bruno.",
        "err": "Ticket ERR-4711 is about the printer.",
    }.items():
        await memory.store(key, text)
    assert (await memory.retrieve("where is her home"))[0].key == "city"
    assert (await memory.retrieve("4711"))[0].key == "err"
    assert (await memory.retrieve("is ticket 4711"))[0].key == "err"
