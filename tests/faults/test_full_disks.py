"""The disk is full: every caller gets an error, nothing is lost, and with room all continues."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import DocumentWrite
from tests.faults.crowd import Crowd, check_crowd, crowd
from tests.faults.databases import Database, PostgresDatabase, SqliteDatabase
from tests.faults.ledger import Ledger
from tests.support.server import private_server
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.sql import execute

AT_LEAST = 8
"""So many sessions are acknowledged before the disk is full, and again after it was."""


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """A disk of its own for a test."""
    with small_disk(size_mb=48) as disk:
        yield disk


@pytest.fixture
async def full_postgres(disk: SmallDisk) -> AsyncIterator[Database]:
    """A store whose tables are on the small disk, and nothing else of the server."""
    space = disk.folder / "tables"
    space.mkdir()
    with private_server(is_killed=True) as server:
        _give_to_server(space, server.socket)
        url = f"{server.url}&schema=full"
        await execute(server.url, f"create tablespace small location '{space}'")
        await execute(server.url, "alter database postgres set default_tablespace = small")
        yield PostgresDatabase(url)


def _give_to_server(folder: Path, socket: Path) -> None:
    """A tablespace belongs to the user that the server runs as, as its socket does."""
    owner = socket.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)


async def fill_and_empty(people: Crowd, disk: SmallDisk, database: Database) -> list[str]:
    """Let work begin, fill the disk, make room again; the sessions that were acknowledged."""
    ledger = people.ledger

    def acknowledged() -> int:
        return len(ledger.lines("acknowledged"))

    async with database.open():
        people.work()
        people.submit()
        await people.begin()
        await people.until(lambda: acknowledged() >= AT_LEAST, "work has begun")
        disk.fill()
        await people.until(lambda: bool(ledger.lines("refused")), "somebody is told")
        disk.make_room()
        enough = acknowledged() + AT_LEAST
        await people.until(lambda: acknowledged() >= enough, "work goes on")
        return await people.end(database)


def check_reported(ledger: Ledger) -> None:
    """The error has a code, and says what is wrong and what to do."""
    refused = ledger.lines("refused")
    assert {line["code"] for line in refused} == {"store.unavailable"}
    assert any("is full: make room" in line["text"] for line in refused), refused[-1]


async def test_workers_on_one_file_continue_when_the_disk_has_room_again(
    disk: SmallDisk, ledger: Ledger
) -> None:
    database = SqliteDatabase(disk.folder / "ekiden.db")
    with crowd(database.url, ledger) as people:
        names = await fill_and_empty(people, disk, database)
    await check_crowd(database, ledger, names)
    check_reported(ledger)


async def test_workers_on_postgres_continue_when_the_disk_has_room_again(
    disk: SmallDisk, full_postgres: Database, ledger: Ledger
) -> None:
    with crowd(full_postgres.url, ledger) as people:
        names = await fill_and_empty(people, disk, full_postgres)
    await check_crowd(full_postgres, ledger, names)
    check_reported(ledger)


async def test_a_write_without_disk_space_is_refused_as_a_whole(disk: SmallDisk) -> None:
    database = SqliteDatabase(disk.folder / "ekiden.db")
    big = {"text": "x" * 100_000}
    writes = [DocumentWrite(collection="c", key=f"k{number}", body=big) for number in range(20)]
    async with database.open() as store:
        await store.write_documents(writes[:1])
        disk.fill()
        with pytest.raises(StoreUnavailable, match="the disk is full: make room"):
            await store.write_documents(writes[1:])
        assert [each.key for each in await store.list_documents("c")] == ["k0"]
        disk.make_room()
        await store.write_documents(writes[1:])
        assert len(await store.list_documents("c")) == len(writes)
