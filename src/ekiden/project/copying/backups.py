"""Backups of stores. The backup of a SQLite store is a SQLite file. The backup of a PostgreSQL
store is a dump."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import StoreNotEmpty
from ekiden.core.faults import fault_point
from ekiden.project.copying.whole_stores import (
    BackupReport,
    Progress,
    StoreFindings,
    check_source,
    file_at,
    refuse_other_tenants,
    shown,
    sqlite_snapshot,
    target_state,
    tenant_file,
    tenants_at,
    verified,
    work_folder,
)
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.storage.sqlite.copying import SqliteSnapshot, copy_file, put_in_place

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
        from ekiden.project.copying.dumps import dump_store

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
        from ekiden.project.copying.dumps import restore_dump

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
        source=shown(source),
        target=shown(target),
        tenants=found,
        seconds=time.monotonic() - began,
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
