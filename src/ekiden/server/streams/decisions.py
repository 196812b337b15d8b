"""Answers to questions that a run waits for, in the form of other standards: approve or reject."""

from __future__ import annotations

from collections.abc import Iterable

from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed
from ekiden.core.questions import InboxItem
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people
from ekiden.server.access.access import Caller

VIA = "http"


def choices(item: InboxItem) -> tuple[str, str] | None:
    """The options for approve and reject; `None` for a question that is not an approval."""
    if item.kind in ("confirmation", "approval") and len(item.options) == 2:
        return item.options[0], item.options[1]
    return None


async def check_asked(desk: TenantService, session_id: str, item_ids: Iterable[str]) -> None:
    """`InboxAnswerInvalid` for a question that neither this session nor an agent that it asked has
    put; `InboxItemNotFound`."""
    waits = {item.id for item in await questions_to_people(desk.store, session_id)}
    for item_id in item_ids:
        if item_id not in waits and (await desk.inbox.get(item_id)).session_id != session_id:
            raise InboxAnswerInvalid(
                f"inbox item {item_id[:80]} was not asked in session {session_id!r}"
            )


async def decide(
    desk: TenantService,
    caller: Caller,
    item_id: str,
    *,
    approve: bool | None = None,
    choice: str | None = None,
    text: str = "",
    arguments: str | None = None,
) -> InboxItem:
    """Answer an inbox item in the name of the caller: approve or reject, or `choice` and `text`.

    Repeating the same answer is allowed: clients retry a request whose response is lost.
    `Forbidden` without the scope `answer`, `InboxForbidden` for agents; otherwise as
    `Inbox.answer`.
    """
    caller.check("answer")
    item = await desk.inbox.get(item_id)
    if approve is not None:
        pair = choices(item)
        if pair is None:
            raise InboxAnswerInvalid(
                f"inbox item {item.id} does not take a yes or a no: answer it in the inbox"
            )
        choice = pair[0] if approve else pair[1]
    try:
        return await desk.inbox.answer(
            item.id,
            by=caller.name,
            choice=choice,
            text=text,
            arguments=arguments,
            confirm_edit=arguments is not None,
            via=VIA,
        )
    except InboxItemClosed:
        there = await desk.inbox.get(item_id)
        if there.answer is None or there.answer.by != caller.name:
            raise
        same = there.answer.choice == choice if there.options else there.answer.text == text
        if not same:
            raise
        return there
