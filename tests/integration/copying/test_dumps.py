"""Backups of PostgreSQL stores, which its own programs write and restore."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.stored_data import StoreNotEmpty, StoreUnfinished, ToolMissing
from ekiden.project import open_store
from ekiden.project.copying import (
    CopyStep,
    backup_store,
    copy_store,
    restore_store,
    store_info,
)
from ekiden.project.stores import tenant_url
from ekiden.storage.base import NewSession
from tests.integration.copying.world import (
    act,
    execute_at,
    made,
    rows_of,
    same,
    sessions_at,
    tenants_made,
)
from tests.support.rights import modes_count
from tests.support.server import private_server

Place = Callable[[str], str]


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


def script(folder: Path, name: str, text: str) -> None:
    """A program of that name, the first in `PATH`."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of `PATH`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


async def test_a_dump_is_a_file_that_only_its_user_may_read(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "周一 🗄.dump"
    report = await backup_store(source, dump)
    assert report.target == str(dump)
    assert dump.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == [dump.name]
    with pytest.raises(StoreNotEmpty, match="something else"):
        await backup_store(source, dump)
    before = dump.read_bytes()
    await restore_store(dump, elsewhere(source))
    assert dump.read_bytes() == before
    with pytest.raises(StoreNotEmpty, match="2 sessions"):
        await restore_store(dump, elsewhere(source))


async def test_a_file_created_during_the_dump_is_not_overwritten(
    place: Place, postgres_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, shelf, folder = await made(place("postgresql")), tmp_path / "shelf", tmp_path / "bin"
    shelf.mkdir()
    folder.mkdir()
    dump = shelf / "desk.dump"
    late = f'test "$1" = --version || echo mine > {shlex.quote(str(dump))}'
    script(folder, "pg_dump", f'{late}\nexec {postgres_tools / "pg_dump"} "$@"')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(StoreNotEmpty, match="something else"):
        await backup_store(source, dump)
    assert dump.read_text() == "mine\n"
    assert list(shelf.iterdir()) == [dump]


async def test_a_dump_contains_all_tenants(place: Place, elsewhere: Place, tmp_path: Path) -> None:
    source, dump = place("postgresql"), tmp_path / "desk.dump"
    await tenants_made(source)
    target = elsewhere(source)
    await backup_store(source, dump)
    with pytest.raises(UserError, match="leave out --tenants"):
        await restore_store(dump, target, tenants=["acme"])
    await made(tenant_url(target, "gamma"), "foreign")
    with pytest.raises(StoreNotEmpty, match=f"{schema_of(source)}__gamma"):
        await restore_store(dump, target)
    execute_at(tenant_url(target, "gamma"), f'drop schema "{schema_of(source)}__gamma" cascade')
    report = await restore_store(dump, target)
    assert [(found.tenant, found.ok) for found in report.tenants] == [
        ("default", True),
        ("acme", True),
        ("beta", True),
    ]
    assert await sessions_at(target) == {"main"}
    assert await sessions_at(tenant_url(target, "beta")) == {"of-beta"}


async def test_a_dump_can_contain_selected_tenants(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = place("postgresql"), tmp_path / "beta.dump"
    await tenants_made(source)
    with pytest.raises(UserError, match="no store of a tenant 'gamma'"):
        await backup_store(source, dump, tenants=["gamma"])
    await backup_store(source, dump, tenants=["beta"])
    with pytest.raises(UserError, match="has no schema"):
        await restore_store(dump, elsewhere(source))
    target = tenant_url(elsewhere(source), "beta")
    await restore_store(dump, target)
    assert await sessions_at(target) == {"of-beta"}
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await store_info(elsewhere(source))


async def test_a_dump_of_an_older_format_is_restored_in_the_newest(
    place: Place, elsewhere: Place, upgrade: Callable[[], int], tmp_path: Path
) -> None:
    source, dump = place("postgresql"), tmp_path / "desk.dump"
    async with open_store(source) as store:
        await store.create(NewSession(id="old", agent="a"))
    newest = upgrade()
    await backup_store(source, dump)
    [told] = await store_info(source)
    assert told["format"] == newest - 1
    report = await restore_store(dump, elsewhere(source))
    assert (report.ok, report.tenants[0].audit.sessions) == (True, 1)
    assert (await store_info(elsewhere(source)))[0]["format"] == newest
    assert await sessions_at(elsewhere(source)) == {"old"}


async def test_a_dump_is_consistent_despite_concurrent_writes(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = place("postgresql"), tmp_path / "desk.dump"
    async with open_store(source) as store:
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
            await backup_store(source, dump)
            done.set()
    report = await restore_store(dump, elsewhere(source))
    assert report.ok
    assert report.tenants[0].audit.sessions >= 3


async def test_a_dump_is_restored_into_the_schema_of_its_own_name_only(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    await backup_store(source, dump)
    with pytest.raises(UserError, match="has no schema .*schema=NAME"):
        await restore_store(dump, place("postgresql"))


async def test_empty_tables_at_the_target_are_reported(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    await backup_store(source, dump)
    target = elsewhere(source)
    async with open_store(target):
        """Another process opened it before."""
    with pytest.raises(StoreNotEmpty, match=f"tables in {schema_of(source)} "):
        await restore_store(dump, target)


async def test_an_unfinished_copy_can_be_neither_dumped_nor_restored_into(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    await backup_store(source, dump)
    target = elsewhere(source)

    def stop(step: CopyStep) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_store(await made(place("sqlite")), target, progress=stop)
    with pytest.raises(StoreUnfinished):
        await restore_store(dump, target)
    with pytest.raises(StoreUnfinished):
        await backup_store(target, tmp_path / "half.dump")
    assert not (tmp_path / "half.dump").exists()


@pytest.mark.parametrize("cut", [True, False])
async def test_restoring_a_damaged_dump_changes_nothing(
    cut: bool, place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    await made(source, *(f"more-{os.urandom(20).hex()}" for _ in range(200)))
    await backup_store(source, dump)
    data = dump.read_bytes()
    # The contents of tables follow the list of them, and are compressed.
    middle = len(data) * 3 // 4
    dump.write_bytes(data[:middle] if cut else data[:middle] + b"\xff" * 400 + data[middle + 400 :])
    with pytest.raises(StoreUnavailable, match="pg_restore failed"):
        await restore_store(dump, elsewhere(source))
    with pytest.raises(StoreUnavailable, match="there is no store"):
        await store_info(elsewhere(source))


async def test_a_failed_dump_leaves_no_files(
    place: Place, elsewhere: Place, tmp_path: Path
) -> None:
    source = await made(place("postgresql"))
    folder = tmp_path / "shelf"
    folder.mkdir(mode=0o500)
    with modes_count(), pytest.raises(StoreUnavailable, match="Permission denied"):
        await backup_store(source, folder / "desk.dump")
    folder.chmod(0o700)
    with pytest.raises(StoreUnavailable, match="No such file"):
        await backup_store(source, folder / "no" / "desk.dump")
    assert list(folder.iterdir()) == []


async def test_cancelling_a_dump_ends_its_program(
    place: Place, tools: Path, tmp_path: Path
) -> None:
    source = await made(place("postgresql"))
    began = tmp_path / "began"
    os.mkfifo(began)
    for name in ("pg_dump", "pg_restore"):
        script(
            tools,
            name,
            'test "$1" = --version && echo "x (PostgreSQL) 99" && exit\n'
            f"echo $$ > {shlex.quote(str(began))}; exec /bin/sleep 600",
        )
    task = asyncio.create_task(backup_store(source, tmp_path / "desk.dump"))
    pid = int(await asyncio.to_thread(began.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(tmp_path.glob("*.dump*"))


@pytest.mark.parametrize("version", [None, "9.6.1", "nothing"])
async def test_a_missing_or_old_dump_program_is_reported_with_the_command(
    version: str | None, place: Place, tools: Path, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    guarded = source.replace("postgres@", "postgres:hush@")
    if version is not None:
        for name in ("pg_dump", "pg_restore"):
            script(tools, name, f"echo '{name} (PostgreSQL) {version}'")
    with pytest.raises(ToolMissing) as missing:
        await backup_store(guarded, dump)
    told = str(missing.value)
    assert "postgresql-client-1" in told
    command = shlex.split(told.partition("PGPASSWORD: ")[2])
    assert command[0] == "pg_dump"
    assert f'--schema="{schema_of(source)}"' in command
    assert f"--file={dump}" in command
    dump.write_bytes(b"PGDMP")
    with pytest.raises(ToolMissing, match="pg_restore --single-transaction") as missing:
        await restore_store(dump, place("postgresql").replace("postgres@", "postgres:hush@"))
    for text in (told, str(missing.value)):
        assert "hush" not in text


async def test_the_printed_dump_command_can_be_run(
    place: Place,
    elsewhere: Place,
    postgres_tools: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "")
        with pytest.raises(ToolMissing) as missing:
            await backup_store(source, dump)
    command = shlex.split(str(missing.value).partition("PGPASSWORD: ")[2])
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
    await restore_store(dump, elsewhere(source))
    assert same(await rows_of(elsewhere(source))) == same(await rows_of(source))


async def test_a_password_appears_in_no_command_and_no_message(
    place: Place, postgres_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    folder, seen = tmp_path / "bin", tmp_path / "seen"
    folder.mkdir()
    for name in ("pg_dump", "pg_restore"):
        script(folder, name, f'echo "$@" >> {seen}; exec {postgres_tools / name} "$@"')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for guarded in (
        source.replace("postgres@", "postgres:hu%73h@"),
        f"{source}&password=hush&statement_timeout=0",
    ):
        await backup_store(guarded, dump)
        dump.unlink()
    assert "hush" not in seen.read_text()
    assert "hu%73h" not in seen.read_text()
    script(
        folder,
        "pg_dump",
        'test "$1" = --version && echo "x (PostgreSQL) 99" && exit\n'
        'echo "pg_dump: error: the password $PGPASSWORD is wrong" >&2; exit 1',
    )
    with pytest.raises(StoreUnavailable, match="pg_dump failed: the password … is wrong"):
        await backup_store(guarded, dump)


@pytest.mark.slow
async def test_a_wrong_password_is_reported_and_the_right_one_works(
    postgres_tools: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "desk.dump"
    with private_server() as server:
        connection = await asyncpg.connect(server.url)
        await connection.execute("create role guarded login superuser password 'hush'")
        rules = Path(await connection.fetchval("select current_setting('hba_file')"))
        rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
        await connection.execute("select pg_reload_conf()")
        await connection.close()
        right = server.url.replace("postgres@", "guarded:hush@")
        wrong = server.url.replace("postgres@", "guarded:hushhush@")
        await made(right)
        with pytest.raises(StoreUnavailable, match="password authentication failed") as refused:
            await backup_store(wrong, dump)
        assert "hush" not in str(refused.value)
        assert not dump.exists()
        await backup_store(right, dump)
        execute_at(f"{right}&schema=ekiden", "drop schema ekiden cascade")
        with pytest.raises(StoreUnavailable, match="password authentication failed") as refused:
            await restore_store(dump, wrong)
        assert "hush" not in str(refused.value)
        await restore_store(dump, right)
        assert await sessions_at(right) == {"s1", "s2"}


async def test_a_role_without_permissions_is_reported(
    place: Place, postgres_tools: Path, postgres_server_url: str, tmp_path: Path
) -> None:
    source, dump = await made(place("postgresql")), tmp_path / "desk.dump"
    await backup_store(source, dump)
    role = f"reader_{os.urandom(4).hex()}"
    connection = await asyncpg.connect(postgres_server_url)
    await connection.execute(f"create role {role} login")
    try:
        limited = source.replace("postgres@", f"{role}@")
        with pytest.raises(UserError, match="may not use"):
            await backup_store(limited, tmp_path / "other.dump")
        execute_at(source, f'drop schema "{schema_of(source)}" cascade')
        with pytest.raises(StoreUnavailable, match="pg_restore failed: .*permission denied"):
            await restore_store(dump, limited)
    finally:
        await connection.execute(f"drop role {role}")
        await connection.close()
    assert not (tmp_path / "other.dump").exists()
