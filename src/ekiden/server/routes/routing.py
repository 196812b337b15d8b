"""`/route`: who would get a request."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from ekiden.app.addressing import AUTO, parse_address
from ekiden.app.records.routing import route_record
from ekiden.core.server_errors import RequestInvalid
from ekiden.server.access import Starts
from ekiden.server.answers import answer
from ekiden.server.models.routing import NewRoute, RouteModel
from ekiden.server.problems import problems

router = APIRouter(tags=["routing"])


@router.post("/route", response_model=RouteModel, responses=problems(404, 413, 502))
async def route_request(desk: Starts, body: NewRoute) -> Response:
    """Show which agent would get a request, and why; nothing is run or stored.

    A model may be asked, as the strategy says, which costs: so it needs the scope `run`.
    """
    address = parse_address(body.text)
    if not address.text.strip():
        raise RequestInvalid("text: there is nothing to say")
    if address.strategy is None and address.to in (None, AUTO):
        address = replace(address, strategy=body.strategy)
    return answer(await route_record(desk.project, address))
