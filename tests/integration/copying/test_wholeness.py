"""Nothing is skipped in silence, however large it is, and nothing comes too early."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.core.errors.stored_data import NotCopyable, StoreNotEmpty
from ekiden.project import open_store
from ekiden.project.copying import (
    CopyStep,
    backup_store,
    copy_store,
    restore_store,
    store_info,
    verify_store,
)
from ekiden.project.copying.whole_stores import snapshot_at
from ekiden.storage.base import DocumentWrite, QueuePut
from ekiden.storage.copying import PAGE_BYTES, TABLES, WRITING, row_size
from tests.integration.copying.world import counted_at, execute_at, made

Place = Callable[[str], str]
EACH_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@EACH_KIND
@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        ("drop table steps", "the table steps"),
        ("alter table events drop column items", "the column items of events"),
        ("drop table sessions", "the table sessions"),
        ("drop table documents", "the table documents"),
    ],
)
async def test_verification_reports_an_inconsistent_store(
    kind: str, sql: str, missing: str, place: Place, tmp_path: Path, postgres_tools: Path
) -> None:
    url, target = await made(place(kind)), tmp_path / "backup"
    execute_at(url, sql)
    [found] = await verify_store(url)
    assert not found.ok
    assert f"{missing} is missing" in found.faults
    with pytest.raises(NotCopyable, match=missing):
        await backup_store(url, target)
    assert not target.exists()
    other = await made(place("sqlite"))
    with pytest.raises(StoreNotEmpty, match="not whole"):
        if kind == "sqlite":
            await restore_store(Path(other), url)
        else:
            await copy_store(other, url)
    assert [told["engine"] for told in await store_info(url)] == [kind]


@EACH_KIND
async def test_pages_stay_small_when_rows_grow_large(kind: str, place: Place) -> None:
    url = place(kind)
    async with open_store(url) as store:
        small = [DocumentWrite(collection="c", key=f"a{n:04}", body=n) for n in range(3000)]
        large = [DocumentWrite(collection="c", key=f"b{n}", body="x" * 1_500_000) for n in range(5)]
        await store.write_documents([*small, *large])
    async with snapshot_at(url) as source:
        pages = [list(map(row_size, page)) async for page in source.pages("documents")]
    assert sum(map(len, pages)) == 3005
    assert max(map(sum, pages)) < PAGE_BYTES + 1_600_000
    assert len(pages) <= 6


async def test_a_snapshot_reads_rows_in_index_order(place: Place) -> None:
    url = await made(place("postgresql"))
    async with snapshot_at(url) as source:
        [row] = await source.fetch("select current_setting('enable_sort')")  # type: ignore[attr-defined]
    assert row[0] == "off"


def test_messages_and_sessions_are_written_last() -> None:
    assert set(WRITING) == set(TABLES)
    assert WRITING[-2:] == ("messages", "sessions")


async def test_a_session_cannot_be_claimed_before_its_rows_are_copied(place: Place) -> None:
    source, target = place("sqlite"), place("postgresql")
    await made(source)
    async with open_store(source) as store:
        await store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
        await store.put_messages([QueuePut(queue="q", body=1)])
    seen: list[tuple[int, ...]] = []

    def look(step: CopyStep) -> None:
        if step.phase == "copy":
            tables = ("documents", "messages", "sessions")
            seen.append(tuple(counted_at(target, table) for table in tables))

    await copy_store(source, target, progress=look)
    assert seen == [(2, 0, 0), (2, 1, 0), (2, 1, 2)]
