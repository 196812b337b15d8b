"""`ekiden store …`, `mirror …` and `audit …`: whole stores, their replica and their audit log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from ekiden.api.administration import AuditedType, HandoffMove
from ekiden.cli.errors import Exit, NoRecord, UsageError
from ekiden.cli.ids import record_id, session_id
from ekiden.cli.options import (
    LISTING,
    JsonOption,
    Listing,
    OutputOption,
    SinceOption,
    StoreOption,
    TrustOption,
    UntilOption,
    about,
    moment,
)
from ekiden.cli.output import emit, export_lines, new_file, note, print_pairs, say, show
from ekiden.cli.place import HERE, Place

if TYPE_CHECKING:
    from ekiden.project.copying import BackupReport
    from ekiden.project.settings import Settings

TenantsOption: TypeAlias = Annotated[
    str | None,
    about(
        "Only the stores of these tenants, separated by commas. Default: all tenants.",
        name="--tenants",
    ),
]


async def store_copy(
    source: Annotated[str, about("SQLite store to copy: a path, or sqlite:///path.")],
    target: Annotated[
        str, about("Database to copy to, written as postgresql://…. It must not contain a store.")
    ],
    /,
    *,
    tenants: TenantsOption = None,
    resume: Annotated[
        bool, about("Restart an interrupted copy. The command removes the incomplete data first.")
    ] = False,
    final: Annotated[
        bool,
        about(
            "Fail if the source is still in use. Use this option for the final move to the target."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Copy everything from SQLite to PostgreSQL, and compare the two.

    The copy is a snapshot of the source at the start of the command. The source is not changed. You
    cannot use the target until the command has compared it with the source and verified the
    target's audit log. If the audit log of the source is broken, the exit code is 8.
    """
    from ekiden.cli.views.administration import StepLine, print_report
    from ekiden.project.copying import copy_store

    with StepLine(as_json=as_json) as progress:
        report = await copy_store(
            source, target, tenants=_names(tenants), resume=resume, final=final, progress=progress
        )
    show(report.to_json(), lambda _: print_report(report), as_json=as_json)
    return Exit.OK if report.audit_ok else Exit.TAMPERED


