"""The threads and connections of a store end with it and block nothing."""

import asyncio
import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from ekiden.core.errors import SessionNotFound, StoreUnavailable
from ekiden.storage.base import NewSession, SessionPage, SessionRow
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.sqlite.connection import TransactionTime, connect, unavailable
from ekiden.storage.sqlite.open_store import StoreFile
from ekiden.storage.sqlite.readers import Readers
from ekiden.storage.sqlite.writer import Writer
from tests.support.sqlite import one_event

WAIT_S = 60.0


class Gate:
    """A lock that calls the test just before it is taken."""

    def __init__(self, before: Any) -> None:
        self._lock = threading.Lock()
        self._before = before

    def __enter__(self) -> None:
        before, self._before = self._before, lambda: None
        before()
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    path = tmp_path / "ekiden.db"
    path.touch()
    db = connect(path, busy_s=1)
    writer = Writer(
        connect=lambda: connect(path, busy_s=1),
        check=lambda _: None,
        now=lambda: TransactionTime(0, 0, 0),
        translate=lambda exc: unavailable(path, exc),
        on_change=lambda: None,
        name=str(path),
    )
    writer.start(db)
    return writer


def our_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("ekiden-sqlite")}


def open_files(path: Path) -> list[str]:
    """What this process has open of the store's files, where the system tells."""
    names = []
    for each in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            names.append(os.readlink(each))
    return [name for name in names if name.startswith(str(path))]


def drop(held: list[SqliteStore]) -> None:
    """Let the collector have them, as soon as a thread that did something for one forgot it."""
    left = [weakref.ref(store) for store in held]
    held.clear()
    deadline = time.monotonic() + WAIT_S
    while any(store() for store in left):
        assert time.monotonic() < deadline, "somebody holds on to the store"
        gc.collect()


