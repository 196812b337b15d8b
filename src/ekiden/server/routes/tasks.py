"""`/tasks`: the tasks of supervisors' plans."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ekiden.api.local.place import moment_of
from ekiden.api.texts import EVENT_CURSOR, SESSION_ID
from ekiden.app.records.plans import TaskQuery, find_tasks
from ekiden.server.access import Reads
from ekiden.server.answers import page
from ekiden.server.models.tasks import TaskModel, TaskStatusName
from ekiden.server.paging import PAGE, Limit, Page, cursor_as
from ekiden.server.params import time, word

router = APIRouter(prefix="/tasks", tags=["tasks"])


@router.get("", response_model=Page[TaskModel])
async def list_tasks(
    desk: Reads,
    session_id: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            pattern=SESSION_ID,
            description="Only those of this session, which is much quicker in a large store.",
        ),
    ] = None,
    agent: Annotated[str | None, word("Only those for this agent.")] = None,
    status: Annotated[TaskStatusName | None, Query(description="Only those so.")] = None,
    since: Annotated[str | None, time("Only of plans made then or later.")] = None,
    until: Annotated[str | None, time("Only of plans made before then.")] = None,
    limit: Limit = PAGE,
    cursor: Annotated[str | None, cursor_as(rf"^[0-9]{{1,4}}~({EVENT_CURSOR})?$")] = None,
) -> Response:
    """List the tasks of plans, those of the newest plan first and within a plan in its order."""
    first, last = moment_of(since, what="since"), moment_of(until, what="until")
    query = TaskQuery(
        session_id=session_id,
        agent=agent,
        status=status,
        since_us=None if first is None else int(first.timestamp() * 1e6),
        until_us=None if last is None else int(last.timestamp() * 1e6),
    )
    found = await find_tasks(desk.store, query, limit=limit, cursor=cursor)
    return page(found.tasks, found.next_cursor)
