"""`/mirror`: how far the copies of sessions elsewhere are."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from ekiden.app.mirrors import session_mirror
from ekiden.core.errors import UserError
from ekiden.core.server_errors import NotServed
from ekiden.server.access import Reads
from ekiden.server.answers import answer
from ekiden.server.models.mirror import MirrorModel
from ekiden.server.problems import problems
from ekiden.sessions.mirror_status import mirror_status

router = APIRouter(prefix="/mirror", tags=["mirror"])


@router.get("", response_model=MirrorModel, responses=problems(404))
async def get_mirror(desk: Reads) -> Response:
    """How far the mirror is; the mirror itself is not asked."""
    try:
        name = session_mirror(desk.project.settings.mirror).name
    except UserError as exc:
        raise NotServed(str(exc)) from exc
    return answer(asdict(await mirror_status(desk.store, name)))
