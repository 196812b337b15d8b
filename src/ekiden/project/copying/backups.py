"""Backups of stores. The backup of a SQLite store is a SQLite file. The backup of a PostgreSQL
store is a dump.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import StoreNotEmpty, StoreUnfinished
from ekiden.core.faults import fault_point
from ekiden.project.copying.whole_stores import (
    BackupReport,
    Progress,
    StoreFindings,
    check_source,
    file_at,
    refuse_other_tenants,
    shown,
    snapshot_at,
    sqlite_snapshot,
    target_state,
    tenant_file,
    tenants_at,
    verified,
    work_folder,
)
from ekiden.project.stores import DEFAULT_TENANT, JOINT, tenant_url
from ekiden.storage.sqlite.copying import SqliteSnapshot, copy_file, move_to_new, put_in_place, sync

if TYPE_CHECKING:
    from ekiden.storage.postgres.address import PostgresAddress

_DUMP = b"PGDMP"
"""The first bytes of a PostgreSQL dump."""


async def backup_store(
    url: str,
    file: Path,
    *,
    tenants: Collection[str] | None = None,
    progress: Progress | None = None,
) -> BackupReport:
    """Back up the store at `url` into a new file. Other processes may use the store meanwhile.

    The backup of a SQLite store is a SQLite file, with the stores of other tenants in a folder
    beside it. The backup of a PostgreSQL store is a dump of all tenants by `pg_dump`. The file gets
    its final name when it is complete and checked. A killed backup leaves a folder whose name is a
    dot followed by the name of the file.

    Raises `StoreNotEmpty`, `StoreUnfinished`, `NotCopyable`, `ToolMissing`, `StoreUnavailable` and
    `UserError`. For example::

        report = await backup_store("desk.db", Path("monday.db"))
        print(report.ok)
    """
    if file_at(url) is None:
        return await dump_store(url, file, tenants=tenants)
    return await _copy_files(url, _url(file), tenants, progress)


async def restore_store(
    file: Path,
    url: str,
    *,
    tenants: Collection[str] | None = None,
    progress: Progress | None = None,
) -> BackupReport:
    """Restore a backup into a store that is empty or does not exist. The backup file is not
    changed.

    `pg_restore` restores a dump as a whole, in one transaction; the store must not exist yet.
    Raises the same errors as `backup_store`.
    """
    if _is_dump(file):
        if file_at(url) is not None:
            raise UserError(
                f"{file} is a dump of PostgreSQL: restore it with --store postgresql://…"
            )

        if tenants is not None:
            raise UserError(f"{file} is a dump, which is restored as a whole: leave out --tenants")
        return await restore_dump(file, url, progress=progress)
    if file_at(url) is None:
        raise UserError(
            f"{file} is not a dump of PostgreSQL; copy a SQLite file to PostgreSQL with "
            f"`ekiden store copy '{file}' '{shown(url)}'`"
        )
    return await _copy_files(_url(file), url, tenants, progress)


def _is_dump(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_DUMP)) == _DUMP
    except OSError:
        # Opening it as a store reports the error.
        return False


def _url(file: Path) -> str:
    """The address of a file; a bare path could be read as another kind of address."""
    return f"sqlite:///{file}"


async def _copy_files(
    source: str, target: str, tenants: Collection[str] | None, progress: Progress | None
) -> BackupReport:
    began = time.monotonic()
    names = await tenants_at(source, tenants)
    await _check_places(source, target, names)
    found: list[StoreFindings] = []
    with work_folder(tenant_file(target)) as folder:
        fault_point("backup.begun")
        for name in names:
            new = folder / f"{name}.db"
            await copy_file(tenant_file(source, name), new)
            fault_point("backup.written")
            findings = await verified(name, SqliteSnapshot(new), progress)
            found.append(replace(findings, url=str(tenant_file(target, name))))
        fault_point("backup.checked")
        # The main store is moved last: if it exists, the backup is complete.
        for name in reversed(names):
            place = tenant_file(target, name)
            place.parent.mkdir(exist_ok=True)
            put_in_place(folder / f"{name}.db", place)
            fault_point("backup.moved")
    return BackupReport(
        source=shown(source), target=shown(target), tenants=found, seconds=time.monotonic() - began
    )


async def _check_places(source: str, target: str, names: Sequence[str]) -> None:
    """Raise the errors that would stop the copy, before anything is written."""
    main = tenant_file(target)
    if main.exists() and main.samefile(tenant_file(source)):
        raise UserError(f"{main} is source and target at once: name another file")
    for name in names:
        async with sqlite_snapshot(source, name) as there:
            await check_source(there, final=False)
        state = await target_state(target, name)
        if state.holds:
            raise StoreNotEmpty(str(tenant_file(target, name)), state.holds)
        if name == DEFAULT_TENANT:
            await refuse_other_tenants(target, state.neighbours, await tenants_at(source, None))


# Dumps of PostgreSQL stores, written by `pg_dump` and restored by `pg_restore`.


async def dump_store(url: str, file: Path, *, tenants: Collection[str] | None) -> BackupReport:
    """Write the schemas of the tenants to a dump, in one snapshot."""
    from ekiden.storage.postgres.address import (
        dump_arguments,
        find_tool,
        login_of,
        parse_address,
        run_tool,
    )

    began = time.monotonic()
    names = await tenants_at(url, tenants)
    needed = 0
    for name in names:
        async with snapshot_at(url, name) as source:
            needed = _major(await check_source(source, final=False))
    address, target = parse_address(url), _new_file(file)
    login = login_of(address.dsn)
    schemas = [parse_address(tenant_url(url, name)).schema for name in names]
    by_hand = dump_arguments(login, schemas, target)
    pg_dump = await find_tool("pg_dump", needed=needed, by_hand=by_hand)
    pg_restore = await find_tool("pg_restore", needed=needed, by_hand=["--list", str(target)])
    with work_folder(target) as folder:
        fault_point("dump.begun")
        new = folder / "dump"
        # Created first, because `pg_dump` would create a file that other users may read.
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        await run_tool([pg_dump, "--no-password", *dump_arguments(login, schemas, new)], login)
        fault_point("dump.written")
        # Check the dump: read all of it, and discard the output.
        await run_tool([pg_restore, f"--file={os.devnull}", str(new)])
        sync(new)
        fault_point("dump.checked")
        move_to_new(new, target)
        sync(target.parent)
        fault_point("dump.moved")
    return BackupReport(
        source=address.shown, target=str(target), tenants=[], seconds=time.monotonic() - began
    )


async def restore_dump(file: Path, url: str, *, progress: Progress | None) -> BackupReport:
    """Restore all schemas in a dump in one transaction, and verify the restored stores."""
    from ekiden.storage.postgres.address import (
        find_tool,
        login_of,
        parse_address,
        restore_arguments,
        run_tool,
    )
    from ekiden.storage.postgres.snapshot import PostgresSnapshot, PostgresTarget

    began = time.monotonic()
    address = parse_address(url)
    login = login_of(address.dsn)
    arguments = restore_arguments(login, file)
    needed = await _check_target(address)
    pg_restore = await find_tool("pg_restore", needed=needed, by_hand=arguments)
    contents = await run_tool([pg_restore, "--list", arguments[-1]])
    if f" SCHEMA - {address.schema} " not in contents:
        raise UserError(
            f"{file} has no schema {address.schema}: a dump is restored under the name that it "
            "has; give it with the address, as postgresql://…?schema=NAME; "
            f"`pg_restore --list {file}` shows it"
        )
    fault_point("restore.begun")
    await run_tool([pg_restore, "--no-password", *arguments], login)
    fault_point("restore.written")
    found: list[StoreFindings] = []
    for name in await tenants_at(url, None):
        place = parse_address(tenant_url(url, name))
        async with PostgresTarget(place) as target:
            await target.analyze()
        found.append(await verified(name, PostgresSnapshot(place), progress))
    return BackupReport(
        source=str(file), target=address.shown, tenants=found, seconds=time.monotonic() - began
    )


async def _check_target(address: PostgresAddress) -> int:
    """The major version of the server. Raises `StoreNotEmpty` or `StoreUnfinished` if the target or
    a tenant has tables, even empty ones, because the dump creates them."""
    from ekiden.storage.postgres.snapshot import PostgresSnapshot

    async with PostgresSnapshot(address, may_be_absent=True) as target:
        facts, state = await target.facts(), await target.state(JOINT)
    if state.mark is not None:
        raise StoreUnfinished(address.shown, source=str(state.mark["source"]))
    schemas = [f"{address.schema}{JOINT}{name}" for name in state.neighbours]
    if facts["format"]:
        schemas.insert(0, address.schema)
    if schemas:
        found = f"{state.holds or 'tables'} in {', '.join(schemas)}"
        raise StoreNotEmpty(address.shown, f"{found} (drop schema … cascade removes one)")
    return _major(facts)


def _major(facts: Mapping[str, Any]) -> int:
    return int(re.split(r"\D", str(facts["version"]))[0])


def _new_file(file: Path) -> Path:
    if file.exists():
        raise StoreNotEmpty(str(file), "something else")
    return file.absolute()
