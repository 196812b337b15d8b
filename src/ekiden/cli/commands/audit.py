"""`ekiden audit …`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ekiden.api.administration import AuditedType, HandoffMove
from ekiden.cli.ids import record_id, session_id
from ekiden.cli.options import LISTING, JsonOption, Listing, OutputOption, SinceOption, UntilOption
from ekiden.cli.output import show
from ekiden.cli.place import HERE, Place


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AuditListOptions:
    """Filters for records. A missing filter matches all records."""

    agent: Annotated[
        str | None,
        Parameter(help="Only records in which this agent is the actor, the source or the target."),
    ] = None
    task: Annotated[str | None, Parameter(help="Only records of this task.")] = None
    correlation: Annotated[str | None, Parameter(help="Only records with this correlation id.")] = (
        None
    )
    status: Annotated[
        HandoffMove | None, Parameter(help="Only records of handoffs that changed to this status.")
    ] = None
    session: Annotated[str | None, Parameter(help="Only records of this session.")] = None
    handoff: Annotated[str | None, Parameter(help="Only records of the handoff with this id.")] = (
        None
    )
    type: Annotated[AuditedType | None, Parameter(help="Only records of this type.")] = None
    since: SinceOption = None
    until: UntilOption = None

    def given(self) -> dict[str, Any]:
        """The filters by name. Raises `UsageError` for an invalid time."""
        from ekiden.cli.options import moment

        found = {each.name: getattr(self, each.name) for each in fields(self)}
        times = {name: moment(found[name], option=f"--{name}") for name in ("since", "until")}
        return {**found, **times}


EVERYTHING = AuditListOptions()


async def audit_list(
    filters: AuditListOptions = EVERYTHING,
    *,
    oldest_first: Annotated[bool, Parameter(help="List the oldest records first.")] = False,
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
    record: Annotated[str, Parameter(help="Id of an audit record or of a handoff.")],
    /,
    *,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show an audit record, or all records of a handoff."""
    from ekiden.cli.errors import NoRecord
    from ekiden.cli.output import emit, print_pairs, say
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
    session: Annotated[str | None, Parameter(help="Check only this session.")] = None,
    against: Annotated[
        Path | None,
        Parameter(
            help="File from an earlier export. Each record in the file must still exist unchanged "
            "in the store."
        ),
    ] = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Check that no stored event was altered, and show the first broken link of each session.

    Each audit record is linked to the previous one by its hash. If a link is broken, the exit code
    is 8. Events of runs with `events=False` have no hash. Such events are counted, but are not an
    error. On a terminal, the command shows its progress; with --server, it shows the elapsed time.
    """
    from contextlib import nullcontext

    from ekiden.cli.errors import Exit
    from ekiden.cli.output import export_lines
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
    """Write audit records as JSON lines. The last line is the manifest.

    The output is the same with and without --json.
    """
    from contextlib import aclosing

    from ekiden.cli.output import new_file, note, say

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
