"""`/workers`: who works on sessions of the store."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ekiden.engine.registry import list_workers, unserved
from ekiden.server.access import Reads
from ekiden.server.answers import answer
from ekiden.server.models.workers import WorkersModel

router = APIRouter(prefix="/workers", tags=["workers"])


@router.get("", response_model=WorkersModel)
async def get_workers(desk: Reads) -> Response:
    """The workers of the store, and agents with ready sessions that none of them runs."""
    workers = await list_workers(desk.store)
    left = await unserved(desk.store, workers)
    return answer(
        {
            "workers": [each.to_json() for each in workers],
            "unserved": [each.to_json() for each in left],
        }
    )
