"""`ekiden store …`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import STORE, JsonOption, StoreOption

if TYPE_CHECKING:
    from ekiden.project.copying import BackupReport

TenantsOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--tenants", help="Only the stores of these tenants, as default,acme; all by default."
    ),
]


async def store_copy(
    source: Annotated[str, Parameter(help="A SQLite store: a path, or sqlite:///path.")],
    target: Annotated[str, Parameter(help="postgresql://…, a database without a store.")],
    /,
    *,
    tenants: TenantsOption = None,
    resume: Annotated[
        bool,
        Parameter(
            name="--resume",
            negative="",
            show_default=False,
            help="Repeat an interrupted copy: remove the incomplete data and start again.",
        ),
    ] = False,
    final: Annotated[
        bool,
        Parameter(
            name="--final",
            negative="",
            show_default=False,
            help="Fail if the source is still in use: for a final move.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Copy everything from SQLite to PostgreSQL, and compare the two.

    The copy has the state of the source when the command started; the source is not changed. The
    target cannot be used until it was compared and its audit verified. The exit code is 8 when the
    audit of the source is broken.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.terminal.output import emit
    from ekiden.cli.views.audit import StepLine, print_report
    from ekiden.project.copying import copy_store

    progress = StepLine(as_json=as_json)
    try:
        report = await copy_store(
            source, target, tenants=_names(tenants), resume=resume, final=final, progress=progress
        )
    finally:
        progress.close()
    if as_json:
        emit(report.to_json())
    else:
        print_report(report)
    return Exit.OK if report.audit_ok else Exit.TAMPERED


async def store_backup(
    file: Annotated[Path, Parameter(help="A new file.")],
    /,
    *,
    tenants: TenantsOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Back up the store into a file, while it is in use.

    The backup of a SQLite store is a SQLite store: open it with `--store FILE`. Stores of other
    tenants go into a folder next to it. The backup of a PostgreSQL store is a dump of pg_dump. The
    exit code is 8 when the store has faults.
    """
    from ekiden.cli.projects import store_address
    from ekiden.project.copying import backup_store

    if file.is_dir():
        raise UsageError(f"{file} is a folder: name a file")
    return await _reported(
        partial(backup_store, store_address(store), file, tenants=_names(tenants)), as_json=as_json
    )


async def store_restore(
    file: Annotated[Path, Parameter(help="The backup file.")],
    /,
    *,
    tenants: TenantsOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Restore a backup into an empty or new store, and verify it; the file is not changed."""
    from ekiden.cli.projects import store_address
    from ekiden.project.copying import restore_store

    return await _reported(
        partial(restore_store, file, store_address(store), tenants=_names(tenants)),
        as_json=as_json,
    )


async def store_verify(
    *, tenants: TenantsOption = None, store: StoreOption = STORE, as_json: JsonOption = False
) -> int:
    """Read everything in the store, and report faults; nothing is changed.

    It checks the audit of every session, event numbers, orphaned rows, JSON, and the SQLite file or
    PostgreSQL's page checksums. The exit code is 8 for any fault.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.projects import store_address
    from ekiden.cli.terminal.output import emit
    from ekiden.cli.views.audit import StepLine, print_findings
    from ekiden.project.copying import verify_store

    progress = StepLine(as_json=as_json)
    try:
        found = await verify_store(store_address(store), tenants=_names(tenants), progress=progress)
    finally:
        progress.close()
    ok = all(each.ok for each in found)
    if as_json:
        emit({"ok": ok, "tenants": [each.to_json() for each in found]})
    else:
        print_findings(found)
    return Exit.OK if ok else Exit.TAMPERED


async def store_info(
    *, tenants: TenantsOption = None, store: StoreOption = STORE, as_json: JsonOption = False
) -> None:
    """Show the store's format and size; nothing is changed."""
    from ekiden.cli.projects import store_address
    from ekiden.cli.terminal.output import emit
    from ekiden.cli.views.audit import print_info
    from ekiden.project.copying import store_info as facts_of

    found = await facts_of(store_address(store), tenants=_names(tenants))
    if as_json:
        emit(found)
    else:
        print_info(found)


async def _reported(work: Callable[..., Awaitable[BackupReport]], *, as_json: bool) -> int:
    from ekiden.cli.exits import Exit
    from ekiden.cli.terminal.output import emit
    from ekiden.cli.views.audit import StepLine, print_backup

    progress = StepLine(as_json=as_json)
    try:
        report = await work(progress=progress)
    finally:
        progress.close()
    if as_json:
        emit(report.to_json())
    else:
        print_backup(report)
    return Exit.OK if report.ok else Exit.TAMPERED


def _names(tenants: str | None) -> list[str] | None:
    return None if tenants is None else [each.strip() for each in tenants.split(",")]
