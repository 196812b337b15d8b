"""Backups of SQLite stores: whole files or none."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ekiden.core.errors import StoreTooNew, StoreUnavailable, UserError
from ekiden.core.errors.stored_data import StoreNotEmpty
from ekiden.project import open_store
from ekiden.project.copying import (
    CopyStep,
    backup_store,
    copy_store,
    restore_store,
    store_info,
    verify_store,
)
from ekiden.project.stores import tenant_url
from ekiden.storage.base import DocumentWrite, QueuePut
from ekiden.storage.sqlite import copying
from tests.integration.copying.world import (
    act,
    made,
    rows_of,
    same,
    sessions_at,
    tenants_made,
)
from tests.support.rights import modes_count
from tests.support.small_disk import small_disk
from tests.support.sqlite import execute

Place = Callable[[str], str]


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder for backups."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


@pytest.fixture
async def desk(tmp_path: Path) -> str:
    """A store with two sessions."""
    return await made(str(tmp_path / "desk.db"))


def files_in(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


async def test_a_backup_is_one_file_that_only_its_user_may_read(desk: str, shelf: Path) -> None:
    backup = shelf / "a backup, 中文 🗄?.db"
    report = await backup_store(desk, backup)
    assert (report.source, report.target) == (desk, str(backup))
    assert files_in(shelf) == [backup.name]
    assert backup.stat().st_mode & 0o077 == 0
    before = backup.read_bytes()
    assert (await verify_store(str(backup)))[0].ok
    assert same(await rows_of(str(backup))) == same(await rows_of(desk))
    restored = str(shelf / "restored.db")
    await restore_store(backup, restored)
    assert backup.read_bytes() == before
    assert same(await rows_of(restored)) == same(await rows_of(desk))
    assert files_in(shelf) == sorted([backup.name, "restored.db"])


async def test_a_backup_is_consistent_despite_concurrent_writes(
    tmp_path: Path, shelf: Path
) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url) as store:
        for number in range(3):
            await act(store, "run", number)
        done = asyncio.Event()

        async def write() -> None:
            number = 10
            while not done.is_set():
                await act(store, "run", number)
                number += 1

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            report = await backup_store(url, shelf / "monday.db")
            done.set()
    assert report.ok
    assert report.tenants[0].audit.sessions >= 3
    [found] = await verify_store(str(shelf / "monday.db"))
    assert found.ok


async def test_sessions_and_messages_claimed_at_the_source_are_free_in_the_backup(
    desk: str, shelf: Path
) -> None:
    async with open_store(desk) as store:
        await store.claim("s1", owner="me", lease_s=60)
        await store.put_messages([QueuePut(queue="q", body=1)])
        assert await store.take_messages("q", owner="me", lease_s=60)
        await backup_store(desk, shelf / "monday.db")
        assert (await store.get("s1")).owner == "me"
    assert (await store_info(str(shelf / "monday.db")))[0]["leases"] == 0
    await restore_store(shelf / "monday.db", str(shelf / "new.db"))
    async with open_store(str(shelf / "new.db")) as store:
        assert (await store.claim("s1", owner="other", lease_s=60))[0].epoch == 2
        [message] = await store.take_messages("q", owner="other", lease_s=60)
        assert message.attempts == 2


async def test_tenants_are_backed_up_into_a_folder_and_restored(
    tmp_path: Path, shelf: Path
) -> None:
    url, backup = str(tmp_path / "desk.db"), shelf / "monday.db"
    await tenants_made(url)
    report = await backup_store(url, backup)
    assert [found.tenant for found in report.tenants] == ["default", "acme", "beta"]
    assert files_in(shelf) == ["monday.db", "monday.tenants/acme.db", "monday.tenants/beta.db"]
    one = str(tmp_path / "one.db")
    await restore_store(backup, one, tenants=["beta"])
    assert not Path(one).exists()
    assert await sessions_at(tenant_url(one, "beta")) == {"of-beta"}
    every = str(tmp_path / "all.db")
    await restore_store(backup, every)
    assert await sessions_at(tenant_url(every, "acme")) == {"of-acme"}
    with pytest.raises(UserError, match="no store of a tenant 'gamma'.*acme, beta"):
        await backup_store(url, shelf / "other.db", tenants=["gamma"])
    assert len(files_in(shelf)) == 3


async def test_a_failed_backup_leaves_no_files(desk: str, shelf: Path) -> None:
    def stop(step: CopyStep) -> None:
        if step.phase == "compare":
            raise OSError("a test stops it")

    with pytest.raises(StoreUnavailable, match="a test stops it"):
        await backup_store(desk, shelf / "monday.db", progress=stop)
    assert list(shelf.iterdir()) == []


async def test_a_cancelled_backup_leaves_no_files(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url) as store:
        large = [DocumentWrite(collection="c", key=str(n), body="x" * 500_000) for n in range(60)]
        await store.write_documents(large)
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    copy = copying._copy

    def told(db: apsw.Connection, source: Path, target: Path) -> None:
        loop.call_soon_threadsafe(began.set)
        copy(db, source, target)

    monkeypatch.setattr(copying, "_copy", told)
    task = asyncio.create_task(backup_store(url, shelf / "monday.db"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(shelf.iterdir()) == []


async def test_a_store_with_content_is_not_overwritten(
    desk: str, tmp_path: Path, shelf: Path
) -> None:
    other = await made(str(shelf / "other.db"), "other")
    with pytest.raises(StoreNotEmpty, match="1 sessions"):
        await backup_store(desk, Path(other))
    with pytest.raises(StoreNotEmpty, match="1 sessions"):
        await restore_store(Path(desk), other)
    assert await sessions_at(other) == {"other"}
    foreign = shelf / "foreign.db"
    execute(foreign, "CREATE TABLE mine (x)")
    text = shelf / "text.db"
    text.write_text("hello " * 200)
    for file, problem in ((foreign, "another program"), (text, "not an SQLite database")):
        with pytest.raises(StoreUnavailable, match=problem):
            await backup_store(desk, file)
        with pytest.raises(StoreUnavailable, match=problem):
            await restore_store(file, str(shelf / "new.db"))
    assert not list(shelf.glob(".*"))
    assert not (shelf / "new.db").exists()


async def test_a_store_cannot_be_backed_up_into_itself(desk: str, tmp_path: Path) -> None:
    for name, link in (("soft", os.symlink), ("hard", os.link)):
        link(desk, tmp_path / f"{name}.db")
        with pytest.raises(UserError, match="source and target at once"):
            await backup_store(desk, tmp_path / f"{name}.db")
    with pytest.raises(UserError, match="source and target at once"):
        await restore_store(Path(desk), os.path.relpath(desk))
    assert await sessions_at(desk) == {"s1", "s2"}


async def test_tenants_of_the_target_are_not_overwritten_or_mixed(
    tmp_path: Path, shelf: Path
) -> None:
    url, target = str(tmp_path / "desk.db"), str(shelf / "new.db")
    await tenants_made(url, "acme")
    (shelf / "new.tenants").mkdir()
    await made(tenant_url(target, "acme"), "foreign")
    with pytest.raises(StoreNotEmpty, match=r"acme\.db"):
        await restore_store(Path(url), target)
    Path(tenant_url(target, "acme")).rename(tenant_url(target, "gamma"))
    with pytest.raises(StoreNotEmpty, match="1 sessions, and the source has no tenant gamma"):
        await restore_store(Path(url), target)
    assert not Path(target).exists()
    await restore_store(Path(url), target, tenants=["acme"])
    assert await sessions_at(tenant_url(target, "gamma")) == {"foreign"}
    # The folder of tenants of a file beside would be the same.
    with pytest.raises(StoreNotEmpty):
        await backup_store(url, tmp_path / "desk.backup")


async def test_an_empty_store_is_restored_into_unless_it_is_open(
    desk: str, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.storage.sqlite.copying._BUSY_MS", 50)
    target = str(shelf / "new.db")
    async with open_store(target):
        with pytest.raises(StoreUnavailable, match="locked"):
            await restore_store(Path(desk), target)
    await restore_store(Path(desk), target)
    assert await sessions_at(target) == {"s1", "s2"}
    nothing = shelf / "nothing.db"
    nothing.touch()
    await restore_store(Path(desk), str(nothing))
    assert await sessions_at(str(nothing)) == {"s1", "s2"}


async def test_a_leftover_write_ahead_log_is_not_replayed_into_a_restored_store(
    desk: str, shelf: Path
) -> None:
    (shelf / "new.db-wal").write_bytes(b"old")
    with pytest.raises(StoreNotEmpty, match="new.db-wal"):
        await restore_store(Path(desk), str(shelf / "new.db"))
    assert not (shelf / "new.db").exists()
    (shelf / "new.db-wal").unlink()
    await restore_store(Path(desk), str(shelf / "new.db"))
    assert await sessions_at(str(shelf / "new.db")) == {"s1", "s2"}


@pytest.mark.parametrize("cut", [True, False])
async def test_a_damaged_backup_is_not_restored(cut: bool, tmp_path: Path, shelf: Path) -> None:
    url, backup = str(tmp_path / "desk.db"), shelf / "monday.db"
    await made(url, *(f"session-{number}" for number in range(300)))
    await backup_store(url, backup)
    data = bytearray(backup.read_bytes())
    if cut:
        del data[len(data) // 2 :]
    else:
        data[-4096:] = b"\xff" * 4096
    backup.write_bytes(data)
    with pytest.raises(StoreUnavailable, match="damaged"):
        await restore_store(backup, str(shelf / "new.db"))
    assert files_in(shelf) == ["monday.db"]


async def test_an_unreadable_row_is_backed_up_and_reported(tmp_path: Path, shelf: Path) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url) as store:
        await act(store, "run", 0)
    execute(Path(url), "UPDATE events SET type = 999 WHERE id = 1")
    report = await backup_store(url, shelf / "monday.db")
    assert not report.ok
    assert any("events cannot be read" in fault for fault in report.tenants[0].faults)
    assert files_in(shelf) == ["monday.db"]


async def test_a_broken_audit_is_backed_up_and_reported(tmp_path: Path, shelf: Path) -> None:
    url = str(tmp_path / "desk.db")
    async with open_store(url) as store:
        await act(store, "run", 0)
    execute(Path(url), "UPDATE events SET agent = 'mallory' WHERE type = 3")
    assert not (await backup_store(url, shelf / "monday.db")).ok
    report = await restore_store(shelf / "monday.db", str(shelf / "new.db"))
    assert (report.ok, report.tenants[0].audit.broken) == (False, 1)


async def test_a_store_of_a_newer_format_is_not_backed_up(desk: str, shelf: Path) -> None:
    execute(Path(desk), "PRAGMA user_version = 999")
    with pytest.raises(StoreTooNew):
        await backup_store(desk, shelf / "monday.db")
    assert list(shelf.iterdir()) == []


async def test_a_folder_without_write_permission_is_reported(desk: str, shelf: Path) -> None:
    shelf.chmod(0o500)
    with modes_count(), pytest.raises(StoreUnavailable, match="Permission denied: .*rights"):
        await backup_store(desk, shelf / "monday.db")
    shelf.chmod(0o700)
    with pytest.raises(StoreUnavailable, match="No such file or directory"):
        await backup_store(desk, shelf / "no" / "such" / "monday.db")


async def test_a_read_only_backup_is_restored(desk: str, shelf: Path) -> None:
    backup, target = shelf / "monday.db", str(shelf.parent / "new.db")
    await backup_store(desk, backup)
    backup.chmod(0o400)
    shelf.chmod(0o500)
    with modes_count():
        await restore_store(backup, target)
    shelf.chmod(0o700)
    assert files_in(shelf) == ["monday.db"]
    assert await sessions_at(target) == {"s1", "s2"}


@pytest.mark.parametrize("has_links", [True, False])
async def test_a_file_created_at_the_last_moment_is_not_overwritten(
    has_links: bool, desk: str, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(target: Path, file: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    backup, taken = shelf / "monday.db", shelf / "taken.db"
    # A link that leads nowhere: looked for, it does not exist.
    taken.symlink_to("nowhere")
    with pytest.raises(StoreNotEmpty, match="something else"):
        await backup_store(desk, taken)
    assert str(taken.readlink()) == "nowhere"
    await backup_store(desk, backup)
    assert files_in(shelf) == ["monday.db"]
    assert (backup.stat().st_nlink, backup.stat().st_mode & 0o777) == (1, 0o600)
    assert await sessions_at(str(backup)) == {"s1", "s2"}


@pytest.mark.slow
async def test_a_full_disk_is_reported_and_leaves_no_files(desk: str) -> None:
    async with open_store(desk) as store:
        await store.write_documents([DocumentWrite(collection="c", key="k", body="x" * 2_000_000)])
    with small_disk(size_mb=1) as disk:
        with pytest.raises(StoreUnavailable, match="disk"):
            await backup_store(desk, disk.folder / "monday.db")
        assert list(disk.folder.iterdir()) == []


async def test_an_unsupported_backup_is_refused_with_the_supported_way(
    place: Place, shelf: Path
) -> None:
    file, other = await made(place("sqlite")), place("sqlite")
    schema = "postgresql://me:hush@localhost/desk"
    for source, target, way in (
        (file, other, f"`ekiden store backup '{other}' --store '{file}'`"),
        (schema, other, "`ekiden store backup FILE --store 'postgresql://me@localhost/desk'`"),
        (schema, f"{schema}2", "`ekiden store restore FILE --store 'postgresql://me@localhost"),
    ):
        with pytest.raises(UserError) as refused:
            await copy_store(source, target)
        assert way in str(refused.value)
        assert "hush" not in str(refused.value)
    with pytest.raises(UserError, match="`ekiden store copy .* 'postgresql://me@localhost/desk'`"):
        await restore_store(Path(file), schema)
    dump = shelf / "desk.dump"
    dump.write_bytes(b"PGDMP and more")
    with pytest.raises(UserError, match="dump of PostgreSQL: restore it with --store postgresql"):
        await restore_store(dump, other)
    assert not Path(other).exists()
