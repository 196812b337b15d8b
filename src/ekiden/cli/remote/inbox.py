"""`ekiden inbox … --server`."""

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING

from ekiden.cli.commands import inbox as local
from ekiden.cli.errors import UsageError
from ekiden.cli.handing_over import plain_text
from ekiden.cli.inbox_asking import chosen, edit_is_meant
from ekiden.cli.output import emit
from ekiden.cli.remote.likeness import like
from ekiden.core.inbox_errors import InboxItemNotFound
from ekiden.core.inbox_item import InboxItem

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.client.inbox import InboxFilter

_LISTED = 20


async def find_item(client: AsyncClient, beginning: str) -> InboxItem:
    """The item with this id, or with the only id that begins so."""
    plain_text(beginning, "the item's id")
    if not beginning:
        raise InboxItemNotFound(beginning)
    try:
        return await client.inbox.get(beginning)
    except InboxItemNotFound:
        found = [
            item
            async for item in client.inbox.list(status="any", snoozed=True)
            if item.id.startswith(beginning)
        ]
        if not found:
            raise
    if len(found) > 1:
        ids = ", ".join(item.id for item in found[:_LISTED])
        raise UsageError(f"{beginning[:80]!r} is the beginning of several: {ids}")
    return found[0]


@like(local.inbox_list)
async def inbox_list(
    client: AsyncClient,
    *,
    filters: local.Filters,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List what waits for people."""
    from ekiden.cli.inbox_view import print_items

    page = await client.inbox.list(**_filter(filters)).page(limit=limit, cursor=cursor)
    print_items(page.items, now_us=_now_us(), next_cursor=page.next_cursor, as_json=as_json)


@like(local.inbox_show)
async def inbox_show(client: AsyncClient, *, item: str, as_json: bool) -> None:
    """Show everything about a question."""
    from ekiden.cli.inbox_view import item_record, print_item

    found = await find_item(client, item)
    if as_json:
        emit(item_record(found))
    else:
        print_item(found, now_us=_now_us())


@like(local.inbox_answer)
async def inbox_answer(
    client: AsyncClient,
    *,
    item: str,
    choice: str | None,
    text: str,
    arguments: str | None,
    always: bool,
    identical: bool,
    yes: bool,
    by: str | None,
    as_json: bool,
) -> None:
    """Answer a question, once."""
    plain_text(text, "--text")
    plain_text(arguments or "", "--arguments")
    found = await find_item(client, item)
    option, words = chosen(found, choice, text)
    if identical:
        bulk = await client.inbox.answer_identical(
            found.id, option, text=words, arguments=arguments, always=always, by=by
        )
        local.tell_bulk(list(bulk["answered"]), bulk["closed"], as_json=as_json)
        return
    is_meant = found.status == "open" and await edit_is_meant(found, arguments, yes=yes)
    done = await client.inbox.answer(
        found.id,
        option,
        text=words,
        arguments=arguments,
        always=always,
        confirm_edit=is_meant,
        seen=found if is_meant else None,
        by=by,
    )
    answer = done.answer
    said = "" if answer is None else answer.choice or answer.text
    local.tell(done, f"answered: {said}" if said else "answered", as_json=as_json)


@like(local.inbox_assign)
async def inbox_assign(
    client: AsyncClient, *, item: str, who: str | None, nobody: bool, by: str | None, as_json: bool
) -> None:
    """Say whose a question is."""
    if (who is None) != nobody:
        raise UsageError("give the name of a person, or --nobody")
    plain_text(who or "", "the person's name")
    found = await find_item(client, item)
    done = await client.inbox.assign(found.id, who, by=by)
    local.tell(done, f"assigned to {done.assignee or 'nobody'}", as_json=as_json)


@like(local.inbox_snooze)
async def inbox_snooze(
    client: AsyncClient, *, item: str, time: str, by: str | None, as_json: bool
) -> None:
    """Hide a question for a time."""
    from ekiden.cli.moments import ahead
    from ekiden.cli.tables import clock_time

    seconds = ahead(time, what="the time")
    found = await find_item(client, item)
    done = await client.inbox.snooze(found.id, for_s=seconds, by=by)
    until = clock_time((done.snoozed_until_us or 0) / 1e6)
    local.tell(done, f"hidden until {until}", as_json=as_json)


@like(local.inbox_cancel)
async def inbox_cancel(
    client: AsyncClient, *, item: str, reason: str, by: str | None, as_json: bool
) -> None:
    """Withdraw a question."""
    plain_text(reason, "--reason")
    found = await find_item(client, item)
    done = await client.inbox.cancel(found.id, reason=reason, by=by)
    local.tell(done, "cancelled", as_json=as_json)


@like(local.inbox_watch)
async def inbox_watch(
    client: AsyncClient, *, role: str | None, after: str | None, once: bool, as_json: bool
) -> int:
    """Show questions to people, and what becomes of them, as they come."""
    from ekiden.cli.inbox_watching import change_line
    from ekiden.cli.output import say
    from ekiden.cli.remote.connection import server_words
    from ekiden.cli.remote.spectating import Audience

    words = [*([] if role is None else ["--role", role]), *server_words()]
    audience = Audience(
        command=["ekiden", "inbox", "watch"],
        words=words,
        as_json=as_json,
        intro="watching the inbox in {url}; Ctrl-C ends it, `ekiden inbox list` has the rest",
    )
    begin = "" if once and after is None else after
    async with client.events.subscribe(inbox=True, after=begin, follow=not once) as stream:
        async for found in audience.read(stream, client.url, tells=not once):
            details = found.event.details or {}
            if found.type == "event":
                continue  # A session took its answer: the inbox has told of that itself.
            if role is not None and details.get("role") != role:
                continue
            if as_json:
                emit({"event_id": found.id, "type": found.type, "data": dict(found.data)})
            else:
                say(change_line(found.event.at_us, details))
    return audience.code


def _filter(filters: local.Filters) -> InboxFilter:
    return {
        "status": filters.status,
        "role": filters.role,
        "assignee": filters.assignee,
        "kind": filters.kind,
        "agent": filters.agent,
        "session": filters.session,
        "priority": filters.priority,
        "text": filters.text,
        "snoozed": filters.snoozed,
    }


def _now_us() -> int:
    return round(clock.time() * 1e6)
