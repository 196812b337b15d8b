"""The file: where it may be, who may read it, which format it has, which engine opens it."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
import pytest

from ekiden.core.errors import (
    EngineTooOld,
    MigrationChanged,
    SessionNotFound,
    StoreTooNew,
    StoreTooOld,
    StoreUnavailable,
    UserError,
)
from ekiden.project.copying.migrations import pending_migrations
from ekiden.storage.base import NewSession
from ekiden.storage.copying import Migration, load_migrations
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.connection import prepare_file
from ekiden.storage.sqlite.open_store import FOLDER, check_format, migrate, shipped
from tests.support.sqlite import execute, one_event

NEWEST = shipped()[-1].number
MORE = Migration(number=NEWEST + 1, name="more", sql="ALTER TABLE sessions ADD COLUMN more TEXT")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ekiden.db"


async def make(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(NewSession(id="s", agent="a"))


async def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    await make(tmp_path / "a" / "b" / "ekiden.db")
    assert (tmp_path / "a" / "b" / "ekiden.db").is_file()


async def test_only_the_user_may_read_the_file(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(NewSession(id="s", agent="a"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("ekiden.db", "ekiden.db-wal", "ekiden.db-shm"), 0o600)


async def test_after_closing_everything_is_in_one_file(path: Path) -> None:
    async with SqliteStore(path) as first:
        async with SqliteStore(path) as second:
            await second.create(NewSession(id="s", agent="a"))
        assert (await first.get("s")).id == "s"
        await first.wait_for_change(0)
    assert [file.name for file in path.parent.iterdir()] == ["ekiden.db"]
    assert execute(path, "SELECT id FROM sessions") == [("s",)]


async def test_stored_data_survives_reopening(path: Path) -> None:
    store = SqliteStore(path)
    async with store:
        claim, _ = await store.claim(
            "s", owner="w", lease_s=30, create=NewSession(id="s", agent="a")
        )
        await store.commit(claim, one_event("s", 1, steps={"k": 1}))
    async with store:
        assert len(await store.events("s")) == 1
        assert dict(await store.steps("s")) == {"k": 1}


async def test_the_first_call_opens_the_store(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(SessionNotFound):
        await store.get("s")
    await store.create(NewSession(id="s", agent="a"))
    await store.close()


async def test_a_store_works_in_consecutive_event_loops(path: Path) -> None:
    store = SqliteStore(path)

    def successive_runs() -> str:
        asyncio.run(store.create(NewSession(id="s", agent="a")))
        asyncio.run(store.wait_for_change(0))
        asyncio.run(store.wait_for_change(0.01))
        row = asyncio.run(store.get("s"))
        asyncio.run(store.close())
        return row.id

    assert await asyncio.to_thread(successive_runs) == "s"


async def test_one_store_can_be_opened_concurrently(path: Path) -> None:
    store = SqliteStore(path)
    await asyncio.gather(*(store.open() for _ in range(5)))
    await asyncio.gather(*(store.close() for _ in range(5)))


def test_a_thread_that_sees_a_new_file_waits_until_it_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, go_on = threading.Event(), threading.Event()

    def slow_close(descriptor: int) -> None:
        closing.set()
        go_on.wait(5)
        close(descriptor)

    close = os.close
    monkeypatch.setattr("ekiden.storage.sqlite.connection.os.close", slow_close)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(prepare_file, path)
        assert closing.wait(60)
        second = threads.submit(prepare_file, path)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.1)
        go_on.set()
        first.result(60)
        second.result(60)


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_path_that_names_no_file_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="MemoryStore"):
        SqliteStore(name)


async def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a folder"):
        await SqliteStore(tmp_path).open()


async def test_a_path_below_a_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot open"):
        await SqliteStore(tmp_path / "file" / "ekiden.db").open()


@pytest.mark.parametrize("content", [b"x", b"no database" * 1000])
async def test_a_file_that_is_not_a_database_is_left_unchanged(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="not an SQLite database"):
        await SqliteStore(path).open()
    assert path.read_bytes() == content


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.write_bytes(b"")
    await make(path)


async def test_the_database_of_another_program_is_left_unchanged(path: Path) -> None:
    execute(path, "CREATE TABLE theirs (x)")
    with pytest.raises(StoreUnavailable, match="another program"):
        await SqliteStore(path).open()
    assert execute(path, "SELECT name FROM sqlite_schema") == [("theirs",)]


async def test_a_newer_format_is_refused_with_advice(path: Path) -> None:
    await make(path)
    execute(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match="upgrade Ekiden") as caught:
        await SqliteStore(path).open()
    assert (caught.value.found, caught.value.known) == (99, NEWEST)


async def test_a_changed_migration_is_refused(path: Path) -> None:
    await make(path)
    [first, *more] = shipped()
    altered = dataclasses.replace(first, sql=f"{first.sql}-- altered\n")
    with pytest.raises(MigrationChanged):
        await SqliteStore(path, migrations=[altered, *more]).open()


def test_line_endings_do_not_change_a_migration(tmp_path: Path) -> None:
    for file in FOLDER.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_migrations(tmp_path) == shipped()


async def test_a_store_of_a_development_version_is_refused_with_advice(path: Path) -> None:
    await make(path)
    execute(path, "ALTER TABLE migrations DROP COLUMN works_with")
    execute(path, "DELETE FROM migrations WHERE number > 8")
    execute(path, "UPDATE migrations SET number = 3")
    execute(path, "PRAGMA user_version = 3")
    before = path.read_bytes()
    with pytest.raises(StoreTooOld, match="has format 3.*ekiden session export"):
        await SqliteStore(path).open()
    assert path.read_bytes() == before


async def test_a_version_that_contradicts_the_tables_is_refused_with_advice(path: Path) -> None:
    await make(path)
    execute(path, f"PRAGMA user_version = {NEWEST - 1}")
    found = f"user_version is {NEWEST - 1}, but the last migration of its tables is {NEWEST}"
    for look in (SqliteStore(path).open, partial(pending_migrations, str(path))):
        with pytest.raises(StoreUnavailable, match=f"{found}.*restore it from a backup"):
            await look()


async def test_an_older_store_is_migrated(path: Path) -> None:
    await make(path)
    for _ in range(2):
        async with SqliteStore(path, migrations=[*shipped(), MORE]) as store:
            assert (await store.info())["format"] == NEWEST + 1
            assert (await store.get("s")).id == "s"
    with pytest.raises(StoreTooNew):
        await SqliteStore(path).open()


async def test_a_failed_migration_changes_nothing(path: Path) -> None:
    await make(path)
    bad = dataclasses.replace(MORE, sql="CREATE TABLE half (x); nonsense;")
    with pytest.raises(StoreUnavailable):
        await SqliteStore(path, migrations=[*shipped(), bad]).open()
    async with SqliteStore(path) as store:
        assert (await store.info())["format"] == NEWEST
    assert execute(path, "SELECT name FROM sqlite_schema WHERE name = 'half'") == []


DIES = """
import os, signal, sys, apsw
from ekiden.storage.copying import Migration
from ekiden.storage.sqlite.open_store import migrate, shipped
db = apsw.Connection(sys.argv[1])
db.create_scalar_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL))
more = Migration(number=shipped()[-1].number + 1, name="more", sql=sys.argv[2] + "; SELECT die()")
migrate(db, sys.argv[1], [*shipped(), more])
"""


async def test_a_killed_migration_is_repeated_as_a_whole(path: Path) -> None:
    await make(path)
    command = [sys.executable, "-c", DIES, str(path), MORE.sql]
    died = await asyncio.to_thread(subprocess.run, command, check=False)
    assert died.returncode == -signal.SIGKILL
    assert execute(path, "PRAGMA user_version") == [(NEWEST,)]
    async with SqliteStore(path, migrations=[*shipped(), MORE]) as store:
        assert (await store.info())["format"] == NEWEST + 1
        assert (await store.get("s")).id == "s"


@pytest.mark.parametrize("version", ["3.51.2", "3.7.17", "3.51"])
async def test_an_sqlite_version_that_loses_data_is_refused(path: Path, version: str) -> None:
    with pytest.raises(EngineTooOld, match=r"3\.51\.3"):
        await SqliteStore(path, engine_version=version).open()
    assert not path.exists()


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0", apsw.sqlite_lib_version()])
async def test_a_newer_sqlite_version_is_accepted(path: Path, version: str) -> None:
    async with SqliteStore(path, engine_version=version) as store:
        assert (await store.info())["version"] == version


async def test_acknowledged_writes_are_synced(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(NewSession(id="s", agent="a"))
        assert execute(path, "PRAGMA journal_mode") == [("wal",)]
        assert await store._write(lambda db, _: db.execute("PRAGMA synchronous").fetchall()) == [
            (2,)
        ]


def test_a_file_being_created_by_another_process_is_not_taken_for_a_foreign_one(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "x.db")
    migrations = shipped()
    maker, looker = apsw.Connection(path), apsw.Connection(path)
    maker.pragma("journal_mode", "wal")

    def trace(_: object, sql: str, bindings: object) -> bool:
        if "sqlite_schema" in sql:  # It has looked whose file it is, and not what is in it.
            looker.exec_trace = None
            migrate(maker, path, migrations)
        return True

    looker.exec_trace = trace
    assert check_format(looker, path, migrations) == 0
    assert check_format(looker, path, migrations) == migrations[-1].number
    for each in (maker, looker):
        each.close()
