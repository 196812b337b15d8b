"""Backups of PostgreSQL stores, written by `pg_dump` and restored by `pg_restore`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.errors.stored_data import StoreNotEmpty, StoreUnfinished
from ekiden.core.faults import fault_point
from ekiden.project.copying.whole_stores import (
    BackupReport,
    Progress,
    StoreFindings,
    check_source,
    snapshot_at,
    tenants_at,
    verified,
    work_folder,
)
from ekiden.project.stores import JOINT, tenant_url
from ekiden.storage.postgres.address import (
    PostgresAddress,
    dump_arguments,
    find_tool,
    login_of,
    parse_address,
    restore_arguments,
    run_tool,
)
from ekiden.storage.postgres.snapshot import PostgresSnapshot, PostgresTarget
from ekiden.storage.sqlite.copying import move_to_new, sync


async def dump_store(url: str, file: Path, *, tenants: Collection[str] | None) -> BackupReport:
    """Write the schemas of the tenants to a dump, in one snapshot."""
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
