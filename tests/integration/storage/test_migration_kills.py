"""A process that migrates a store is killed with `kill -9` at each of its statements."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ekiden.storage.base import NewSession, SessionFilter, Store
from ekiden.storage.copying import Migration
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.store import shipped as shipped_for_postgres
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.open_store import shipped as shipped_for_sqlite
from tests.support.forked import ForkedPopen
from tests.support.sql import connect, execute, until_waited_for
from tests.support.sqlite import ROOT, execute as execute_sqlite

STEPS = (
    (
        "alter table sessions add column visits integer not null default 0",
        "update sessions set visits = visits + 1",
        "create table counted as select count(*) as sessions from sessions",
    ),
    (
        "update sessions set visits = visits * 10 + 2",
        "create index sessions_by_visits on sessions (visits)",
        "insert into counted select sessions + 1 from counted",
    ),
)
"""The statements of two migrations; to run one of them twice gives another result."""
LOCK = 4217
"""The number of the lock that the migrating process waits for."""
COUNT = 3


def migrations(shipped: Sequence[Migration], steps: Sequence[Sequence[str]]) -> list[Migration]:
    first = shipped[-1].number + 1
    return [
        *shipped,
        *(
            Migration(number=number, name=f"{number:04}_step", sql=";\n".join(step))
            for number, step in enumerate(steps, first)
        ),
    ]


def start(url: str, given: Sequence[Migration], *, kill_at: int = 0) -> subprocess.Popen[str]:
    sent = json.dumps([(each.number, each.name, each.sql) for each in given])
    words = ["-m", "tests.support.migrating_child", url, sent, str(kill_at)]
    return ForkedPopen([sys.executable, *words], cwd=ROOT, text=True)


async def fill(store: Store) -> None:
    """Sessions of the old format."""
    for number in range(COUNT):
        await store.create(NewSession(id=f"s{number}", agent="a", user_id="茶"))


async def check_sessions(store: Store, number: int) -> None:
    """The data are whole, and the format is `number`."""
    assert (await store.info())["format"] == number
    rows = (await store.list(SessionFilter(user_id="茶"))).sessions
    assert sorted(row.id for row in rows) == [f"s{number}" for number in range(COUNT)]


async def check_file(path: Path, given: Sequence[Migration]) -> None:
    async with SqliteStore(path, migrations=given) as store:
        await check_sessions(store, given[-1].number)
    assert execute_sqlite(path, "SELECT DISTINCT visits FROM sessions") == [(12,)]
    assert execute_sqlite(path, "SELECT sessions FROM counted") == [(COUNT,), (COUNT + 1,)]
    assert execute_sqlite(path, "SELECT number FROM migrations") == [
        (each.number,) for each in given
    ]
    assert execute_sqlite(path, "PRAGMA integrity_check") == [("ok",)]


async def test_the_next_process_finishes_a_migration_of_a_file_killed_at_any_statement(
    tmp_path: Path,
) -> None:
    given = migrations(shipped_for_sqlite(), STEPS)
    old, path = tmp_path / "old.db", tmp_path / "ekiden.db"
    async with SqliteStore(old) as store:
        await fill(store)
    formats = []
    for statement in itertools.count(1):
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(old, path)
        code = start(str(path), given, kill_at=statement).wait(60)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        [(left,)] = execute_sqlite(path, "PRAGMA user_version")
        formats.append(left)
        await check_file(path, given)
    # Killed before the commit, nothing was changed; afterwards everything was.
    assert formats == sorted(formats)
    before = shipped_for_sqlite()[-1].number
    assert set(formats) == {before, given[-1].number}
    assert formats.count(before) > len(STEPS[0]) + len(STEPS[1])


async def check_schema(url: str, given: Sequence[Migration]) -> None:
    async with PostgresStore(url, migrations=given) as store:
        await check_sessions(store, given[-1].number)
    visits = await execute(url, "select distinct visits from sessions")
    assert [row["visits"] for row in visits] == [12]
    counted = await execute(url, "select sessions from counted order by 1")
    assert [row["sessions"] for row in counted] == [COUNT, COUNT + 1]
    numbers = await execute(url, "select number from migrations order by 1")
    assert [row["number"] for row in numbers] == [each.number for each in given]


@asynccontextmanager
async def held_lock(url: str) -> AsyncIterator[Any]:
    """A connection that holds the lock `LOCK`."""
    connection = await connect(url)
    try:
        await connection.execute("select pg_advisory_lock($1)", LOCK)
        yield connection
    finally:
        await connection.close()


def waiting_after(statement: int) -> list[list[str]]:
    """The steps, in which the process waits for the lock after the statement with this number."""
    places = [(step, at) for step, each in enumerate(STEPS) for at in range(len(each))]
    steps = [list(each) for each in STEPS]
    step, at = places[statement]
    steps[step].insert(at + 1, f"set local lock_timeout = 0; select pg_advisory_xact_lock({LOCK})")
    return steps


async def test_the_next_process_finishes_a_migration_of_a_schema_killed_at_any_statement(
    postgres_url: str,
) -> None:
    given = migrations(shipped_for_postgres(), STEPS)
    for statement in range(sum(map(len, STEPS))):
        async with PostgresStore(postgres_url) as store:
            await fill(store)
        async with held_lock(postgres_url) as holder:
            waits = migrations(shipped_for_postgres(), waiting_after(statement))
            child = start(postgres_url, waits)
            await until_waited_for(holder.get_server_pid(), postgres_url)
            child.kill()
            assert child.wait(60) == -signal.SIGKILL
            numbers = await execute(postgres_url, "select number from migrations order by 1")
            assert [row["number"] for row in numbers] == [
                each.number for each in shipped_for_postgres()
            ]
        await check_schema(postgres_url, given)
        schema = postgres_url.rpartition("schema=")[2]
        drop = f"set client_min_messages = warning; drop schema {schema} cascade"
        connection = await connect(postgres_url)
        await connection.execute(drop)
        await connection.close()


async def test_processes_that_open_a_file_at_once_migrate_it_once(tmp_path: Path) -> None:
    given = migrations(shipped_for_sqlite(), STEPS)
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store:
        await fill(store)
    children = [start(str(path), given) for _ in range(4)]
    assert [await asyncio.to_thread(child.wait, 60) for child in children] == [0] * 4
    await check_file(path, given)


async def test_processes_that_open_a_schema_at_once_migrate_it_once(postgres_url: str) -> None:
    given = migrations(shipped_for_postgres(), STEPS)
    async with PostgresStore(postgres_url) as store:
        await fill(store)
    children = [start(postgres_url, given) for _ in range(4)]
    assert [await asyncio.to_thread(child.wait, 60) for child in children] == [0] * 4
    await check_schema(postgres_url, given)
