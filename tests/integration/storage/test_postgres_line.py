"""Taking the next session of many costs what it is worth, whatever others have to do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import Commit, NewSession, SessionFilter, SessionPatch
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.sessions import TAKE_NEXT_OF
from tests.support.sql import execute

FILL = """
insert into sessions (id, agent, status, meta, ready_at)
select 's' || n, 'a' || n % 50, case when n % 2 = 0 then 'ready' else 'waiting' end, '{}',
    clock_timestamp() - (10000 - n) * interval '1 ms'
from generate_series(1, 4000) as n"""
READY = 2000
HOLD = """
update sessions set owner = 'them', lease_until = clock_timestamp() + interval '1 hour',
    lapses_at = clock_timestamp() + interval '1 hour'
where num in (select num from sessions where status = 'ready' order by ready_at limit $1)"""
RELEASED = Commit(patch=SessionPatch(), release=True)


@pytest.fixture
async def busy(postgres_store: PostgresStore, postgres_url: str) -> PostgresStore:
    """A store with many sessions that are ready or wait, of 50 agents."""
    await execute(postgres_url, FILL)
    await execute(postgres_url, "analyze sessions")
    return postgres_store


async def rows_read(store: PostgresStore, agents: list[str]) -> int:
    """How many rows the store looks at, in the plan for any agents, to take one of these'."""

    async def work(connection: Any) -> Any:
        await connection.execute("begin")
        await connection.execute("set local plan_cache_mode = force_generic_plan")
        try:
            explain = f"explain (analyze, format json) {TAKE_NEXT_OF}"
            return await connection.fetchval(explain, "me", 30.0, 1, agents)
        finally:
            await connection.execute("rollback")

    [found] = json.loads(await store._database.run(work))
    return _rows(found["Plan"])


def _rows(plan: dict[str, Any]) -> int:
    """Rows that scans of the sessions gave or left out, over all loops."""
    looked_at = 0
    if plan["Node Type"].endswith("Scan") and plan.get("Relation Name") == "sessions":
        each = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        looked_at = round(each * plan["Actual Loops"])
    return looked_at + sum(map(_rows, plan.get("Plans", ())))


async def test_claiming_for_agents_without_sessions_reads_no_rows(busy: PostgresStore) -> None:
    assert await rows_read(busy, ["nobody", "nobody else"]) == 0


async def test_claiming_for_many_agents_reads_few_rows(busy: PostgresStore) -> None:
    assert await rows_read(busy, [f"a{number}" for number in range(50)]) < 10


async def test_claiming_reads_no_rows_of_claimed_sessions(
    busy: PostgresStore, postgres_url: str
) -> None:
    agents = [f"a{number}" for number in range(50)]
    await execute(postgres_url, HOLD, READY - 1)
    for _ in range(2):
        assert await rows_read(busy, agents) < 10
        await execute(postgres_url, "analyze sessions")
    last = await busy.claim_next(owner="me", lease_s=30, agents=agents)
    assert last is not None
    assert last[1].id == f"s{2 * READY}"
    assert await rows_read(busy, agents) <= 1, "the lease that runs out next"


async def test_each_session_with_a_possibly_expired_lease_is_checked(
    busy: PostgresStore, postgres_url: str
) -> None:
    await execute(postgres_url, HOLD, READY)
    await execute(
        postgres_url,
        "update sessions set lapses_at = '-infinity' where num % 400 = 0;",
    )
    await execute(
        postgres_url,
        "update sessions set lease_until = clock_timestamp() where num = 2000",
    )
    agents = [f"a{number}" for number in range(50)]
    assert 10 <= await rows_read(busy, agents) < 30
    found = await busy.claim_next(owner="me", lease_s=30, agents=agents)
    assert found is not None
    assert found[1].id == "s2000"
    assert await busy.claim_next(owner="me", lease_s=30, agents=agents) is None


async def lapses(url: str) -> Any:
    [(moment,)] = await execute(url, "select lapses_at from sessions where id = 's'")
    return moment