async def test_a_write_submitted_during_the_close_is_refused(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_put_lock", Gate(writer.stop))
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.submit(lambda db, now_ms: now_ms)
    assert not writer._thread.is_alive()
    writer.stop()


async def test_a_write_submitted_before_the_close_is_executed(writer: Writer) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        begun.set()
        go_on.wait(WAIT_S)

    first = writer.submit(hold)
    await asyncio.to_thread(begun.wait, WAIT_S)
    second = writer.submit(lambda db, now_ms: "done")
    writer.end()
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.submit(lambda db, now_ms: "late")
    go_on.set()
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.gather(first, second) == [None, "done"]
    await asyncio.to_thread(writer.stop)


async def test_writes_of_many_threads_are_stored_or_refused_at_the_close(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ekiden.db")
    await store.open()
    started = threading.Barrier(4)

    async def write(name: str) -> list[BaseException | None]:
        started.wait(WAIT_S)
        async with asyncio.timeout(WAIT_S):
            return await asyncio.gather(
                *(store.create(NewSession(id=f"{name}{n}", agent="a")) for n in range(50)),
                return_exceptions=True,
            )

    def close() -> None:
        started.wait(WAIT_S)
        asyncio.run(store.close())

    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(asyncio.run, write(name)) for name in "abc"]
        closing = threads.submit(close)
        fates = [fate for each in writing for fate in each.result()]
        closing.result()
    assert all(fate is None or isinstance(fate, StoreUnavailable) for fate in fates), fates
    async with store:
        assert (await store.info())["sessions"] == fates.count(None)


async def test_a_store_dropped_without_closing_ends_its_threads_and_warns(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    before = our_threads()
    held = [SqliteStore(path)]
    new = NewSession(id="s", agent="a")
    claim, _ = await held[0].claim("s", owner="w", lease_s=60, create=new)
    await held[0].commit(claim, one_event("s", 1))
    await held[0].wait_for_change(0)
    with pytest.raises(SessionNotFound):
        await held[0].delete("nobody")
    assert len(await held[0].events("s")) == 1
    ours = our_threads() - before
    assert {"ekiden-sqlite-writer", "ekiden-sqlite-reader_0"} <= {each.name for each in ours}
    with pytest.warns(ResourceWarning, match="ekiden.db was never closed"):
        drop(held)
    for thread in ours:
        await asyncio.to_thread(thread.join, WAIT_S)
        assert not thread.is_alive()
    assert open_files(path) == []
    assert [each.name for each in tmp_path.iterdir()] == ["ekiden.db"]


async def test_a_submitted_write_is_stored_although_the_store_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    before = our_threads()
    held = [SqliteStore(path)]
    creating = (await held[0]._running()).writer.submit(
        lambda db, _: db.execute(
            "INSERT INTO documents (collection, key, version, updated_us, body)"
            " VALUES ('c', 'k', 1, 1, '1')"
        ).fetchall()
    )
    ours = our_threads() - before
    with pytest.warns(ResourceWarning):
        drop(held)
    await creating
    for thread in ours:
        await asyncio.to_thread(thread.join, WAIT_S)
    async with SqliteStore(path) as again:
        assert await again.get_document("c", "k") is not None


async def test_a_closed_or_never_opened_store_is_dropped_without_a_warning(
    tmp_path: Path,
) -> None:
    closed = SqliteStore(tmp_path / "ekiden.db")
    async with closed:
        await closed.create(NewSession(id="s", agent="a"))
    async with closed:
        pass
    never = SqliteStore(tmp_path / "other.db")
    del closed, never
    gc.collect()


async def test_tools_that_hang_in_threads_do_not_block_a_store(tmp_path: Path) -> None:
    hung = threading.Event()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as only:
        loop.set_default_executor(only)
        tool = loop.run_in_executor(None, hung.wait, 2 * WAIT_S)
        try:
            async with asyncio.timeout(WAIT_S):
                async with SqliteStore(tmp_path / "ekiden.db") as store:
                    await store.create(NewSession(id="s", agent="a"))
                    assert (await store.get("s")).id == "s"
            assert not tool.done()
        finally:
            hung.set()
        await tool


async def test_a_store_closed_while_it_opens_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "ekiden.db")
    preparing, go_on = threading.Event(), threading.Event()
    open_file = StoreFile.open

    def slowly(file: StoreFile) -> Any:
        preparing.set()
        go_on.wait(WAIT_S)
        return open_file(file)

    monkeypatch.setattr(StoreFile, "open", slowly)
    reading = asyncio.ensure_future(store.queue_depth("q"))
    await asyncio.to_thread(preparing.wait, WAIT_S)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(WAIT_S):
        await closing
        (fate,) = await asyncio.gather(reading, return_exceptions=True)
    assert fate == 0 or isinstance(fate, StoreUnavailable)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.queue_depth("q")
    monkeypatch.undo()


async def test_concurrent_reads_each_get_their_own_result(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    async with SqliteStore(path) as store:
        names = [f"s{number}" for number in range(150)]
        await asyncio.gather(*(store.create(NewSession(id=name, agent=name)) for name in names))
        reads = [store.get(name) for name in [*names, "nobody"]]
        *rows, missing, page, found = await asyncio.gather(
            *reads, store.list(limit=3), store.find_messages(), return_exceptions=True
        )
        assert [row.agent for row in rows if isinstance(row, SessionRow)] == names
        assert isinstance(missing, SessionNotFound)
        assert isinstance(page, SessionPage)
        assert len(page.sessions) == 3
        assert found == []


async def test_a_slow_read_does_not_block_others(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    path.touch()
    readers = Readers(
        lambda: connect(path, busy_s=1),
        lambda _: None,
        lambda exc: unavailable(path, exc),
        str(path),
    )
    go_on = threading.Event()
    try:
        async with asyncio.timeout(60):
            quick = [readers.read(lambda _: "quick", quick=True) for _ in range(5)]
            slow = asyncio.ensure_future(readers.read(lambda _: go_on.wait(60)))
            assert await asyncio.gather(*quick) == ["quick"] * 5
            assert await readers.read(lambda _: "beside") == "beside"
            assert not slow.done()
            go_on.set()
            assert await slow is True
    finally:
        go_on.set()
        readers.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        await readers.read(lambda _: 1)


async def test_a_failed_read_gives_the_others_a_new_connection(tmp_path: Path) -> None:
    path = tmp_path / "ekiden.db"
    path.touch()
    readers = Readers(
        lambda: connect(path, busy_s=1),
        lambda _: None,
        lambda exc: unavailable(path, exc),
        str(path),
    )

    def fail(db: apsw.Connection) -> object:
        return db.execute("SELECT * FROM nowhere").fetchall()

    fine = readers.read(lambda db: db.execute("SELECT 7").fetchall(), quick=True)
    fates = await asyncio.gather(
        readers.read(fail, quick=True), fine, readers.read(lambda _: 1 // 0), return_exceptions=True
    )
    assert [type(fate) for fate in fates] == [StoreUnavailable, list, ZeroDivisionError]
    readers.close()
    readers.close()
