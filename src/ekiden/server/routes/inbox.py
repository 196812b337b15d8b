"""`/inbox`: what waits for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from ekiden.app.desk import Desk
from ekiden.app.records.inbox import bulk_record, item_record
from ekiden.core.inbox_errors import InboxAnswerInvalid
from ekiden.core.inbox_item import InboxItem
from ekiden.core.jsonio import dumps
from ekiden.core.messages import PRIORITIES
from ekiden.core.server_errors import PreconditionFailed
from ekiden.inbox import InboxQuery
from ekiden.server.access import Answers, Reads, TheCaller
from ekiden.server.answers import answer, page
from ekiden.server.deciding import decider
from ekiden.server.models.inbox import (
    BulkModel,
    InboxItemModel,
    KindName,
    NewAnswer,
    NewAssignment,
    NewCancellation,
    NewSnooze,
    PriorityName,
    SnoozeFor,
    StatusChoice,
)
from ekiden.server.paging import PAGE, Limit, Page, cursor_as
from ekiden.server.params import word
from ekiden.server.problems import problems

router = APIRouter(prefix="/inbox", tags=["inbox"])

VIA: Final = "http"
_CURSOR: Final = r"^(1/[5-8]|2)/[0-9]{17}/[A-Za-z0-9_\-.:@]{1,128}$"

ItemId: TypeAlias = Annotated[
    str,
    Path(
        min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_\-.:@]+$", description="The item's id."
    ),
]
IfMatch: TypeAlias = Annotated[
    str | None,
    Header(
        max_length=1000,
        description="The item's `ETag`: the answer holds only for the item as it was then.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which items; what is not given does not restrict."""

    status: Annotated[
        StatusChoice, Query(description="Only those that are so; closed is all but open.")
    ] = "open"
    role: Annotated[str | None, word("Only those for this role.")] = None
    assignee: Annotated[
        str | None, word("Only those of this person; empty is those of nobody.")
    ] = None
    kind: Annotated[KindName | None, Query(description="Only those of this kind.")] = None
    agent: Annotated[str | None, word("Only what this agent asks.")] = None
    session: Annotated[str | None, word("Only those that this session waits for.")] = None
    priority: Annotated[PriorityName | None, Query(description="Only those so urgent.")] = None
    text: Annotated[str | None, word("Only those that say this somewhere.", most=500)] = None
    snoozed: Annotated[bool, Query(description="Also those that are snoozed.")] = False

    def query(self) -> InboxQuery:
        """What is asked."""
        return InboxQuery(
            status=self.status,
            role=self.role,
            assignee=self.assignee,
            kind=self.kind,
            agent=self.agent,
            session_id=self.session,
            priority=None if self.priority is None else PRIORITIES[self.priority],
            text=self.text,
            snoozed=self.snoozed,
        )


@router.get("", response_model=Page[InboxItemModel])
async def list_inbox(
    desk: Reads,
    filters: Annotated[Filters, Depends()],
    limit: Limit = PAGE,
    cursor: Annotated[str | None, cursor_as(_CURSOR)] = None,
) -> Response:
    """List what waits for people: the most urgent first, then the newest."""
    found = await desk.inbox.list(filters.query(), limit=limit, cursor=cursor)
    return page([item_record(item) for item in found.items], found.next_cursor)


@router.get("/{item_id}", response_model=InboxItemModel, responses=problems(404))
async def get_inbox_item(desk: Reads, item_id: ItemId) -> Response:
    """Everything about a question; its `ETag` can be given with the answer."""
    return _told(await desk.inbox.get(item_id))


@router.post(
    "/{item_id}/answer",
    response_model=InboxItemModel | BulkModel,
    responses=problems(404, 409, 412, 413),
)
async def answer_inbox_item(
    desk: Answers,
    caller: TheCaller,
    request: Request,
    item_id: ItemId,
    body: NewAnswer,
    if_match: IfMatch = None,
) -> Response:
    """Answer a question, once: whoever comes second gets 409, which says who was first.

    With `If-Match` it is 412 if the item was changed since: escalated, assigned, snoozed. With
    `identical` the answer goes to all that ask the same, and what became of it is told in short.
    """
    who = decider(caller, request, body.by)
    given = body.arguments
    arguments = given if isinstance(given, str | None) else dumps(given)
    seen = None if if_match is None else await _seen(desk, item_id, if_match)
    if body.identical:
        bulk = await desk.inbox.answer_identical(
            item_id,
            choice=body.choice,
            text=body.text,
            arguments=arguments,
            always=body.always,
            by=who,
            via=_via(request),
        )
        return answer(bulk_record(bulk))
    try:
        done = await desk.inbox.answer(
            item_id,
            choice=body.choice,
            text=body.text,
            arguments=arguments,
            always=body.always,
            confirm_edit=body.confirm_edit,
            seen_version=seen,
            by=who,
            via=_via(request),
        )
    except InboxAnswerInvalid:
        if if_match is not None:
            await _seen(desk, item_id, if_match)
        raise
    return _told(done)


@router.post("/{item_id}/assign", response_model=InboxItemModel, responses=problems(404, 409, 413))
async def assign_inbox_item(
    desk: Answers, caller: TheCaller, request: Request, item_id: ItemId, body: NewAssignment
) -> Response:
    """Say whose a question is; others may still answer it."""
    who = decider(caller, request, body.by)
    return _told(await desk.inbox.assign(item_id, body.assignee, by=who, via=_via(request)))


@router.post("/{item_id}/snooze", response_model=InboxItemModel, responses=problems(404, 409, 413))
async def snooze_inbox_item(
    desk: Answers, caller: TheCaller, request: Request, item_id: ItemId, body: NewSnooze
) -> Response:
    """Hide a question for a time; it is not answered, and its deadline stays."""
    who = decider(caller, request, body.by)
    done = await desk.inbox.snooze(
        item_id,
        for_s=body.for_s if isinstance(body, SnoozeFor) else None,
        until_us=None if isinstance(body, SnoozeFor) else body.until_us,
        by=who,
        via=_via(request),
    )
    return _told(done)


@router.post("/{item_id}/cancel", response_model=InboxItemModel, responses=problems(404, 409, 413))
async def cancel_inbox_item(
    desk: Answers,
    caller: TheCaller,
    request: Request,
    item_id: ItemId,
    body: NewCancellation | None = None,
) -> Response:
    """Withdraw a question: whoever waits is told that nobody will answer."""
    body = body or NewCancellation()
    who = decider(caller, request, body.by)
    return _told(await desk.inbox.cancel(item_id, reason=body.reason, by=who, via=_via(request)))


def _via(request: Request) -> str:
    """From where: of the console's requests browsers say that they come from the same origin."""
    return "console" if request.headers.get("sec-fetch-site") == "same-origin" else VIA


def _told(item: InboxItem) -> Response:
    return answer(item_record(item), headers={"ETag": _etag(item)})


def _etag(item: InboxItem) -> str:
    """Differs with each change: an item that is closed begins to count anew."""
    return f'"{item.status}-{item.version}"'


async def _seen(desk: Desk, item_id: str, if_match: str) -> int | None:
    """The version that the caller knows; `PreconditionFailed` if the item has another by now.

    Of one that is closed no version is asked: the answer says who closed it.
    """
    item = await desk.inbox.get(item_id)
    known = {each.strip() for each in if_match.split(",")}
    if item.status != "open" or "*" in known:
        return None
    if _etag(item) not in known:
        raise PreconditionFailed(
            f"inbox item {item_id} was changed since you looked at it: look at it again, then "
            "answer"
        )
    return item.version
