"""Commits of many sessions at once are stored together, and each as if it were alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import pytest

from ekiden.core.errors import LeaseLost, StepConflict, StoreUnavailable, UserError
from ekiden.core.events import Event
from ekiden.storage.base import Claim, Commit, NewSession, SessionPatch
from ekiden.storage.postgres import PostgresStore, group_commit
from ekiden.storage.postgres.database import ConnectionLost
from ekiden.storage.postgres.group_commit import CommitArguments, CommitGroups
from ekiden.storage.postgres.rows import EVENT
from tests.support.proxy import Proxy
from tests.support.sql import connect, execute

MANY = 24
LANES = range(group_commit._LANES)


@asynccontextmanager
async def another(url: str) -> AsyncIterator[Any]:
    """A connection that is not the store's."""
    connection = await connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def claims(store: PostgresStore, count: int = MANY) -> list[Claim]:
    found = []
    for number in range(count):
        new = NewSession(id=f"s{number}", agent="a")
        claim, _ = await store.claim(new.id, owner="me", lease_s=60, create=new)
        found.append(claim)
    return found


def step(claim: Claim, seq: int = 1, **steps: Any) -> Commit:
    event = Event(session_id=claim.session_id, seq=seq, type="message", at_us=seq, agent="a")
    return Commit(patch=SessionPatch(cursor={"n": seq}), events=[event], steps=steps)


async def transactions(url: str) -> int:
    """How many transactions wrote the events."""
    async with another(url) as connection:
        number: int = await connection.fetchval("select count(distinct xid) from events")
        return number


