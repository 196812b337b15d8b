"""`ekiden audit … --server`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.cli.commands import audit as local
from ekiden.cli.errors import NoRecord
from ekiden.cli.exits import Exit
from ekiden.cli.output import emit, note, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_pairs
from ekiden.core.server_errors import AuditRecordNotFound

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.client.audit import AuditFilter


@like(local.audit_list)
async def audit_list(
    client: AsyncClient,
    *,
    filters: local.Filters,
    limit: int,
    cursor: str | None,
    oldest_first: bool,
    as_json: bool,
) -> None:
    """List who handed what to whom, who decided and why."""
    from ekiden.audit import AuditPage
    from ekiden.cli.audit_view import print_page
    from ekiden.cli.remote.reading import audit_record_of

    found = client.audit.list(oldest_first=oldest_first, **_filter(filters))
    page = await found.page(limit=limit, cursor=cursor)
    records = tuple(audit_record_of(each.raw) for each in page.items)
    print_page(AuditPage(records=records, next_cursor=page.next_cursor), as_json=as_json)


@like(local.audit_show)
async def audit_show(client: AsyncClient, *, record: str, as_json: bool) -> None:
    """Show a record, or all records of a handoff."""
    from ekiden.cli.audit_view import record_pairs
    from ekiden.cli.remote.reading import audit_record_of

    try:
        found = await client.audit.get(record)
    except AuditRecordNotFound:
        raise NoRecord(record) from None
    if as_json:
        emit([each.raw for each in found])
        return
    for number, each in enumerate(found):
        if number:
            say()
        print_pairs(record_pairs(audit_record_of(each.raw)))


@like(local.audit_verify)
async def audit_verify(
    client: AsyncClient, *, session: str | None, against: Path | None, as_json: bool
) -> int:
    """Find out whether somebody changed what is stored at the server."""
    from ekiden.cli.audit_files import export_lines
    from ekiden.cli.audit_view import print_verification
    from ekiden.cli.remote.reading import verification_of

    text = None
    if against is not None:
        with export_lines(against) as lines:
            text = "".join(lines)
    found = await client.audit.verify(session_id=session, against=text)
    if as_json:
        emit(found.raw)
    else:
        print_verification(verification_of(found.raw))
    return Exit.OK if found.ok else Exit.TAMPERED


@like(local.audit_export)
async def audit_export(
    client: AsyncClient, *, filters: local.Filters, output: Path | None, as_json: bool
) -> None:
    """Write records as JSON lines; the last line is the manifest."""
    from ekiden.cli.audit_files import new_file

    count = 0
    async with client.audit.export(**_filter(filters)) as lines:
        if output is None:
            async for line in lines:
                say(line)
            return
        with new_file(output) as file:
            async for line in lines:
                file.write(line + "\n")
                count += 1
    note(f"{max(count - 1, 0)} records are in {output}")


def _filter(filters: local.Filters) -> AuditFilter:
    query = filters.query()
    return {
        "agent": filters.agent,
        "task": filters.task,
        "correlation": filters.correlation,
        "status": filters.status,
        "session": filters.session,
        "handoff": filters.handoff,
        "type": filters.type,
        "since": query.since,
        "until": query.until,
    }
