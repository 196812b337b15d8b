"""A reader of the feed misses nothing, in whatever order transactions end."""

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.storage.base import Batch
from ekiden.storage.postgres import PostgresStore, journal
from ekiden.testing.contracts.base import claimed, event, step
from tests.support.sql import connect, execute, until_blocked

FREE = Event(session_id="", seq=0, type="inbox", at_us=7)
SAY = """
insert into events (session, seq, at_us, type)
select num, 1, 1, 'message' from sessions where id = $1"""


async def ids(store: PostgresStore, after: str | None = None) -> list[str]:
    return [each.event_id for each in (await store.feed(after=after)).events]


async def test_an_event_that_commits_late_is_shown_in_its_order(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    claim = await claimed(postgres_store, "quick")
    await claimed(postgres_store, "slow")
    slow = await connect(postgres_url)
    async with slow.transaction():
        await slow.execute(SAY, "slow")
        end = await postgres_store.feed_end()
        await postgres_store.commit(claim, step(event(1, "quick")))
        assert await ids(postgres_store) == []
        assert await postgres_store.feed_end() == end
    await slow.close()
    assert await ids(postgres_store) == ["slow/1", "quick/1"]
    assert await ids(postgres_store, end) == ["slow/1", "quick/1"]


async def test_events_before_a_slow_writer_are_shown_meanwhile(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    claim = await claimed(postgres_store, "quick")
    await claimed(postgres_store, "slow")
    await postgres_store.commit(claim, step(event(1, "quick")))
    slow = await connect(postgres_url)
    async with slow.transaction():
        await slow.execute(SAY, "slow")
        await postgres_store.commit(claim, step(event(2, "quick")))
        page = await postgres_store.feed()
        assert [each.event_id for each in page.events] == ["quick/1"]
        assert page.next_cursor == await postgres_store.feed_end()
    await slow.close()
    assert await ids(postgres_store, page.next_cursor) == ["slow/1", "quick/2"]


async def test_a_slow_writer_that_rolls_back_does_not_delay_the_feed(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    claim = await claimed(postgres_store, "quick")
    await claimed(postgres_store, "slow")
    slow = await connect(postgres_url)
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(SAY, "slow")
    await postgres_store.commit(claim, step(event(1, "quick")))
    await transaction.rollback()
    assert await ids(postgres_store) == ["quick/1"]
    await slow.close()


@pytest.mark.parametrize("kind", ["batch", "commit"])
async def test_writers_are_registered_before_they_write_events(
    postgres_store: PostgresStore, postgres_url: str, kind: str
) -> None:
    """They wait for the row of a session that they wake, and have their number by then."""
    own, quick = await claimed(postgres_store, "own"), await claimed(postgres_store, "quick")
    await claimed(postgres_store, "rival")
    rival = await connect(postgres_url)
    async with rival.transaction():
        await rival.execute("select from sessions where id = 'rival' for update")
        writing = asyncio.create_task(
            postgres_store.write(Batch(wakes=["own", "rival"], events=[FREE]))
            if kind == "batch"
            else postgres_store.commit(own, step(event(1, "own"), wakes=["rival"]))
        )
        await until_blocked(postgres_url)
        await postgres_store.commit(quick, step(event(1, "quick")))
        assert await ids(postgres_store) == []
    await writing
    await rival.close()
    first = "/1" if kind == "batch" else "own/1"
    assert await ids(postgres_store) == [first, "quick/1"]


@pytest.mark.parametrize(
    "work",
    ["create temporary table other (n integer)", "select pg_current_xact_id() from events"],
)
async def test_transactions_without_events_do_not_delay_the_feed(
    postgres_store: PostgresStore, postgres_url: str, work: str
) -> None:
    claim = await claimed(postgres_store)
    await postgres_store.commit(claim, step(event(1)))
    rival = await connect(postgres_url)
    async with rival.transaction():
        await rival.execute(work)
        await postgres_store.commit(claim, step(event(2)))
        assert await ids(postgres_store) == ["s/1", "s/2"]
        assert await ids(postgres_store, await postgres_store.feed_end()) == []
    await rival.close()


async def test_a_copy_on_a_new_server_shows_the_old_events_first(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        claim = await claimed(store, "b")
        await store.commit(claim, step(event(1, "b")))
        await store.commit(await claimed(store, "a"), step(event(1, "a")))
        await store.commit(claim, step(event(2, "b")))
    await execute(postgres_url, "update events set xid = xid + 1000000000000")
    stores = [PostgresStore(postgres_url) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    store = stores[0]
    await store.write(Batch(events=[FREE]))
    assert await ids(store) == ["b/1", "a/1", "b/2", "/1"]
    page = await store.feed(limit=2)
    assert await ids(store, page.next_cursor) == ["b/2", "/1"]
    (before,) = await execute(postgres_url, "select min(xid) from events")
    await store.close()
    await store.open()
    assert await execute(postgres_url, "select min(xid) from events") == [before]
    await asyncio.gather(*(store.close() for store in stores))


async def test_the_feed_is_read_in_index_order(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    await postgres_store.open()
    connection = await connect(postgres_url)
    # With tables as small as these the planner would rather read them whole.
    await connection.execute("set enable_seqscan = off; set enable_sort = off")
    await connection.execute("set enable_bitmapscan = off; set enable_hashjoin = off")

    async def plan(sql: str, *args: Any) -> str:
        return "\n".join(row[0] for row in await connection.fetch(f"explain {sql}", *args))

    for found in (await plan(journal._FEED, None, 5, 1, 1, 10), await plan(journal._END, 9)):
        assert "events_feed" in found
        assert "Sort" not in found
    await connection.close()


@pytest.mark.parametrize("cursor", ["", "x", "1", "1.2", "1.2.3\n", "1.-2.3", "١.2.3", "1.2." * 9])
async def test_an_invalid_cursor_of_the_feed_is_refused(
    postgres_store: PostgresStore, cursor: str
) -> None:
    with pytest.raises(UserError, match="not a cursor of the feed"):
        await postgres_store.feed(after=cursor)


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_is_refused(postgres_store: PostgresStore, limit: int) -> None:
    with pytest.raises(UserError, match="page"):
        await postgres_store.feed(limit=limit)
    with pytest.raises(UserError, match="page"):
        await postgres_store.find_messages(limit=limit)
