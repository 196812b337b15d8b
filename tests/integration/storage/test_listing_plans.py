"""Listing and counting sessions costs the same, however many there are."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from ekiden.storage.base import SessionFilter
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from tests.support.sql import connect
from tests.support.sqlite import execute

SINGLE = (
    SessionFilter(),
    SessionFilter(status="idle"),
    SessionFilter(status="ready"),
    SessionFilter(status="waiting"),
    SessionFilter(agent="a1"),
    SessionFilter(outcome="done"),
    SessionFilter(outcome="failed"),
    SessionFilter(user_id="u1"),
)
FILTERS = (
    *SINGLE,
    SessionFilter(status="ready", agent="a1"),
    SessionFilter(outcome="failed", agent="a1"),
    SessionFilter(user_id="u1", agent="a1", status="idle", outcome="done"),
)
FILL = """
insert into sessions (id, agent, status, outcome, user_id, meta{more})
select 's' || n, 'a' || (n % 300),
    case n % 300 when 1 then 'ready' when 2 then 'waiting' else 'idle' end,
    case n % 300 when 3 then 'failed' else 'done' end, 'u' || (n % 300), '{{}}'{values}
from {numbers}"""
USUAL = {"idle", "done"}
"""Most sessions have these: a scan of all sessions finds them soon."""
MANY_EVENTS = """
with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})
insert into events (session, seq, type, at_us) select {session}, i, 1, i from n"""


@pytest.fixture
async def traced() -> AsyncIterator[list[tuple[str, Any]]]:
    """The statements that stores which are opened meanwhile execute, with their values."""
    statements: list[tuple[str, Any]] = []

    def trace(_: apsw.Cursor, sql: str, values: Any) -> bool:
        statements.append((sql, values))
        return True

    def begin(db: apsw.Connection) -> None:
        db.exec_trace = trace

    apsw.connection_hooks.append(begin)
    yield statements
    apsw.connection_hooks.remove(begin)


async def test_every_session_filter_uses_an_index_in_sqlite(
    tmp_path: Path, traced: list[tuple[str, Any]]
) -> None:
    numbers = "(with recursive n (n) as (select 1 union all select n + 1 from n where n < 310)"
    async with SqliteStore(tmp_path / "desk.db") as store:
        fill = FILL.format(
            more=", created_us, updated_us", values=", n, n", numbers=f"{numbers} select n from n)"
        )
        execute(tmp_path / "desk.db", fill)
        traced.clear()
        for where in FILTERS:
            assert (await store.list(where, limit=3)).sessions or where.agent, where
            await store.list(where, limit=3, cursor="20")
        await store.claim_next(owner="w", lease_s=1)
    looked = [(sql, values) for sql, values in traced if re.search(r"\bFROM sessions\b", sql)]
    assert len(looked) == 2 * len(FILTERS) + 1
    db = apsw.Connection(str(tmp_path / "desk.db"))
    for sql, values in looked:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        if "WHERE 1 ORDER BY" in sql:
            assert plan == ["SCAN sessions"], "the newest of all, which the table begins with"
            continue
        scanned = {step for step in plan if step.startswith("SCAN sessions")}
        # Of the line of ready sessions only the first is read.
        assert scanned <= {"SCAN sessions USING INDEX sessions_ready"}, (sql, plan)
        if "WHERE 1 AND num" not in sql:
            assert not any("PRIMARY KEY (rowid<?)" in step for step in plan), (sql, plan)
        assert "USE TEMP B-TREE FOR ORDER BY" not in plan, (sql, plan)
    db.close()


async def test_every_session_filter_uses_an_index_in_postgres(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []
    async with AsyncExitStack() as stack, PostgresStore(postgres_url) as store:
        query = store._database.query

        async def noted(sql: str, *args: Any, **options: Any) -> Any:
            asked.append((sql, args))
            return await query(sql, *args, **options)

        connection = await connect(postgres_url)
        stack.push_async_callback(connection.close)
        numbers = "generate_series(1, 3000) as n"
        await connection.execute(FILL.format(more="", values="", numbers=numbers))
        await connection.execute("analyze sessions")
        monkeypatch.setattr(store._database, "query", noted)
        for where in FILTERS:
            await store.list(where, limit=3)
        for where, (sql, args) in zip(FILTERS, asked, strict=True):
            rows = await connection.fetch(f"explain (costs off) {sql}", *args)
            plan = "\n".join(row[0] for row in rows)
            assert "Seq Scan" not in plan, plan
            # Of other filters at once, one finds and the others drop.
            one = where in (*SINGLE, SessionFilter(status="ready", agent="a1"))
            assert "Filter:" not in plan or not one or USUAL & {where.status, where.outcome}, plan
            if where == SessionFilter(status="ready"):  # As stores ask: one plan for all values.
                await connection.execute("set plan_cache_mode = force_generic_plan")
                await connection.execute(f"prepare ready as {sql}")
                values = ", ".join(repr(value) for value in args)
                rows = await connection.fetch(f"explain (costs off) execute ready ({values})")
                assert not any("Filter:" in row[0] for row in rows), rows


async def test_large_counts_are_estimated(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    steps: list[int] = []
    async with SqliteStore(path) as store:
        for session, count in ((1, 900), (2, 21_000), (3, 68_100)):
            execute(path, MANY_EVENTS.format(session=session, count=count))

            def count_steps(db: apsw.Connection) -> int:
                ticks = 0

                def tick() -> bool:
                    nonlocal ticks
                    ticks += 1
                    return False

                db.set_progress_handler(tick, 100)
                store._info(db)
                db.set_progress_handler(None)
                return ticks

            steps.append(await store._read(count_steps))
            info = await store.info()
            assert ("events" in info["estimated"]) == (session > 1)
            assert "sessions" not in info["estimated"]
        assert (await store.info())["events"] == 90_000
        assert steps[2] < steps[1] * 1.2
        execute(path, "DELETE FROM events WHERE id % 2 = 0")
        assert (await store.info())["events"] == pytest.approx(45_000, rel=0.25)


async def test_postgres_estimates_large_counts(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        connection = await connect(postgres_url)
        try:
            await connection.execute(
                "insert into events (session, seq, at_us, type)"
                " select 1, n, n, 'message' from generate_series(1, 20000) as n"
            )
            await connection.execute("analyze events")
        finally:
            await connection.close()
        info = await store.info()
    assert info["estimated"] == ["events"]
    assert info["events"] == pytest.approx(20_000, rel=0.25)