async def store_backup(
    file: Annotated[Path, about("New file for the backup.")],
    /,
    *,
    tenants: TenantsOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Back up the store into a file, while it is in use.

    The backup of a SQLite store is also a SQLite store. Open it with `--store FILE`. The stores of
    other tenants are written into a folder next to this file. The backup of a PostgreSQL store is a
    dump made by pg_dump. If the store has errors, the exit code is 8.
    """
    from ekiden.cli.projects import store_address
    from ekiden.project.copying import backup_store

    if file.is_dir():
        raise UsageError(f"{file} is a folder: name a file")
    return await _reported(
        partial(backup_store, store_address(store), file, tenants=_names(tenants)), as_json=as_json
    )


async def store_restore(
    file: Annotated[Path, about("File with the backup. The file is not changed.")],
    /,
    *,
    tenants: TenantsOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Restore a backup into an empty or new store, and verify the store."""
    from ekiden.cli.projects import store_address
    from ekiden.project.copying import restore_store

    return await _reported(
        partial(restore_store, file, store_address(store), tenants=_names(tenants)), as_json=as_json
    )


async def store_verify(
    *, tenants: TenantsOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Check all data in the store, and report errors. Nothing is changed.

    The command checks the audit log of every session, event numbers, orphaned rows, and stored
    JSON. It also checks the SQLite file, or the page checksums of PostgreSQL. If there is any
    error, the exit code is 8.
    """
    from ekiden.cli.projects import store_address
    from ekiden.cli.views.administration import StepLine, print_findings
    from ekiden.project.copying import verify_store

    with StepLine(as_json=as_json) as progress:
        found = await verify_store(store_address(store), tenants=_names(tenants), progress=progress)
    ok = all(each.ok for each in found)
    record = {"ok": ok, "tenants": [each.to_json() for each in found]}
    show(record, lambda _: print_findings(found), as_json=as_json)
    return Exit.OK if ok else Exit.TAMPERED


async def store_info(
    *, tenants: TenantsOption = None, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Show the store's format and size. Nothing is changed."""
    from ekiden.cli.projects import store_address
    from ekiden.cli.views.administration import print_info
    from ekiden.project.copying import store_info as facts_of

    found = await facts_of(store_address(store), tenants=_names(tenants))
    show(found, print_info, as_json=as_json)


async def store_migrate(
    *,
    dry_run: Annotated[
        bool, about("Only show the migrations that the store needs. Nothing is changed.")
    ] = False,
    tenants: TenantsOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring the store to the format of this version.

    You need not run this command: a process also migrates a store when it opens it. Use the command
    to migrate at a time of your choice. An interrupted migration changes nothing; run the command
    again. The exit code is 0 whether or not the store needs migrations.
    """
    from ekiden.cli.projects import store_address
    from ekiden.cli.views.administration import print_migrations
    from ekiden.project.copying import migrate_store, pending_migrations

    work = pending_migrations if dry_run else migrate_store
    found = await work(store_address(store), tenants=_names(tenants))
    record = [{**each.to_json(), "migrated": bool(each.pending) and not dry_run} for each in found]
    show(record, lambda _: print_migrations(found, dry_run=dry_run), as_json=as_json)


async def _reported(work: Callable[..., Awaitable[BackupReport]], *, as_json: bool) -> int:
    from ekiden.cli.views.administration import StepLine, print_backup

    with StepLine(as_json=as_json) as progress:
        report = await work(progress=progress)
    show(report.to_json(), lambda _: print_backup(report), as_json=as_json)
    return Exit.OK if report.ok else Exit.TAMPERED


def _names(tenants: str | None) -> list[str] | None:
    return None if tenants is None else [each.strip() for each in tenants.split(",")]


async def mirror_run(
    *,
    once: Annotated[bool, about("Send pending events, and do not wait for new ones.")] = False,
    store: StoreOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> int:
    """Copy session events to another system, the mirror, as they happen.

    The settings `mirror.…` define the mirror. While the mirror is unavailable, events wait in the
    store. After Ctrl-C, the next call of the command continues at the same event. If several
    processes run this command, one of them sends events. If this process stops, another one takes
    over. With --once, the exit code is 1 if an event could not be sent.
    """
    import asyncio
    import signal

    from ekiden.cli.process import on_signals
    from ekiden.project import open_store
    from ekiden.project.stores import session_replica
    from ekiden.sessions.replica import ReplicaPolicy
    from ekiden.sessions.replica_feed import replicate_sessions

    settings = _settings(trust=trust)
    mirror = session_replica(settings.mirror)
    policy = ReplicaPolicy(include_sensitive_data=settings.mirror.include_sensitive_data)
    async with open_store(settings.store if store is None else store, create=False) as opened:
        if not (once or as_json):
            note(f"mirroring to {mirror.name}; Ctrl-C ends it")
        try:
            stop = asyncio.Event()
            with on_signals(stop.set, (signal.SIGTERM,)):
                report = await replicate_sessions(
                    opened, mirror, once=once, stop=stop, policy=policy
                )
        finally:
            await mirror.close()
    if as_json:
        emit({"mirror": mirror.name, **asdict(report)})
    elif report.busy:
        say(f"another process sends to {mirror.name}")
    else:
        say(
            f"sent: {report.sent}, set aside: {report.set_aside}, sessions waiting: "
            f"{report.waiting}"
        )
        if report.problem is not None and report.waiting:
            note(f"{mirror.name}: {report.problem}; unsent events wait")
    if report.busy:
        return Exit.BUSY
    return Exit.FAILED if once and report.waiting else Exit.OK


async def mirror_status(*, place: Place = HERE, as_json: JsonOption = False) -> None:
    """Show how many events were replicated. The command does not contact the mirror."""
    from ekiden.cli.views.administration import print_status
    from ekiden.core.errors import UserError
    from ekiden.core.errors.server import NotServed

    async with place.open() as ekiden:
        try:
            found = await ekiden.mirror.status()
        except NotServed as exc:
            raise UserError(str(exc)) from exc
    show(found, print_status, as_json=as_json)


def _settings(*, trust: bool) -> Settings:
    from ekiden.cli.prompts import check_some
    from ekiden.project.settings import load_settings
    from ekiden.project.trust import inspect_workspace

    loaded = load_settings(Path.cwd())
    check_some(inspect_workspace(Path.cwd(), loaded), "mirror.", "store", trust=trust)
    return loaded.settings


# The audit log.


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AuditListOptions:
    """Filters for records. A missing filter matches all records."""

    agent: Annotated[
        str | None,
        about("Only records in which this agent is the actor, the source or the target."),
    ] = None
    task: Annotated[str | None, about("Only records of this task.")] = None
    correlation: Annotated[str | None, about("Only records with this correlation id.")] = None
    status: Annotated[
        HandoffMove | None, about("Only records of handoffs that changed to this status.")
    ] = None
    session: Annotated[str | None, about("Only records of this session.")] = None
    handoff: Annotated[str | None, about("Only records of the handoff with this id.")] = None
    type: Annotated[AuditedType | None, about("Only records of this type.")] = None
    since: SinceOption = None
    until: UntilOption = None

    def given(self) -> dict[str, Any]:
        """The filters by name. Raises `UsageError` for an invalid time."""

        found = {each.name: getattr(self, each.name) for each in fields(self)}
        times = {name: moment(found[name], option=f"--{name}") for name in ("since", "until")}
        return {**found, **times}


EVERYTHING = AuditListOptions()


async def audit_list(
    filters: AuditListOptions = EVERYTHING,
    *,
    oldest_first: Annotated[bool, about("List the oldest records first.")] = False,
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List the records of the audit log, newest first: handoffs and decisions, with their actors
    and reasons."""
    from ekiden.cli.views.administration import record_table

    wanted = filters.given()
    async with place.open() as ekiden:
        wanted["session"] = await session_id(ekiden.sessions, wanted["session"] or "") or None
        found = ekiden.audit.list(**wanted, oldest_first=oldest_first)
        await listing.show(found, record_table, none="no records")


async def audit_show(
    record: Annotated[str, about("Id of an audit record or of a handoff.")],
    /,
    *,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show an audit record, or all records of a handoff."""
    from ekiden.cli.views.administration import record_pairs
    from ekiden.core.documents import to_json
    from ekiden.core.errors.server import AuditRecordNotFound

    if not record:
        raise NoRecord(record)
    async with place.open() as ekiden:
        try:
            found = [each async for each in ekiden.audit.get(await record_id(ekiden, record))]
        except AuditRecordNotFound:
            raise NoRecord(record) from None
    if as_json:
        emit(to_json(found))
        return
    for number, each in enumerate(found):
        if number:
            say()
        print_pairs(record_pairs(each))


async def audit_verify(
    *,
    session: Annotated[str | None, about("Check only this session.")] = None,
    against: Annotated[
        Path | None,
        about(
            "File that `ekiden audit export` wrote. Each record in the file must still exist "
            "unchanged in the store."
        ),
    ] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Check that no stored event was altered, and show the first broken link of each session.

    Each audit record is linked to the previous one by its hash. If a link is broken, the exit code
    is 8. Events without a hash, from runs with `RunConfig(events=False)`, are counted but are not
    errors. On a terminal, the command shows its progress; with --server, it shows the elapsed time.
    """
    from contextlib import nullcontext

    from ekiden.cli.views.administration import ProgressLine, print_verification

    opened = nullcontext() if against is None else export_lines(against)
    with ProgressLine(as_json=as_json) as progress, opened as lines:
        at_server = progress.timing(is_server=place.is_server)
        async with place.open(progress=progress) as ekiden, at_server:
            chosen = await session_id(ekiden.sessions, session or "") or None
            found = await ekiden.audit.verify(session_id=chosen, against=lines)
    show(found, print_verification, as_json=as_json)
    return Exit.OK if found.ok else Exit.TAMPERED


async def audit_export(
    filters: AuditListOptions = EVERYTHING,
    *,
    output: OutputOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Write audit records as JSON lines. The last line, the manifest, has the number of records and
    their hashes.

    The output is the same with and without --json.
    """
    from contextlib import aclosing

    wanted = filters.given()
    count = 0
    async with place.open() as ekiden, aclosing(ekiden.audit.export(**wanted)) as lines:
        if output is None:
            async for line in lines:
                say(line)
            return
        with new_file(output) as file:
            async for line in lines:
                file.write(f"{line}\n")
                count += 1
    note(f"wrote {max(count - 1, 0)} records to {output}")