async def back(url: str, seconds: float) -> None:
    """Let the time pass in which a lease lives."""
    for column in ("lease_until", "lapses_at"):
        change = f"update sessions set {column} = {column} - $1 * interval '1 second'"
        await execute(url, change, seconds)


async def test_a_commit_or_renewal_rarely_changes_an_index(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    store = postgres_store
    new = NewSession(id="s", agent="a", status="ready")
    claim, _ = await store.claim("s", owner="me", lease_s=60, create=new)
    commit = Commit(patch=SessionPatch(), steps={})
    for prolong in (lambda: store.commit(claim, commit), lambda: store.renew([claim])):
        first = await lapses(postgres_url)
        for _ in range(3):
            await prolong()
        assert await lapses(postgres_url) == first
        await back(postgres_url, 40)
        await prolong()
        assert await lapses(postgres_url) > first


OLD_CLAIM = """
update sessions set epoch = epoch + 1, owner = 'old',
    lease_until = clock_timestamp() + $1 * interval '1 second'
where id = 's' returning id"""
"""As a process of format 5 has it."""


async def test_a_session_of_a_process_of_the_previous_format_is_taken_after_its_lease(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    store = postgres_store
    await store.create(NewSession(id="s", agent="a", status="ready"))
    for give_up in (store.release, lambda claim: store.commit(claim, RELEASED)):
        found = await store.claim_next(owner="me", lease_s=3600)
        assert found is not None
        await give_up(found[0])
        await execute(postgres_url, OLD_CLAIM, 3600.0)
        assert await store.claim_next(owner="me", lease_s=30) is None
        await execute(postgres_url, OLD_CLAIM, 0.0)
        again = await store.claim_next(owner="me", lease_s=30)
        assert again is not None
        await store.release(again[0])


async def held(store: PostgresStore) -> int:
    """How many sessions are claimed when all that was begun is done."""
    while tasks := store._claim_queue._tasks:
        await asyncio.wait(tasks)
    rows = await store.list(SessionFilter(status="ready"), limit=2 * READY)
    return sum(row.owner is not None for row in rows.sessions)


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancelled_claim_next_leaves_no_session_claimed(
    busy: PostgresStore, turns: int
) -> None:
    wanting = [
        asyncio.create_task(busy.claim_next(owner="me", lease_s=600), name=f"{number}")
        for number in range(4)
    ]
    for _ in range(turns):
        await asyncio.sleep(0)
    for each in wanting[::2]:
        each.cancel()
    results = await asyncio.gather(*wanting, return_exceptions=True)
    assert sum(isinstance(each, asyncio.CancelledError) for each in results) == 2
    assert await held(busy) == 2


async def test_a_claim_next_cancelled_after_claiming_releases_the_session(
    busy: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = busy._claim_queue._release

    async def cancel_first(*args: Any) -> None:
        wanting.cancel()
        await let_go(*args)

    monkeypatch.setattr(busy._claim_queue, "_release", cancel_first)
    wanting = asyncio.create_task(busy.claim_next(owner="me", lease_s=600))
    with pytest.raises(asyncio.CancelledError):
        await wanting
    assert await held(busy) == 0


async def test_all_concurrent_claim_next_calls_get_the_error(
    busy: PostgresStore, postgres_url: str
) -> None:
    await execute(postgres_url, "alter table sessions rename to elsewhere")
    asking = (busy.claim_next(owner="me", lease_s=30) for _ in range(3))
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in results] == [StoreUnavailable] * 3
    await execute(postgres_url, "alter table elsewhere rename to sessions")
    assert await busy.claim_next(owner="me", lease_s=30) is not None


async def test_concurrent_claim_next_calls_claim_each_session_once(busy: PostgresStore) -> None:
    agents = [f"a{number}" for number in range(50)]

    async def take(owner: str) -> list[str]:
        found = [await busy.claim_next(owner=owner, lease_s=30, agents=agents) for _ in range(20)]
        return [each[1].id for each in found if each is not None]

    taken = await asyncio.gather(*(take(f"w{number}") for number in range(8)))
    names = [name for each in taken for name in each]
    assert sorted(names, key=lambda name: int(name[1:])) == [f"s{2 * n}" for n in range(1, 161)]
