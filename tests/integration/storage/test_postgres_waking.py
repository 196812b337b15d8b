"""Writers that wake each other's sessions never wait for each other, and lose no wake."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ekiden.storage.base import (
    Batch,
    Claim,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    NewSession,
    QueuePut,
    SessionPatch,
)
from ekiden.storage.postgres import PostgresStore
from ekiden.testing.contracts.base import claimed, event, step
from tests.support.sql import connect, execute, until_blocked

Act = Callable[[PostgresStore, Claim, Claim], Awaitable[object]]
SETTLE = MessageSettle(key="k", state="answered", answer=1)

ACTS: dict[str, Act] = {
    "commit that wakes": lambda store, low, high: store.commit(
        high, step(event(1, "high"), wakes=["low"])
    ),
    "commit that settles": lambda store, low, high: store.commit(
        high, step(event(1, "high"), settles=[SETTLE])
    ),
    "commit that does both": lambda store, low, high: store.commit(
        high, step(event(1, "high"), wakes=["low"], settles=[SETTLE])
    ),
    "batch": lambda store, low, high: store.write(Batch(wakes=["high", "low"])),
    "renewal": lambda store, low, high: store.renew([high, low]),
    "settlement": lambda store, low, high: store.settle_messages([SETTLE]),
    "settlements": lambda store, low, high: store.settle_messages(
        [SETTLE, MessageSettle(key="l", state="cancelled")]
    ),
    "expiry": lambda store, low, high: store.take_messages("q", owner="t", lease_s=30),
}


@pytest.mark.parametrize("act", ACTS)
async def test_rows_are_locked_in_one_order(
    postgres_store: PostgresStore, postgres_url: str, act: str
) -> None:
    """Sessions by number, and before messages: who waits for the first has none of the others."""
    low, high = await claimed(postgres_store, "low"), await claimed(postgres_store, "high")
    await postgres_store.put_messages(
        [
            QueuePut(queue="q", body=1, key="k", session_id="low", ttl_s=60),
            QueuePut(queue="q", body=1, key="l", session_id="high"),
        ]
    )
    if act == "expiry":
        await execute(postgres_url, "update messages set expires_at = created_at where key = 'k'")
    first, second = await connect(postgres_url), await connect(postgres_url)
    async with first.transaction():
        await first.execute("select from sessions where id = 'low' for update")
        acting = asyncio.ensure_future(ACTS[act](postgres_store, low, high))
        await until_blocked(postgres_url)
        async with second.transaction():
            await second.execute("select from sessions where id = 'high' for update nowait")
            await second.execute("select from messages where key = 'k' for update nowait")
    await acting
    await first.close()
    await second.close()


async def test_sessions_that_wake_each_other_lose_no_wake(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    names = ("a", "b", "c")
    claims = {name: await claimed(postgres_store, name) for name in names}
    async with PostgresStore(postgres_url) as other, asyncio.timeout(60):

        async def work(name: str) -> None:
            store = other if name == "b" else postgres_store
            others = [each for each in names if each != name]
            for seq in range(1, 11):
                await store.commit(claims[name], step(event(seq, name), wakes=others))
                await store.write(Batch(wakes=[*reversed(names), "nobody"]))

        await asyncio.gather(*map(work, names))
    assert [(await postgres_store.get(name)).wakes for name in names] == [50, 50, 50]


async def test_a_wake_during_a_suspend_is_not_lost(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    claim = await claimed(postgres_store)
    rival = await connect(postgres_url)
    async with rival.transaction():
        await rival.execute("update sessions set wakes = wakes + 1")
        suspend = step(patch=SessionPatch(status="waiting"), seen_wakes=0, release=True)
        suspending = asyncio.create_task(postgres_store.commit(claim, suspend))
        await until_blocked(postgres_url)
    await suspending
    await rival.close()
    row = await postgres_store.get("s")
    assert (row.status, row.wakes, row.owner) == ("ready", 1, None)
    assert await postgres_store.claim_next(owner="w", lease_s=30) is not None


async def test_a_woken_session_is_claimed_after_earlier_ready_sessions(
    postgres_store: PostgresStore,
) -> None:
    await postgres_store.create(NewSession(id="first", agent="a", status="waiting"))
    await postgres_store.create(NewSession(id="second", agent="a", status="ready"))
    await postgres_store.write(Batch(wakes=["first"]))
    taken = [await postgres_store.claim_next(owner="w", lease_s=30) for _ in range(2)]
    assert [each and each[0].session_id for each in taken] == ["second", "first"]


async def test_a_batch_aborted_by_a_database_deadlock_is_written_again(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    first, second = (DocumentWrite(collection="c", key=key, body=1) for key in "ab")
    await postgres_store.write_documents([first, second])
    rival = await connect(postgres_url)
    # The store's connection finds the deadlock, so it is the one that is undone.
    await rival.execute("set deadlock_timeout = '1h'")
    batch = Batch(documents=[first, second], messages=[QueuePut(queue="q", body=1, key="k")])
    async with rival.transaction():
        await rival.execute("update documents set body = '2' where key = 'b'")
        writing = asyncio.create_task(postgres_store.write(batch))
        await until_blocked(postgres_url)
        await rival.execute("update documents set body = '2' where key = 'a'")
    assert [receipt.is_new for receipt in (await writing).receipts] == [True]
    await rival.close()
    versions = [each.version for each in await postgres_store.list_documents("c")]
    assert versions == [2, 2]
    assert len(await postgres_store.find_messages(MessageFilter(keys=["k"]))) == 1
