"""Taking the next session of many costs what it is worth, whatever others have to do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.leases import TAKE_NEXT_OF
from tests.support.sql import execute

FILL = """
insert into sessions (id, agent, status, meta, ready_at)
select 's' || n, 'a' || n % 50, case when n % 2 = 0 then 'ready' else 'waiting' end, '{}',
    clock_timestamp() - (10000 - n) * interval '1 ms'
from generate_series(1, 4000) as n"""
READY = 2000


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
            return await connection.fetchval(explain, "me", 30.0, agents)
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


async def test_whoever_has_nothing_to_do_reads_nothing(busy: PostgresStore) -> None:
    assert await rows_read(busy, ["nobody", "nobody else"]) == 0


async def test_whoever_has_much_to_do_reads_little(busy: PostgresStore) -> None:
    assert await rows_read(busy, [f"a{number}" for number in range(50)]) < 10


async def test_many_who_take_at_once_take_each_session_once(busy: PostgresStore) -> None:
    agents = [f"a{number}" for number in range(50)]

    async def take(owner: str) -> list[str]:
        found = [await busy.claim_next(owner=owner, lease_s=30, agents=agents) for _ in range(20)]
        return [each[1].id for each in found if each is not None]

    taken = await asyncio.gather(*(take(f"w{number}") for number in range(8)))
    names = [name for each in taken for name in each]
    assert sorted(names, key=lambda name: int(name[1:])) == [f"s{2 * n}" for n in range(1, 161)]
