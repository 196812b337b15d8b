"""Tasks in pages."""

from __future__ import annotations

from a2a.types import ListTasksRequest, ListTasksResponse, Task
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import apply_history_length, validate_history_length

from ekiden.core.runs import run_id_of
from ekiden.integrations.a2a.server.tasks import read_task
from ekiden.project.service import TenantService
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionFilter

_PAGE = 50
_MOST = 100
_MOST_PAGES = 20
"""So many pages of sessions are looked through for tasks of a state."""


async def list_tasks(desk: TenantService, params: ListTasksRequest) -> ListTasksResponse:
    """The runs of a context, or the last run of each session; newest first.

    `total_size` counts what this page shows and those before cannot be counted cheaply: it is the
    size of the page, and more where a next page is.
    """
    validate_history_length(params if params.HasField("history_length") else None)
    size = params.page_size if params.HasField("page_size") else _PAGE
    if not 1 <= size <= _MOST:
        raise InvalidParamsError(f"a page has 1 to {_MOST} tasks, not {size}")
    if params.context_id:
        return await _of_session(desk, params, size)
    found: list[Task] = []
    cursor: str | None = params.page_token or None
    for _ in range(_MOST_PAGES):
        page = await desk.store.list(SessionFilter(), limit=size - len(found), cursor=cursor)
        for row in page.sessions:
            if number := run_number(row):
                await _add(desk, params, run_id_of(row.id, number), found)
        cursor = page.next_cursor
        if cursor is None or len(found) >= size:
            break
    return _page(found, cursor or "", size)


async def _of_session(
    desk: TenantService, params: ListTasksRequest, size: int
) -> ListTasksResponse:
    row = await desk.store.get(params.context_id)
    newest = run_number(row)
    if params.page_token:
        if not (params.page_token.isascii() and params.page_token.isdigit()):
            raise InvalidParamsError("the pageToken is not one of ours")
        newest = min(newest, int(params.page_token[:9]))
    found: list[Task] = []
    number = newest
    while number >= 1 and len(found) < size:
        await _add(desk, params, run_id_of(row.id, number), found)
        number -= 1
    return _page(found, str(number) if number >= 1 else "", size)


async def _add(
    desk: TenantService, params: ListTasksRequest, run_id: str, found: list[Task]
) -> None:
    task = await read_task(desk, run_id)
    if params.status and task.status.state != params.status:
        return
    if params.HasField("status_timestamp_after"):
        after = params.status_timestamp_after.ToMicroseconds()
        if task.status.timestamp.ToMicroseconds() <= after:
            return
    if not params.include_artifacts:
        del task.artifacts[:]
    found.append(apply_history_length(task, params))


def _page(found: list[Task], token: str, size: int) -> ListTasksResponse:
    return ListTasksResponse(
        tasks=found,
        next_page_token=token,
        page_size=size,
        total_size=len(found) + bool(token),
    )
