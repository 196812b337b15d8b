"""`/sessions`, continued: branch off, step back, take over and let go of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ekiden.api.local.place import moment_of
from ekiden.api.texts import PLAIN, SESSION_ID
from ekiden.app.records.sessions import fork_record, import_record, rewind_record
from ekiden.core.errors import UserError
from ekiden.core.retention import Retention
from ekiden.core.server_errors import RequestTooLarge
from ekiden.runtime.fork import fork_session as branch_off
from ekiden.runtime.importing import import_session as take_over
from ekiden.runtime.retention import prune_sessions as prune
from ekiden.runtime.rewind import rewind_session as step_back
from ekiden.server.access import Administers, Starts
from ekiden.server.answers import answer
from ekiden.server.models.sessions import (
    ForkModel,
    ImportedModel,
    NewFork,
    NewPrune,
    NewRewind,
    PrunedModel,
    RewindModel,
)
from ekiden.server.paging import SessionId
from ekiden.server.problems import problems
from ekiden.server.turns import one_at_a_time

router = APIRouter(prefix="/sessions", tags=["sessions"])

_DAY_S = 86_400
_DOCUMENT = {
    "requestBody": {
        "required": True,
        "description": "What the export of a session gave. JSON is read strictly, as everywhere; "
        "with `application/octet-stream` the document is taken as it is, so that also what holds "
        "half characters, as models produce them now and then, is taken over.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/{session_id}/fork",
    status_code=201,
    response_model=ForkModel,
    responses=problems(404, 409, 413),
)
async def fork_session(desk: Starts, session_id: SessionId, body: NewFork) -> Response:
    """Begin a new session that goes on from an earlier point of this one, which stays as it is."""
    row = await desk.store.get(session_id)
    at = body.at
    if at is not None and body.before is not None:
        raise UserError("give `at` or `before`, not both")
    if at is None and body.before is None:
        if not row.seq:
            raise UserError(f"nothing happened in {session_id} yet: there is nothing to fork")
        at = row.seq
    branch = await branch_off(
        desk.store, session_id, before_seq=body.before, at_seq=at, new_id=body.session_id
    )
    return _created(fork_record(await branch.row()))


@router.post("/{session_id}/rewind", response_model=RewindModel, responses=problems(404, 409, 413))
async def rewind_session(desk: Starts, session_id: SessionId, body: NewRewind) -> Response:
    """Take a session back to an earlier event; its history stays, and tells so.

    What it asked people and agents is withdrawn. What tools did outside is not undone.
    """
    return answer(rewind_record(await step_back(desk.store, session_id, to_seq=body.to)))


@router.post(
    "/import",
    status_code=201,
    response_model=ImportedModel,
    responses=problems(409, 413),
    openapi_extra=_DOCUMENT,
)
async def import_session(
    desk: Administers,
    request: Request,
    id: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            pattern=SESSION_ID,
            description="Another id than the session has.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            pattern=PLAIN,
            description="Whose it becomes; the one that the document names by default.",
        ),
    ] = None,
) -> Response:
    """Store a session that was exported; a run that was under way can be resumed.

    It reads the variables of its user. What people allowed is asked again. Nothing of the document
    is trusted: one that no export wrote is refused as a whole.
    """
    data = await _read(request, most=request.app.state.config.max_body)
    session = await take_over(desk.store, data, new_id=id, user_id=user)
    return _created(import_record(await session.row()))


@router.post("/prune", response_model=PrunedModel, responses=problems(413))
async def prune_sessions(desk: Administers, body: NewPrune) -> Response:
    """Remove old sessions; by age, settled messages and closed questions to people go, too."""
    age_s, keep = _rule(body, desk.project.settings.retention)
    with one_at_a_time(desk, "prune"):
        pruned = await prune(
            desk.store,
            older_than_s=age_s,
            keep_last=keep,
            user_id=body.user,
            status={"idle", *body.status},
            dry_run=body.dry_run,
        )
    return answer(pruned.to_json())


def _rule(body: NewPrune, settings: Retention) -> tuple[float | None, int | None]:
    """How old a session may get, and how many may be there; `UserError` if nothing says so."""
    then = moment_of(body.older_than, what="older_than")
    if then is None and body.keep is None:
        if not settings.has_rules:
            raise UserError(
                "say what may go: `older_than`, `keep`, or the settings retention.days and "
                "retention.count"
            )
        days = settings.days
        return None if days is None else days * _DAY_S, settings.count
    if then is None:
        return None, body.keep
    age_s = (datetime.now(UTC) - then).total_seconds()
    if age_s < 0:
        raise UserError(f"older_than {body.older_than!r} is in the future")
    return age_s, body.keep


def _created(record: dict[str, object]) -> Response:
    location = f"/api/v1/sessions/{record['session_id']}"
    return answer(record, 201, headers={"Location": location})


async def _read(request: Request, *, most: int) -> bytes:
    """The body; `RequestTooLarge` as soon as it is longer than `most` bytes."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise RequestTooLarge(most)
    return bytes(data)
