"""What is asked of all sessions is answered from an index that only audited events pay for."""

import re
from pathlib import Path
from typing import get_args

import pytest

from ekiden.core.events import AUDITED, EventType
from ekiden.storage.base import EventFilter
from ekiden.storage.postgres import PostgresStore, journal as postgres
from ekiden.storage.postgres.store import shipped
from ekiden.storage.sqlite import SqliteStore, journal as sqlite, open_store
from ekiden.storage.sqlite.rows import stored_type
from ekiden.testing.contracts.base import claimed, step
from ekiden.testing.contracts.feed import at
from tests.support.sql import connect
from tests.support.sqlite import execute as execute_sqlite

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
INDEXED = [
    (EventFilter(types=AUDITED), None),
    (EventFilter(types=["handoff"], newest_first=False), None),
    (EventFilter(types=["handoff", "route"], since_us=3, until_us=9), "5.2.3"),
    (EventFilter(types=AUDITED, newest_first=False), "5.2.3"),
]


def test_the_event_indexes_cover_exactly_the_audited_types() -> None:
    sql = open_store.shipped()[0].sql
    assert set(map(int, re.findall(r"type = (\d+)", sql))) == set(map(stored_type, AUDITED))
    assert set(re.findall(r"type = '(\w+)'", sql)) == AUDITED
    (condition,) = re.findall(r"type in \((.*?)\)", shipped()[0].sql)
    assert set(re.findall(r"'(\w+)'", condition)) == AUDITED


@pytest.mark.parametrize(("where", "cursor"), INDEXED)
async def test_sqlite_reads_audited_events_in_the_order_of_the_index(
    tmp_path: Path, where: EventFilter, cursor: str | None
) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path):
        pass
    sql, values = sqlite.page_sql(where, 10, cursor)
    for value in values:
        sql = sql.replace("?", repr(value), 1)
    plan = [row[3] for row in execute_sqlite(path, f"EXPLAIN QUERY PLAN {sql}")]
    assert "events_audited" in plan[0]
    assert not any("TEMP B-TREE" in line for line in plan)


@pytest.mark.parametrize(("where", "cursor"), INDEXED)
async def test_postgres_reads_audited_events_in_the_order_of_the_index(
    postgres_store: PostgresStore, postgres_url: str, where: EventFilter, cursor: str | None
) -> None:
    await postgres_store.open()
    sql, args = postgres.page_sql(where, 10, cursor)
    connection = await connect(postgres_url)
    try:
        # With tables as small as these the planner would rather read them whole.
        await connection.execute("set enable_seqscan = off; set enable_sort = off")
        await connection.execute("set enable_bitmapscan = off; set enable_hashjoin = off")
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain {sql}", *args))
    finally:
        await connection.close()
    assert "events_audited" in plan
    assert "Sort" not in plan


async def test_events_of_other_types_are_not_in_the_index_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    types: tuple[EventType, ...] = get_args(EventType)
    async with SqliteStore(path) as store:
        claim = await claimed(store)
        await store.commit(claim, step(*(at(n, "s", n, type) for n, type in enumerate(types, 1))))
    indexed = execute_sqlite(
        path,
        f"SELECT count(*) FROM events INDEXED BY events_audited WHERE {sqlite._INDEXED}",
    )
    assert indexed == [(len(AUDITED),)]


async def test_an_event_with_its_type_stored_as_text_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store:
        claim = await claimed(store)
        await store.commit(claim, step(at(1, "s", 1), at(2, "s", 2, "route"), release=True))
    execute_sqlite(path, "UPDATE events SET type = 'handoff' WHERE seq = 1")
    async with SqliteStore(path) as store:
        for types in (AUDITED, {"handoff"}):
            page = await store.find_events(EventFilter(types=types))
            assert page.events[-1].event_id == "s/1"
            assert page.events[-1].type == "handoff"
