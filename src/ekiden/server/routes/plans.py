"""`/plans` and `/sessions/{id}/plan`: how supervisors split requests."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ekiden.app.addressing import AUTO, parse_address
from ekiden.app.planning import plan_request
from ekiden.app.records.plans import plan_record
from ekiden.core.errors import UserError
from ekiden.core.server_errors import NotServed, RequestInvalid
from ekiden.runtime.plan_state import plan_state
from ekiden.server.access import Reads, Starts
from ekiden.server.answers import answer
from ekiden.server.models.plans import NewPreview, PlanModel, PreviewModel
from ekiden.server.paging import SessionId
from ekiden.server.problems import problems

router = APIRouter(tags=["plans"])


@router.post("/plans/preview", response_model=PreviewModel, responses=problems(404, 413, 502))
async def preview_plan(desk: Starts, body: NewPreview) -> Response:
    """Show how a request would be split into tasks, and for whom; nothing is run or stored.

    A model splits it where one is set, which costs: so it needs the scope `run`. Else the agents'
    keywords and patterns do.
    """
    address = parse_address(body.text)
    if not address.text.strip():
        raise RequestInvalid("text: there is nothing to say")
    named = None if address.to == AUTO else address.to
    planned = await plan_request(desk.project, address.text, agent=body.agent or named)
    return answer(planned.to_json())


@router.get("/sessions/{session_id}/plan", response_model=PlanModel, responses=problems(404))
async def get_plan(desk: Reads, session_id: SessionId) -> Response:
    """The plan of a session's last run, as far as it came; 404 if that run had none."""
    try:
        state = await plan_state(desk.store, session_id)
    except UserError as exc:
        raise NotServed(str(exc)) from exc
    return answer(await plan_record(desk.store, state))
