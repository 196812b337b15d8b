"""`ekiden audit …`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.options import STORE, JsonOption, StoreOption

if TYPE_CHECKING:
    from ekiden.audit import AuditQuery


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which records; what is not given does not restrict."""

    agent: Annotated[
        str | None, Parameter(help="Only where this agent acted, had the work or was to get it.")
    ] = None
    task: Annotated[str | None, Parameter(help="Only those of this task.")] = None
    correlation: Annotated[str | None, Parameter(help="Only those with this correlation id.")] = (
        None
    )
    status: Annotated[
        Literal["initiated", "validating", "transferring", "completed", "failed", "rolled_back"]
        | None,
        Parameter(help="Only moves of handoffs to this status."),
    ] = None
    session: Annotated[str | None, Parameter(help="Only those of this session.")] = None
    handoff: Annotated[str | None, Parameter(help="Only those of the handoff with this id.")] = None
    type: Annotated[
        Literal["handoff", "route", "tool_confirmation", "inbox", "guardrail"] | None,
        Parameter(help="Only those of this type."),
    ] = None
    since: Annotated[
        str | None, Parameter(help="From then on: a date, a date with a time, or 2h, 7d ago.")
    ] = None
    until: Annotated[str | None, Parameter(help="Before then; as --since.")] = None

    def query(self) -> AuditQuery:
        """What the audit is asked; `UsageError` for what is no time."""
        from ekiden.audit import AuditQuery
        from ekiden.cli.moments import moment

        return AuditQuery(
            agent=self.agent,
            task=self.task,
            correlation_id=self.correlation,
            status=self.status,
            session_id=self.session,
            handoff_id=self.handoff,
            type=self.type,
            since=moment(self.since, option="--since"),
            until=moment(self.until, option="--until"),
        )


EVERYTHING = Filters()
OutputOption: TypeAlias = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="A new file to write to.")
]


async def audit_list(
    filters: Filters = EVERYTHING,
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=1000), help="How many.")] = 50,
    cursor: Annotated[str | None, Parameter(help="Go on where the last page ended.")] = None,
    oldest_first: Annotated[
        bool, Parameter(negative="", show_default=False, help="Begin with the oldest.")
    ] = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """List who handed what to whom, who decided and why, newest first."""
    from dataclasses import replace

    from ekiden.app import open_store
    from ekiden.audit import audit_records
    from ekiden.cli.audit_view import print_page
    from ekiden.cli.projects import store_address

    query = replace(filters.query(), newest_first=not oldest_first)
    async with open_store(store_address(store), create=False) as opened:
        page = await audit_records(opened, query, limit=limit, cursor=cursor)
    print_page(page, as_json=as_json)


async def audit_show(
    record: Annotated[str, Parameter(help="The id of a record, or of a handoff.")],
    /,
    *,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Show a record, or all records of a handoff."""
    from ekiden.app import open_store
    from ekiden.audit import find_records
    from ekiden.cli.audit_view import record_pairs
    from ekiden.cli.errors import NoRecord
    from ekiden.cli.output import emit, say
    from ekiden.cli.projects import store_address
    from ekiden.cli.tables import print_pairs

    async with open_store(store_address(store), create=False) as opened:
        found = await find_records(opened, record)
    if not found:
        raise NoRecord(record)
    if as_json:
        emit([each.to_json() for each in found])
        return
    for number, each in enumerate(found):
        if number:
            say()
        print_pairs(record_pairs(each))


async def audit_verify(
    *,
    session: Annotated[str | None, Parameter(help="Only this session.")] = None,
    against: Annotated[
        Path | None,
        Parameter(help="An earlier export: each of its records must still be there as it was."),
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Find out whether somebody changed what is stored; names the first broken link."""
    from contextlib import ExitStack

    from ekiden.app import open_store
    from ekiden.audit import verify_audit
    from ekiden.cli.audit_files import export_lines
    from ekiden.cli.audit_view import ProgressLine, print_verification
    from ekiden.cli.exits import Exit
    from ekiden.cli.output import emit
    from ekiden.cli.projects import store_address

    progress = ProgressLine(as_json=as_json)
    with ExitStack() as files:
        lines = None if against is None else files.enter_context(export_lines(against))
        async with open_store(store_address(store), create=False) as opened:
            try:
                found = await verify_audit(
                    opened, session_id=session, against=lines, progress=progress
                )
            finally:
                progress.close()
    if as_json:
        emit(found.to_json())
    else:
        print_verification(found)
    return Exit.OK if found.ok else Exit.TAMPERED


async def audit_export(
    filters: Filters = EVERYTHING,
    *,
    output: OutputOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Write records as JSON lines, which they are with or without --json; the last line is the
    manifest."""
    from ekiden.app import open_store
    from ekiden.audit import export_audit
    from ekiden.cli.audit_files import new_file
    from ekiden.cli.output import note, say
    from ekiden.cli.projects import store_address

    query = filters.query()
    async with open_store(store_address(store), create=False) as opened:
        if output is None:
            await export_audit(opened, query, lambda line: say(line.removesuffix("\n")))
            return
        with new_file(output) as file:
            manifest = await export_audit(opened, query, file.write)
    note(f"{manifest.records} records are in {output}")
