"""`/costs`: what model calls used and cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ekiden.app.spending import costs
from ekiden.core.server_errors import RequestInvalid
from ekiden.server.access import Reads
from ekiden.server.answers import answer
from ekiden.server.models.costs import CostKeyName, CostReportModel
from ekiden.server.params import moment, time
from ekiden.server.problems import problems

router = APIRouter(prefix="/costs", tags=["costs"])

_USUAL: tuple[CostKeyName, ...] = ("agent", "model")


@router.get("", response_model=CostReportModel, responses=problems(404))
async def get_costs(
    desk: Reads,
    session: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            pattern=r"^[A-Za-z0-9_\-.:@]+$",
            description="A session: it and all that answered it; else all there are.",
        ),
    ] = None,
    since: Annotated[str | None, time("Only calls since then.")] = None,
    by: Annotated[
        list[CostKeyName] | None,
        Query(
            max_length=4,
            description="Put together by these, each once; else by agent and model.",
            json_schema_extra={"uniqueItems": True},
        ),
    ] = None,
) -> Response:
    """What model calls used and cost, with the prices of the settings or of the price list."""
    keys = tuple(by or _USUAL)
    if len(set(keys)) < len(keys):
        raise RequestInvalid("by: something is named twice")
    start = moment(since, what="since")
    report = await costs(
        desk.store, desk.project.settings, session_id=session, since=start, by=keys
    )
    return answer(report.to_json())
