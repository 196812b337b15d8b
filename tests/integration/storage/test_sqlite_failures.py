"""A disk that is full or fails, and a file that another process has locked."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import DocumentWrite, NewSession
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.connection import TransactionTime, connect, unavailable
from ekiden.storage.sqlite.writer import Writer
from tests.support.sqlite import one_event


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "ekiden.db", busy_s=0.01) as store:
        yield store


@contextmanager
def failing_writes() -> Iterator[None]:
    """Every write of this process to a file fails, but at its very beginning."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_failing_disk_is_reported_and_the_store_recovers(store: SqliteStore) -> None:
    claim, _ = await store.claim("s", owner="w", lease_s=60, create=NewSession(id="s", agent="a"))
    await store.commit(claim, one_event("s", 1))
    with failing_writes():
        fates = await asyncio.gather(
            store.commit(claim, one_event("s", 2)),
            *(store.create(NewSession(id=f"t{number}", agent="a")) for number in range(3)),
            return_exceptions=True,
        )
    assert [type(fate) for fate in fates] == [StoreUnavailable] * 4
    assert "disk" in str(fates[0])
    assert (await store.get("s")).seq == 1
    await store.commit(claim, one_event("s", 2))
    assert [event.seq for event in await store.events("s")] == [1, 2]
    assert (await store.info())["sessions"] == 1


async def test_a_full_disk_refuses_large_writes_and_accepts_small_ones(tmp_path: Path) -> None:
    path = tmp_path / "small.db"
    path.touch()
    db = connect(path, busy_s=1)
    db.execute("CREATE TABLE t (x); PRAGMA max_page_count = 20")
    writer = Writer(
        connect=lambda: connect(path, busy_s=1),
        check=lambda _: None,
        now=lambda: TransactionTime(0, 0, 0),
        translate=lambda exc: unavailable(path, exc),
        on_change=lambda: None,
        name=str(path),
    )
    writer.start(db)

    async def insert(size: int) -> None:
        await writer.submit(lambda db, _: db.execute("INSERT INTO t VALUES (?)", ("x" * size,)))

    fates = await asyncio.gather(insert(10), insert(1_000_000), insert(10), return_exceptions=True)
    assert [type(fate) for fate in fates] == [type(None), StoreUnavailable, type(None)]
    assert "disk is full" in str(fates[1])
    await insert(10)
    await asyncio.to_thread(writer.stop)
    with pytest.raises(StoreUnavailable, match="closed"):
        await insert(10)


async def test_a_locked_file_is_reported_and_the_store_recovers(store: SqliteStore) -> None:
    await store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
    intruder = apsw.Connection(store.url)
    intruder.execute("BEGIN IMMEDIATE")
    fates = await asyncio.gather(
        *(store.create(NewSession(id=f"s{number}", agent="a")) for number in range(3)),
        return_exceptions=True,
    )
    assert [type(fate) for fate in fates] == [StoreUnavailable] * 3
    assert "locked" in str(fates[0])
    assert await store.get_document("c", "k") is not None
    intruder.execute("ROLLBACK")
    intruder.close()
    await store.create(NewSession(id="s0", agent="a"))


async def test_a_failing_read_is_reported_and_the_store_recovers(store: SqliteStore) -> None:
    await store.create(NewSession(id="s", agent="a"))

    def fail(_: apsw.Connection) -> None:
        raise apsw.IOError("disk I/O error")

    with pytest.raises(StoreUnavailable, match="disk"):
        await store._read(fail)
    assert (await store.get("s")).id == "s"
