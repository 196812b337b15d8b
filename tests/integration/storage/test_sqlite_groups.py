"""Group commit: many writes in one transaction, each with its own fate."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.core.errors import (
    LeaseLost,
    QueueFull,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    StaleDocument,
    StepConflict,
    UserError,
)
from ekiden.storage.base import Claim, Commit, DocumentWrite, NewSession, QueuePut, SessionPatch
from ekiden.storage.sqlite import SqliteStore
from tests.support.sqlite import one_event


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "ekiden.db") as store:
        yield store


async def claims(store: SqliteStore, count: int) -> list[Claim]:
    taken = await asyncio.gather(
        *(
            store.claim(
                f"s{number}",
                owner="w",
                lease_s=60,
                create=NewSession(id=f"s{number}", agent="a"),
            )
            for number in range(count)
        )
    )
    return [claim for claim, _ in taken]


async def test_every_invalid_commit_of_a_group_fails_and_the_others_succeed(
    store: SqliteStore,
) -> None:
    owned = await claims(store, 12)
    await store.commit(owned[1], one_event("s1", 1, steps={"k": 1}))
    await store.release(owned[2])
    stale = DocumentWrite(collection="c", key="k", body=1, expected_version=3)
    full = QueuePut(queue="q", body=1, bound=0)
    fates = await asyncio.gather(
        store.commit(owned[0], one_event("s0", 1)),
        store.commit(owned[1], one_event("s1", 1)),
        store.commit(owned[2], one_event("s2", 1)),
        store.commit(owned[3], one_event("s3", 1, documents=(stale,))),
        store.commit(owned[4], one_event("s4", 1, messages=(full,))),
        store.commit(owned[5], one_event("s5", 1)),
        store.create(NewSession(id="s0", agent="a")),
        store.claim("nobody", owner="w", lease_s=60),
        store.claim("s6", owner="v", lease_s=60),
        store.write_documents([DocumentWrite(collection="c", key="fine", body=1)]),
        store.create(NewSession(id="bad \ud800 text", agent="a")),
        store.put_messages([QueuePut(queue="q", body=1)]),
        store.commit(owned[7], one_event("s7", 1, steps={"k": 1})),
        return_exceptions=True,
    )
    assert [type(fate) for fate in fates] == [
        type(None),
        StepConflict,
        LeaseLost,
        StaleDocument,
        QueueFull,
        type(None),
        SessionExists,
        SessionNotFound,
        SessionBusy,
        type(None),
        UserError,
        list,
        type(None),
    ]
    counts = [len(await store.events(f"s{number}")) for number in range(8)]
    assert counts == [1, 1, 0, 0, 0, 1, 0, 1]
    assert await store.queue_depth("q") == 1
    assert [each.key for each in await store.list_documents("c")] == ["fine"]


async def test_commits_of_one_session_keep_their_order_within_a_group(store: SqliteStore) -> None:
    (claim,) = await claims(store, 1)
    await asyncio.gather(*(store.commit(claim, one_event("s0", seq)) for seq in range(1, 20)))
    assert [event.seq for event in await store.events("s0")] == list(range(1, 20))


async def test_a_group_may_exceed_the_size_of_a_statement(store: SqliteStore) -> None:
    owned = await claims(store, 300)
    await asyncio.gather(*(store.commit(claim, one_event(claim.session_id, 1)) for claim in owned))
    info = await store.info()
    assert (info["sessions"], info["events"]) == (300, 300)


async def test_a_session_may_have_more_events_than_a_page(store: SqliteStore) -> None:
    (claim,) = await claims(store, 1)
    events = [one_event("s0", seq).events[0] for seq in range(1, 5001)]
    await store.commit(claim, Commit(patch=SessionPatch(), events=events))
    assert [event.seq for event in await store.events("s0")] == list(range(1, 5001))
    page = await store.events("s0", after=10, limit=3000)
    assert [event.seq for event in page] == list(range(11, 3011))


async def test_a_cancelled_commit_does_not_affect_others(store: SqliteStore) -> None:
    owned = await claims(store, 10)
    tasks = [
        asyncio.ensure_future(store.commit(claim, one_event(claim.session_id, 1)))
        for claim in owned
    ]
    await asyncio.sleep(0)
    tasks[4].cancel()
    fates = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(fate) for fate in fates].count(type(None)) == 9
    assert isinstance(fates[4], asyncio.CancelledError)
    for number in (0, 3, 5, 9):
        assert len(await store.events(f"s{number}")) == 1


async def test_a_cancelled_claim_leaves_the_session_free(store: SqliteStore) -> None:
    for number in range(20):
        new = NewSession(id=f"s{number}", agent="a", status="ready")
        task = asyncio.create_task(store.claim(new.id, owner="w", lease_s=60, create=new))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))
    next_ones = [asyncio.create_task(store.claim_next(owner="w", lease_s=60)) for _ in range(20)]
    await asyncio.sleep(0)
    for next_one in next_ones:
        next_one.cancel()
    await asyncio.wait(next_ones)
    for number in range(20):
        await store.claim(f"s{number}", owner="v", lease_s=60)


async def test_a_commit_that_is_not_json_fails_before_it_reaches_the_group(
    store: SqliteStore,
) -> None:
    owned = await claims(store, 2)
    good = asyncio.ensure_future(store.commit(owned[1], one_event("s1", 1)))
    with pytest.raises(UserError):
        await store.commit(owned[0], one_event("s0", 1, steps={"k": object()}))
    await good
