"""`/sessions/search`: find what was said."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ekiden.api.texts import PLAIN
from ekiden.server.access import Reads
from ekiden.server.answers import page
from ekiden.server.models.sessions import SessionHitModel
from ekiden.server.paging import Limit, Page
from ekiden.sessions.search import search_sessions as search

router = APIRouter(prefix="/sessions", tags=["sessions"])


@router.get("/search", response_model=Page[SessionHitModel])
async def search_sessions(
    desk: Reads,
    q: Annotated[
        str,
        Query(
            max_length=1000,
            pattern=PLAIN,
            description="Words of a title, or of what was said.",
            examples=["refund"],
        ),
    ],
    user: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            pattern=PLAIN,
            description="Only in sessions of this user.",
        ),
    ] = None,
    limit: Limit = 20,
) -> Response:
    """Find sessions by their titles and by what was said in them, the best first.

    There is one page: ask for more at once with `limit`.
    """
    hits = await search(desk.store, q, user_id=user, limit=limit)
    return page(hit.to_json() for hit in hits)
