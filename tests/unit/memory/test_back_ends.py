"""A back end gets copies, later if it must, and a run never waits or fails because of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.core.errors.memory import BackendUnavailable, UnknownBackend
from ekiden.core.profile import MemorySettings
from ekiden.embeddings.local import HashingEmbedder
from ekiden.memory import (
    BackendOptions,
    Memory,
    RemoteHit,
    backend,
    base,
    close_backends,
    known_backends,
    register_backend,
    remote_backend,
    used_backends,
)
from ekiden.memory.base import RemoteCopy, remote_copy_of
from ekiden.memory.outbox import announced, deliver, queue_of
from ekiden.storage.base import PutReceipt, QueueMessage, QueuePut, SearchEntry, Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock
from tests.unit.memory.conftest import Shelf

SHELVED = MemorySettings(type="vector", backend="shelf")
QUEUE = queue_of("shelf")


def memory_in(store: Store, user: str = "u", settings: MemorySettings = SHELVED) -> Memory:
    return Memory(store, user=user, settings=settings, embedder=HashingEmbedder(64))


async def test_a_backend_gets_copies_of_entries_and_finds_them(store: Store, shelf: Shelf) -> None:
    memory = memory_in(store)
    await memory.store("colour", "Her favourite is blue.", {"n": 1})
    [copies] = shelf.spaces.values()
    entry = copies["colour"]
    assert (entry.text, entry.metadata, entry.model) == (
        "Her favourite is blue.",
        {"n": 1},
        "hashing-1/64",
    )
    assert entry.version > 0
    [found] = await memory.retrieve("favourite blue")
    assert found.key == "colour"
    assert shelf.calls[-1] == "search"
    assert await store.queue_depth(QUEUE) == 0
    await memory.forget("colour")
    assert shelf.keys() == []
    await memory.store("a", "one")
    await memory.store("b", "two")
    assert await memory.clear() == 2
    assert shelf.keys() == []
    assert await used_backends(store) == ["shelf"]


async def test_a_backend_added_later_gets_earlier_entries(store: Store, shelf: Shelf) -> None:
    plain = memory_in(store, settings=MemorySettings(type="vector"))
    for number in range(120):
        await plain.store(f"k{number:03}", f"word{number}")
    memory = memory_in(store)
    await memory.retrieve("word7")
    delivery = await memory.deliver()
    assert (delivery.waiting, delivery.problem) == (0, None)
    assert len(shelf.keys()) == 120
    [found, *_] = await memory.retrieve("word7")
    assert found.key == "k007"
    assert shelf.calls[-1] == "search"


async def test_during_an_outage_of_the_backend_memory_works_locally(
    store: Store, shelf: Shelf
) -> None:
    memory = memory_in(store)
    await memory.store("old", "an old thing")
    shelf.is_disconnected = True
    await memory.store("colour", "Her favourite is blue.")
    assert await memory.forget("old") is True
    answer = await memory.recall("favourite")
    assert [each.key for each in answer.found] == ["colour"]
    assert answer.notes == ["shelf is not available now: the local copy was searched."]
    assert shelf.keys() == ["old"]
    assert await store.queue_depth(QUEUE) == 2
    delivery = await memory.deliver()
    assert (delivery.delivered, delivery.waiting) == (0, 2)


async def test_a_backend_gets_missed_changes_after_an_outage(shelf: Shelf) -> None:
    clock = ManualClock()
    async with MemoryStore(clock=clock) as store:
        memory = memory_in(store)
        await memory.store("old", "an old thing")
        shelf.is_disconnected = True
        await memory.store("colour", "Her favourite is blue.")
        await memory.forget("old")
        await memory.deliver()
        shelf.is_disconnected = False
        assert (await memory.deliver()).delivered == 0
        clock.advance(11)
        delivery = await memory.deliver()
    assert (delivery.delivered, delivery.waiting, delivery.problem) == (2, 0, None)
    assert shelf.keys() == ["colour"]


async def test_a_failed_backend_is_not_called_for_a_while(quick_store: Store, shelf: Shelf) -> None:
    memory = memory_in(quick_store)
    await memory.store("a", "one")
    shelf.is_disconnected = True
    shelf.calls.clear()
    for number in range(5):
        await memory.store(f"k{number}", "text")
        await memory.retrieve("text")
    assert len(shelf.calls) == 1


async def test_the_backend_pause_grows_and_ends_with_a_success(shelf: Shelf) -> None:
    clock = ManualClock()
    mirror = RemoteCopy(shelf, clock=clock)
    shelf.is_disconnected = True
    pauses = []
    for _ in range(9):
        with pytest.raises(BackendUnavailable):
            await mirror.delete("s", ["k"])
        waited = 0
        while mirror.is_resting:
            clock.advance(5)
            waited += 5
        pauses.append(waited)
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    shelf.is_disconnected = False
    await mirror.delete("s", ["k"])
    assert not mirror.is_resting


async def test_a_backend_that_does_not_answer_times_out(
    quick_store: Store, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "SEARCH_TIMEOUT_S", 0.01)
    memory = memory_in(quick_store)
    await memory.store("k", "text")

    async def never(*args: Any, **options: Any) -> Sequence[RemoteHit]:
        await asyncio.Event().wait()
        return ()

    monkeypatch.setattr(shelf, "search", never)
    answer = await memory.recall("text")
    assert [each.key for each in answer.found] == ["k"]
    assert answer.notes


async def test_any_exception_of_a_backend_is_tolerated(
    quick_store: Store, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: Any, **options: Any) -> Sequence[RemoteHit]:
        raise ZeroDivisionError

    memory = memory_in(quick_store)
    await memory.store("k", "text")
    monkeypatch.setattr(shelf, "search", broken)
    assert [each.key for each in await memory.retrieve("text")] == ["k"]


async def test_a_refused_entry_does_not_block_others(quick_store: Store, shelf: Shelf) -> None:
    plain = memory_in(quick_store, settings=MemorySettings(type="vector"))
    for key in ("a", "bad", "c"):
        await plain.store(key, f"text {key}")
    shelf.refused = {"bad"}
    await quick_store.put_messages(
        [
            QueuePut(queue=QUEUE, body={"space": plain.space, "key": key})
            for key in "a bad c".split()
        ]
    )
    delivery = await deliver(quick_store, remote_copy_of(shelf), model="hashing-1/64")
    assert shelf.keys() == ["a", "c"]
    assert (delivery.delivered, delivery.waiting) == (2, 1)
    assert "bad is refused" in str(delivery.problem)
    assert not remote_copy_of(shelf).is_resting


async def test_an_entry_changed_during_its_delivery_is_delivered_again(
    quick_store: Store, shelf: Shelf
) -> None:
    memory = memory_in(quick_store)
    plain = Memory(
        quick_store, user="u", settings=MemorySettings(type="vector"), embedder=HashingEmbedder(64)
    )
    await memory.store("k", "first")

    async def meanwhile() -> None:
        entries = await quick_store.find_entries(plain.space)
        await quick_store.delete_entries(plain.space, keys=[entries[0].key])

    shelf.before_upsert = meanwhile
    await memory.store("k", "second")
    assert shelf.keys() == []


async def test_a_crash_between_announcing_and_storing_keeps_the_stored_entry(
    quick_store: Store, shelf: Shelf
) -> None:
    memory = memory_in(quick_store)
    await memory.store("k", "text")
    await quick_store.put_messages(
        [QueuePut(queue=QUEUE, body={"space": memory.space, "key": each}) for each in ("k", "x")]
    )
    shelf.spaces.clear()
    mirror = remote_copy_of(shelf)
    delivery = await deliver(quick_store, mirror, model="hashing-1/64")
    assert delivery.delivered == 2
    assert shelf.keys() == ["k"]


class Death(BaseException):
    """The process ends here."""


class DyingStore(MemoryStore):
    """Dies when it was used for messages `left` times more."""

    left = -1

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        self._live()
        return await super().put_messages(messages)

    async def ack_message(self, message: QueueMessage) -> bool:
        self._live()
        return await super().ack_message(message)

    def _live(self) -> None:
        if self.left == 0:
            raise Death
        self.left -= 1


@pytest.mark.parametrize("left", [0, 1])
async def test_a_crash_while_announcing_a_change_leaves_a_queued_message(
    shelf: Shelf, left: int
) -> None:
    store = DyingStore()
    memory = memory_in(store)
    await memory.store("k", "text")
    assert await store.queue_depth(QUEUE) == 0
    with pytest.raises(Death):
        async with announced(store, ["shelf"], memory.space, ["k"]):
            store.left = left
    assert await store.queue_depth(QUEUE) >= 1


class DyingVectorStore(MemoryStore):
    """Dies after it has stored vectors with `put_vectors`."""

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        await super().put_vectors(entries)
        raise Death


async def test_a_crash_after_storing_new_vectors_does_not_lose_the_copy(shelf: Shelf) -> None:
    store = DyingVectorStore()
    memory = memory_in(store)
    await memory.store("a", "one")
    await memory_in(store, settings=MemorySettings()).store("k", "text")
    await memory.deliver()
    assert shelf.keys() == ["a"]
    with pytest.raises(Death):
        await memory.retrieve("text")
    await memory.deliver()
    assert shelf.keys() == ["a", "k"]


async def test_deletion_reaches_a_backend_not_configured_for_the_caller(
    quick_store: Store, shelf: Shelf
) -> None:
    await memory_in(quick_store).store("k", "text")
    await Memory(quick_store, user="u").forget("k")
    assert shelf.keys() == ["k"]
    assert await memory_in(quick_store).retrieve("text") == []
    assert shelf.keys() == []


async def test_memory_of_type_words_uses_no_backend(quick_store: Store, shelf: Shelf) -> None:
    memory = memory_in(quick_store, settings=MemorySettings(backend="shelf"))
    await memory.store("k", "text")
    assert [each.key for each in await memory.retrieve("text")] == ["k"]
    assert (await memory.deliver()).delivered == 0
    assert shelf.calls == []


async def test_an_unknown_backend_is_refused(quick_store: Store) -> None:
    settings = MemorySettings(type="vector", backend="pinecon")
    memory = memory_in(quick_store, settings=settings)
    with pytest.raises(UnknownBackend, match="pinecone"):
        await memory.store("k", "text")
    assert await memory.list() == []


def test_a_backend_is_created_once_for_a_dimension() -> None:
    made: list[BackendOptions] = []

    def factory(options: BackendOptions) -> Shelf:
        made.append(options)
        return Shelf()

    register_backend("counted", factory)
    assert backend("counted", dimensions=3) is backend("counted", dimensions=3)
    assert backend("counted", dimensions=4) is not backend("counted", dimensions=3)
    assert [each.dimensions for each in made] == [3, 4]
    register_backend("counted", factory)
    backend("counted", dimensions=3)
    assert len(made) == 3
    assert {"pinecone", "counted", "store"} <= set(known_backends())


@pytest.mark.parametrize("name", [None, "store", "sqlite", "pgvector"])
def test_some_backend_names_mean_the_store_itself(name: str | None) -> None:
    assert remote_backend(name) is None
    assert remote_backend("pinecone") == "pinecone"


async def test_all_backends_are_closed_although_one_raises(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("shelf")
        raise OSError("gone already")

    monkeypatch.setattr(shelf, "close", close)
    backend("shelf", dimensions=5)
    await close_backends()
    assert closed == ["shelf"]
    assert "gone already" in caplog.text
