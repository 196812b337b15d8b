"""Timers: documents in the order of their times."""

from __future__ import annotations

from ekiden.storage.base import DocumentWrite
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import (
    TIMERS,
    Timer,
    due_timers,
    next_due_us,
    remove_timer,
    timer_removal,
    timer_write,
)


def timer(due_us: int, kind: str = "inbox", about: str = "x/y") -> Timer:
    return Timer(due_us=due_us, kind=kind, id=about)


async def ids(store: MemoryStore, now_us: int, **options: object) -> list[tuple[int, str, str]]:
    found = await due_timers(store, now_us=now_us, **options)  # type: ignore[arg-type]
    return [(each.due_us, each.kind, each.id) for each in found]


async def test_due_timers_are_returned_in_order_and_later_ones_are_not() -> None:
    store = MemoryStore()
    await store.write_documents([timer_write(timer(at)) for at in (300, 100, 200)])
    assert await next_due_us(store) == 100
    assert await ids(store, 200) == [(100, "inbox", "x/y"), (200, "inbox", "x/y")]
    await store.write_documents([timer_removal(timer(100))])
    assert await next_due_us(store) == 200


async def test_timers_of_other_kinds_do_not_fill_the_page() -> None:
    store = MemoryStore()
    await store.write_documents([timer_write(timer(at, "query", str(at))) for at in range(50)])
    await store.write_documents([timer_write(timer(60, "inbox", "i"))])
    assert await ids(store, 100, kind="inbox", limit=7) == [(60, "inbox", "i")]
    assert len(await ids(store, 100, kind="query", limit=7)) == 7


async def test_a_timer_is_removed_by_one_process_only() -> None:
    store = MemoryStore()
    await store.write_documents([timer_write(timer(1))])
    [found] = await due_timers(store, now_us=5)
    assert [await remove_timer(store, found), await remove_timer(store, found)] == [True, False]
    assert await next_due_us(store) is None


async def test_an_invalid_timer_document_is_ignored() -> None:
    store = MemoryStore()
    for key in ("", "0garbage", "1/kind", "x/inbox/i", "٣/inbox/i"):
        await store.write_documents([DocumentWrite(collection=TIMERS, key=key, body=1)])
    await store.write_documents([timer_write(timer(7))])
    assert await next_due_us(store) == 7
    assert await ids(store, 10, limit=2) == [(7, "inbox", "x/y")]
