"""The store works on when its events are partitioned as the page about scale tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ekiden import Agent, CodeContext, Session
from ekiden.engine import Worker, submit
from ekiden.project.copying import backup_store, restore_store, store_info, verify_store
from ekiden.storage.postgres import PostgresStore
from tests.support.sql import connect

PAGE = Path(__file__).parents[3] / "docs" / "scale.md"


async def answer(ctx: CodeContext[Any]) -> str:
    return ctx.text.upper()


AGENT = Agent("desk", run=answer)


async def said(store: PostgresStore, name: str, text: str) -> list[Any]:
    await submit(AGENT, text, session=Session(name, store=store))
    await Worker(store, AGENT).run(until_idle=True)
    return [event.to_json() for event in await store.events(name)]


async def test_partitioned_events_are_written_read_fed_restored_and_deleted(
    postgres_url: str, postgres_tools: Path, tmp_path: Path
) -> None:
    async with PostgresStore(postgres_url) as store:
        before = await said(store, "s1", "before")
    sql = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    connection = await connect(postgres_url)
    indexes = (
        "select indexname from pg_indexes where schemaname = current_schema and tablename = $1"
    )
    wanted = {row[0] for row in await connection.fetch(indexes, "events")}
    for statements in sql:
        await connection.execute(statements)
    assert {row[0] for row in await connection.fetch(indexes, "events")} == wanted
    kind = await connection.fetchval("select relkind from pg_class where oid = 'events'::regclass")
    await connection.close()
    assert kind == b"p"
    async with PostgresStore(postgres_url) as store:
        after = await said(store, "s1", "after")
        assert after[: len(before)] == before
        others = [await said(store, f"s{number}", "more") for number in range(2, 8)]
        page = await store.feed(limit=1000)
        assert len(page.events) == len(after) + sum(map(len, others))
        [facts] = await store_info(postgres_url)
        assert facts["events"] == len(page.events)
        [found] = await verify_store(postgres_url)
        assert found.ok
        assert found.audit.sessions == 7
        await backup_store(postgres_url, tmp_path / "desk.dump")
    schema = postgres_url.rpartition("schema=")[2]
    connection = await connect(postgres_url)
    await connection.execute(f"set client_min_messages = warning; drop schema {schema} cascade")
    await connection.close()
    assert (await restore_store(tmp_path / "desk.dump", postgres_url)).ok
    [facts] = await store_info(postgres_url)
    assert facts["events"] == len(page.events)
    async with PostgresStore(postgres_url) as store:
        assert [event.to_json() for event in await store.events("s1")] == after
        await store.delete("s1")
        assert await store.events("s1") == []
