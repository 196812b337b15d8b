"""A batch is stored once, and its result known, whatever happens to its connection."""

import asyncio

import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.storage.base import (
    Batch,
    DocumentWrite,
    MessageSettle,
    NewSession,
    QueuePut,
    SessionOpening,
    Written,
)
from ekiden.storage.postgres import PostgresStore, database
from tests.support.proxy import Proxy
from tests.support.sql import execute, until_blocked


def batch(number: int) -> Batch:
    """The n-th of batches in which everything may be written once only."""
    name = f"n{number}"
    return Batch(
        documents=[DocumentWrite(collection="c", key="k", body=1, expected_version=number)],
        messages=[QueuePut(queue="q", body=1), QueuePut(queue="q", body=1, key=name)],
        settles=[MessageSettle(key=name, state="answered")],
        openings=[SessionOpening(new=NewSession(id=name, agent="a", status="waiting"))],
        wakes=[name, "s"],
        events=[Event(session_id="", seq=0, type="inbox", at_us=1)],
    )


async def check(store: PostgresStore, count: int) -> None:
    """So many batches are stored, each once."""
    document = await store.get_document("c", "k")
    assert document is not None
    assert document.version == count
    assert await store.queue_depth("q") == count
    assert (await store.get("s")).wakes == count
    assert len(await store.events("")) == count
    assert len((await store.list(limit=100)).sessions) == count + 1


def check_written(written: Written) -> None:
    assert [receipt.is_new for receipt in written.receipts] == [True, True]
    assert len({receipt.id for receipt in written.receipts}) == 2
    assert list(written.settled) == ["settled"]


async def warmed_up(far: PostgresStore, near: PostgresStore, proxy: Proxy) -> int:
    """Write three batches; how many requests it takes once all statements were used."""
    await near.create(NewSession(id="s", agent="a"))
    for number in range(2):
        check_written(await far.write(batch(number)))
    before = proxy.requests
    check_written(await far.write(batch(2)))
    return proxy.requests - before


async def test_a_batch_is_stored_once_although_any_answer_is_lost(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    answers = await warmed_up(far, near, proxy)
    for passing in range(answers):
        check_written(await far.write(batch(3 + 2 * passing)))
        # The connection is one on which all statements were used: each has one answer.
        proxy.strike("lose_answer", after=passing)
        check_written(await far.write(batch(4 + 2 * passing)))
        assert proxy.struck.is_set()
    await check(near, 3 + 2 * answers)


async def test_a_repeated_batch_waits_for_the_first_attempt(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, postgres_url: str
) -> None:
    """The request to commit is on its way when its sender believes the connection to be lost."""
    requests = await warmed_up(far, near, proxy)
    proxy.strike("hold_request", after=requests - 1)
    writing = asyncio.create_task(far.write(batch(3)))
    await proxy.struck.wait()
    await until_blocked(postgres_url)
    await proxy.deliver()
    check_written(await writing)
    await check(near, 4)


async def test_a_batch_without_results_is_stored_once(
    far: PostgresStore, near: PostgresStore, proxy: Proxy
) -> None:
    write = DocumentWrite(collection="c", key="k", body=1)
    await far.write(Batch(documents=[write]))
    before = proxy.requests
    await far.write(Batch(documents=[write]))
    proxy.strike("lose_answer", after=proxy.requests - before - 1)
    assert await far.write(Batch(documents=[write])) == Written()
    assert proxy.struck.is_set()
    document = await near.get_document("c", "k")
    assert document is not None
    assert document.version == 3


async def test_an_unreachable_database_leaves_the_outcome_unknown(
    far: PostgresStore, near: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SETTLE_S", 0.05)
    await near.create(NewSession(id="s", agent="a"))
    await far.write(batch(0))
    proxy.strike("lose_answer")
    await proxy.close_port()
    with pytest.raises(StoreUnavailable, match="not known: read the stored data"):
        await far.write(batch(1))
    await check(near, 1)


async def test_a_database_that_was_never_reached_is_reported_as_unreachable(
    unused_tcp_port: int,
) -> None:
    store = PostgresStore(f"postgresql://me@127.0.0.1:{unused_tcp_port}/relay")
    with pytest.raises(StoreUnavailable, match="cannot reach"):
        await store.write(Batch(wakes=["s"]))


async def test_old_write_tokens_are_removed(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    for _ in range(3):
        await postgres_store.write(Batch())
    await execute(postgres_url, "update writes set written_at = written_at - interval '2 hours'")
    assert await postgres_store.write(Batch()) == Written()
    assert await execute(postgres_url, "select count(*) from writes") == [(1,)]
