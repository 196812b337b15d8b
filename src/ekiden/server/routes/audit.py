"""`/audit`: who handed what to whom, who decided and why, and whether that is what was written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Response

from ekiden.api.texts import ADDRESSED
from ekiden.audit import AuditQuery, audit_records, find_records, verify_audit
from ekiden.audit.export import export_lines
from ekiden.core.server_errors import AuditRecordNotFound, TookTooLong
from ekiden.server.access import Reads
from ekiden.server.answers import JsonLines, answer, json_lines, page
from ekiden.server.models.audit import (
    AuditedTypeName,
    AuditRecordModel,
    MoveName,
    NewVerification,
    VerificationModel,
)
from ekiden.server.paging import PAGE, Cursor, Limit, Page
from ekiden.server.params import moment, time, word
from ekiden.server.problems import problems
from ekiden.server.turns import one_at_a_time

router = APIRouter(prefix="/audit", tags=["audit"])

_MOST_LOOKED_AT = 10_000
"""Events in which one page looks for a text."""


def _query(
    agent: Annotated[
        str | None, word("Only where this agent acted, had the work or was to get it.")
    ] = None,
    task: Annotated[str | None, word("Only those of this task.")] = None,
    correlation: Annotated[str | None, word("Only those with this correlation id.")] = None,
    status: Annotated[
        MoveName | None, Query(description="Only moves of handoffs to this status.")
    ] = None,
    session: Annotated[str | None, word("Only those of this session.")] = None,
    handoff: Annotated[str | None, word("Only those of the handoff with this id.")] = None,
    type: Annotated[AuditedTypeName | None, Query(description="Only those of this type.")] = None,
    since: Annotated[str | None, time("From then on.")] = None,
    until: Annotated[str | None, time("Before then.")] = None,
    text: Annotated[
        str | None,
        word("Only with this in agents, reason, error, code, ids or facts, whatever the case."),
    ] = None,
) -> AuditQuery:
    """What the audit is asked."""
    return AuditQuery(
        agent=agent,
        task=task,
        correlation_id=correlation,
        status=status,
        session_id=session,
        handoff_id=handoff,
        type=type,
        since=moment(since, what="since"),
        until=moment(until, what="until"),
        text=text or "",
    )


Asked: TypeAlias = Annotated[AuditQuery, Depends(_query)]


@router.get("/records", response_model=Page[AuditRecordModel])
async def list_audit_records(
    desk: Reads,
    query: Asked,
    limit: Limit = PAGE,
    cursor: Cursor = None,
    oldest_first: Annotated[bool, Query(description="Begin with the oldest.")] = False,
) -> Response:
    """List who handed what to whom, who decided and why, newest first.

    With `text`, a page that had to look at very many records may be short or empty: there is more
    as long as there is a `next_cursor`.
    """
    asked = replace(query, newest_first=not oldest_first)
    most = _MOST_LOOKED_AT if asked.text else None
    found = await audit_records(desk.store, asked, limit=limit, cursor=cursor, most=most)
    return page((record.to_json() for record in found.records), found.next_cursor)


@router.get(
    "/records/{record_id:path}",
    response_model=Page[AuditRecordModel],
    responses=problems(404),
)
async def get_audit_record(
    desk: Reads,
    record_id: Annotated[
        str,
        Path(
            min_length=1,
            max_length=300,
            pattern=ADDRESSED,
            description="The id of a record, `SESSION/NUMBER`, or of a handoff.",
        ),
    ],
) -> Response:
    """A record, or all records of a handoff, the oldest first."""
    found = await find_records(desk.store, record_id)
    if not found:
        raise AuditRecordNotFound(record_id)
    return page(record.to_json() for record in found)


@router.post("/verify", response_model=VerificationModel, responses=problems(404, 413, 504))
async def verify_audit_records(desk: Reads, body: NewVerification) -> Response:
    """Find out whether somebody changed what is stored; names the first broken link.

    If that takes longer than `timeout_s`, verify sessions one by one, or use the command.
    """
    lines = None if body.against is None else body.against.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    with one_at_a_time(desk, "verify"):
        try:
            async with asyncio.timeout(body.timeout_s):
                found = await verify_audit(desk.store, session_id=body.session_id, against=lines)
        except TimeoutError as exc:
            raise TookTooLong(
                f"the audit could not be verified within {body.timeout_s:g} s; verify sessions one "
                "by one, or use `ekiden audit verify`"
            ) from exc
    return answer(found.to_json())


@router.get("/export", response_class=JsonLines)
async def export_audit_records(desk: Reads, query: Asked) -> Response:
    """Records as JSON lines, the oldest first; the last line is the manifest.

    An export without a manifest was cut off.
    """
    return await json_lines(export_lines(desk.store, query), filename="audit.jsonl")