async def test_many_sessions_share_transactions_and_keep_their_events(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    mine = await claims(postgres_store)
    for seq in (1, 2):
        await asyncio.gather(*(postgres_store.commit(each, step(each, seq)) for each in mine))
    assert await transactions(postgres_url) < 2 * MANY
    for claim in mine:
        assert [each.seq for each in await postgres_store.events(claim.session_id)] == [1, 2]
        assert (await postgres_store.get(claim.session_id)).cursor == {"n": 2}


async def test_a_session_that_lost_its_lease_is_refused_and_the_others_are_stored(
    postgres_store: PostgresStore,
) -> None:
    mine = await claims(postgres_store)
    gone = mine[MANY // 2]
    await postgres_store.release(gone)
    await postgres_store.claim(gone.session_id, owner="another", lease_s=60)
    results = await asyncio.gather(
        *(postgres_store.commit(each, step(each)) for each in mine), return_exceptions=True
    )
    assert [type(each) for each in results if each is not None] == [LeaseLost]
    lengths = [len(await postgres_store.events(each.session_id)) for each in mine]
    assert lengths == [0 if each is gone else 1 for each in mine]


async def test_a_duplicate_step_refuses_no_other_commit(
    postgres_store: PostgresStore,
) -> None:
    mine = await claims(postgres_store)
    await postgres_store.commit(mine[-1], step(mine[-1], 1, paid=True))
    seqs = [1] * (MANY - 1) + [2]
    results = await asyncio.gather(
        *(
            postgres_store.commit(each, step(each, seq, paid=True))
            for each, seq in zip(mine, seqs, strict=True)
        ),
        return_exceptions=True,
    )
    assert [type(each) for each in results if each is not None] == [StepConflict]
    for claim in mine:
        assert len(await postgres_store.events(claim.session_id)) == 1
        assert await postgres_store.steps(claim.session_id) == {"paid": True}


async def test_a_locked_session_does_not_delay_the_others(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    mine = await claims(postgres_store)
    locked = mine[-1]
    async with another(postgres_url) as other:
        async with other.transaction():
            sql = "select from sessions where id = $1 for update"
            await other.execute(sql, locked.session_id)
            waits = asyncio.create_task(postgres_store.commit(locked, step(locked)))
            await asyncio.gather(*(postgres_store.commit(each, step(each)) for each in mine[:-1]))
            assert not waits.done()
        await waits
    assert len(await postgres_store.events(locked.session_id)) == 1


@asynccontextmanager
async def held_up(store: PostgresStore) -> AsyncIterator[Callable[..., asyncio.Task[None]]]:
    """Commits that are begun in the body with what it is given go together at the end of it."""
    commits = store._commit_groups
    commits._loop = asyncio.get_running_loop()
    with patch.object(group_commit, "_LANE_TIMEOUT_S", 600.0):
        lanes = [commits._take_lane(commits._loop) for _ in LANES]
    begun: list[asyncio.Task[None]] = []

    def begin(claim: Claim, commit: Commit) -> asyncio.Task[None]:
        begun.append(asyncio.create_task(store.commit(claim, commit)))
        return begun[-1]

    yield begin
    await asyncio.sleep(0)
    assert len(commits._waiting) == len(begun)
    for give_back in lanes:
        give_back()


async def test_an_old_claim_is_refused_beside_the_new_claim_of_its_session(
    postgres_store: PostgresStore,
) -> None:
    store = postgres_store
    other, old = await claims(store, 2)
    await store.release(old)
    new, _ = await store.claim(old.session_id, owner="me", lease_s=60)
    async with held_up(store) as begin:
        tasks = [
            begin(other, step(other)),
            begin(old, step(old, paid="old")),
            begin(new, step(new, paid="new")),
        ]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [type(None), LeaseLost, type(None)]
    assert await store.steps(old.session_id) == {"paid": "new"}
    assert len(await store.events(old.session_id)) == 1


async def test_all_acknowledged_commits_of_one_claim_are_stored(
    postgres_store: PostgresStore,
) -> None:
    [claim] = await claims(postgres_store, 1)
    async with held_up(postgres_store) as begin:
        tasks = [
            begin(claim, Commit(patch=SessionPatch(), steps={f"k{number}": number}))
            for number in range(5)
        ]
    await asyncio.gather(*tasks)
    assert await postgres_store.steps("s0") == {f"k{number}": number for number in range(5)}


async def test_of_commits_with_one_event_number_one_is_stored(
    postgres_store: PostgresStore,
) -> None:
    [claim] = await claims(postgres_store, 1)
    async with held_up(postgres_store) as begin:
        tasks = [begin(claim, step(claim, at=number)) for number in range(4)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results if each is not None] == [StepConflict] * 3
    [stored] = [number for number, each in enumerate(results) if each is None]
    assert await postgres_store.steps("s0") == {"at": stored}


PATCHES = [
    SessionPatch(),
    SessionPatch(status="waiting"),
    SessionPatch(status="ready", agent="b", variables={"a": "\x00é"}),
    SessionPatch(status="idle", outcome="done", cursor={"at": None}),
    SessionPatch(outcome=""),
]
COLUMNS = """
    select agent, status, outcome, cursor, variables, seq, owner, epoch, wakes, priority,
        lease_until > clock_timestamp() as leased,
        round(extract(epoch from clock_timestamp() - ready_at) / 200) as ready,
        round(extract(epoch from clock_timestamp() - updated_at) / 200) as updated
    from sessions order by num"""
STORED = [
    COLUMNS,
    f"select session, {EVENT} from events order by session, seq",
    "select session, key, result from steps order by session, key",
]


EARLIER = """
    update sessions set wakes = 1, outcome = 'x', priority = 1 + num % 4,
        status = case num % 2 when 0 then 'ready' else 'idle' end,
        ready_at = clock_timestamp() - interval '1000 s'"""


def varied(place: int, claim: Claim, *, release: bool, seen_wakes: int | None) -> Commit:
    """A commit with up to two events and three steps."""
    return Commit(
        patch=PATCHES[place % len(PATCHES)],
        events=[event for seq in range(1, 1 + place % 3) for event in step(claim, seq).events],
        steps={f"k{number}": claim.session_id for number in range(place % 4)},
        release=release,
        seen_wakes=seen_wakes,
    )


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("seen_wakes", [None, 0, 1])
async def test_grouped_commits_store_the_same_as_single_commits(
    postgres_store: PostgresStore, postgres_url: str, release: bool, seen_wakes: int | None
) -> None:
    store = postgres_store
    left = []
    for together in (False, True):
        await execute(postgres_url, "truncate sessions, events, steps restart identity")
        mine = await claims(store, 2 * len(PATCHES))
        await execute(postgres_url, EARLIER)
        commits = [
            varied(place, claim, release=release, seen_wakes=seen_wakes)
            for place, claim in enumerate(mine)
        ]
        if together:
            async with held_up(store) as begin:
                tasks = [begin(*each) for each in zip(mine, commits, strict=True)]
            await asyncio.gather(*tasks)
            assert await transactions(postgres_url) == 1
        else:
            for claim, commit in zip(mine, commits, strict=True):
                await store.commit(claim, commit)
        async with another(postgres_url) as other:
            left.append([list(map(tuple, await other.fetch(sql))) for sql in STORED])
    alone, at_once = left
    assert alone == at_once
    assert [len(rows) for rows in alone] == [10, 9, 13]


async def test_locked_sessions_do_not_stop_the_commit_groups(
    postgres_store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_LANE_TIMEOUT_S", 600.0)
    mine = await claims(postgres_store)
    locked, free = mine[: group_commit._LANES + 1], mine[group_commit._LANES + 1 :]
    async with another(postgres_url) as other:
        async with other.transaction():
            sql = "select from sessions where id = any($1) for update"
            await other.execute(sql, [each.session_id for each in locked])
            waiting = [
                asyncio.create_task(postgres_store.commit(each, step(each))) for each in locked
            ]
            await asyncio.sleep(0)
            async with asyncio.timeout(60):
                await asyncio.gather(*(postgres_store.commit(each, step(each)) for each in free))
            assert not any(each.done() for each in waiting)
        await asyncio.gather(*waiting)


@pytest.mark.parametrize("together", [False, True])
async def test_a_silent_connection_delays_a_commit_and_locks_no_session(
    postgres_url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    for name in (
        "commits.ANSWER_S",
        "group_commit.ANSWER_S",
        "database._RELEASE_S",
    ):
        monkeypatch.setattr(f"ekiden.storage.postgres.{name}", 0.2)
    async with PostgresStore(proxy.url(postgres_url), max_size=2) as store:
        monkeypatch.setattr(store._changes, "changed", lambda topics=(): None)
        mine = await claims(store, 6 if together else 1)
        for seq in (1, 2):
            # The first of them prepares the statement, which is a request of its own.
            if seq == 2:
                proxy.strike("fall_silent")
            if together:
                async with held_up(store) as begin:
                    tasks = [begin(each, step(each, seq)) for each in mine]
            else:
                tasks = [asyncio.create_task(store.commit(each, step(each, seq))) for each in mine]
            if seq == 2:
                await proxy.struck.wait()
                async with another(postgres_url) as other:
                    sql = "select count(*) from (select from sessions for update skip locked) as s"
                    assert await other.fetchval(sql) == len(mine)
            async with asyncio.timeout(60):
                await asyncio.gather(*tasks)
        for claim in mine:
            assert [each.seq for each in await store.events(claim.session_id)] == [1, 2]


async def never(waits: bool) -> bool:
    raise AssertionError("it is not tried alone")


def arguments(num: int) -> CommitArguments:
    return CommitArguments((num, 1, "me", 0, 1000 + num, *[None] * 10), [[] for _ in range(12)])


class Broken:
    """A database whose answers do not come."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.busy = asyncio.Event()

    def bind_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        raise self.failure

    async def slow(self, waits: bool) -> bool:
        await self.busy.wait()
        return True


async def two_behind(broken: Broken, alone: Callable[[bool], Awaitable[bool]]) -> list[Any]:
    """Two commits that go together because others are under way."""
    commits: Any = CommitGroups(broken)  # type: ignore[arg-type]  # it is no real one
    first = [asyncio.create_task(commits.store(arguments(n), broken.slow)) for n in LANES]
    await asyncio.sleep(0)
    behind = [asyncio.create_task(commits.store(arguments(10 + n), alone)) for n in range(2)]
    left = asyncio.create_task(commits.store(arguments(20), never))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    broken.busy.set()
    assert all(await asyncio.gather(*first))
    return await asyncio.gather(*behind, return_exceptions=True)


async def test_an_unknown_outcome_is_reported_to_every_commit_of_the_group() -> None:
    results = await two_behind(Broken(ConnectionLost("cut")), never)
    assert [type(each) for each in results] == [ConnectionLost, ConnectionLost]


async def test_after_a_failed_group_each_commit_is_tried_alone() -> None:
    waiting = []

    async def alone(waits: bool) -> bool:
        waiting.append(waits)
        return False

    assert await two_behind(Broken(StoreUnavailable("full")), alone) == [False, False]
    assert waiting == [True, True]


async def test_an_interrupted_group_reports_an_unknown_outcome() -> None:
    results = await two_behind(Broken(RuntimeError("off")), never)
    assert [type(each) for each in results] == [ConnectionLost, ConnectionLost]


async def test_a_group_without_an_answer_does_not_block_others_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "_LANE_TIMEOUT_S", 0.0)
    silent = Broken(StoreUnavailable("full"))

    async def alone(waits: bool) -> bool:
        return True

    commits: Any = CommitGroups(silent)  # type: ignore[arg-type]  # as above
    first = [asyncio.create_task(commits.store(arguments(n), silent.slow)) for n in LANES]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert await commits.store(arguments(10), alone)
    assert not any(each.done() for each in first)
    silent.busy.set()
    await asyncio.gather(*first)
    assert commits._busy_lanes == 0


def test_commit_groups_restart_in_the_next_event_loop() -> None:
    commits: Any = CommitGroups(Broken(RuntimeError()))  # type: ignore[arg-type]  # as above
    for _ in range(2):
        busy = Broken(RuntimeError())

        async def leave(busy: Broken = busy) -> None:
            tasks = [asyncio.create_task(commits.store(arguments(n), busy.slow)) for n in range(9)]
            await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)

        asyncio.run(leave())


async def test_a_call_from_another_event_loop_is_refused_without_side_effects(
    postgres_store: PostgresStore,
) -> None:
    mine = await claims(postgres_store, 3)

    def from_another() -> None:
        with pytest.raises(UserError, match="another event loop"):
            asyncio.run(postgres_store.commit(mine[0], step(mine[0])))

    async with held_up(postgres_store) as begin:
        tasks = [begin(each, step(each)) for each in mine]
        await asyncio.to_thread(from_another)
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("size", [1, 3])
async def test_the_connection_pool_stays_within_its_size(postgres_url: str, size: int) -> None:
    async with PostgresStore(postgres_url, max_size=size) as store:
        await asyncio.gather(*(store.create(NewSession(id=f"s{n}", agent="a")) for n in range(20)))
        sql = "select count(*) from pg_stat_activity where application_name = $1"
        name = f"ekiden:{store._database.address.schema}"
        async with another(postgres_url) as other:
            assert await other.fetchval(sql, name) <= size


async def test_an_unused_connection_is_closed(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(postgres_store.queue_depth("q") for _ in range(4)))
    kept = postgres_store._database._pool
    assert kept is not None
    assert len(kept._idle) > 1
    monkeypatch.setattr("ekiden.storage.postgres.database._IDLE_S", -1.0)
    kept._close_old()
    assert not kept._idle
    await asyncio.gather(*kept._closing)
    assert kept.pool.get_size() == 0
    assert await postgres_store.queue_depth("q") == 0


async def test_an_old_connection_is_not_reused(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres_store.queue_depth("q")
    kept = postgres_store._database._pool
    assert kept is not None
    old = [each.connection for each in kept._idle]
    monkeypatch.setattr("ekiden.storage.postgres.database._IDLE_S", -1.0)
    taken = await kept.take()
    assert taken not in old
    monkeypatch.setattr("ekiden.storage.postgres.database._AGE_S", -1.0)
    await kept.give_back(taken, is_sound=True)
    assert not kept._idle, "it was out of the pool for long"
    await asyncio.gather(*kept._closing)
    assert not kept._out_since
