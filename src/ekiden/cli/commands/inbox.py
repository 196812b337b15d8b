"""`ekiden inbox …`."""

from __future__ import annotations

import time as clock
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.ids import item_of, session_id
from ekiden.cli.options import (
    LISTING,
    AfterOption,
    ByOption,
    JsonOption,
    Listing,
    PriorityName,
    about,
    ahead,
)
from ekiden.cli.output import clock_time, emit, say, show
from ekiden.cli.place import HERE, Place
from ekiden.core.approvals import AlwaysScope

if TYPE_CHECKING:
    from ekiden.api.inbox import InboxApi
    from ekiden.core.questions import InboxItem

ItemArgument: TypeAlias = Annotated[str, about("Item id, or a unique prefix of it.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InboxFilters:
    """Filters for items. A missing filter matches all items."""

    status: Annotated[
        Literal["open", "answered", "expired", "cancelled", "closed", "any"],
        about(
            "Only items with this status. `closed` means all except `open`, and `any` means all."
        ),
    ] = "open"
    role: Annotated[str | None, about("Only items for this role.")] = None
    assignee: Annotated[
        str | None, about('Only items assigned to this person. Give "" for unassigned items.')
    ] = None
    kind: Annotated[
        Literal["confirmation", "approval", "escalation", "routing", "rollback_failed", "handoff"]
        | None,
        about("Only items of this kind."),
    ] = None
    agent: Annotated[str | None, about("Only items from this agent.")] = None
    session: Annotated[str | None, about("Only items of this session.")] = None
    priority: Annotated[PriorityName | None, about("Only items with this priority.")] = None
    text: Annotated[str | None, about("Only items that contain this text.")] = None
    snoozed: Annotated[bool, about("Include snoozed items.")] = False


OPEN = InboxFilters()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """The options of commands that change an item."""

    by: ByOption = None
    place: Place = HERE
    as_json: JsonOption = False

    @asynccontextmanager
    async def open(self, item: str) -> AsyncIterator[tuple[InboxApi, InboxItem, str | None]]:
        """The inbox, the item with this id or prefix, and the person who changes it."""
        person = self.place.person(self.by, may_name=True)
        async with self.place.open(is_shared=True) as ekiden:
            yield ekiden.inbox, await item_of(ekiden.inbox, item), person

    def tell(self, item: InboxItem, what: str) -> None:
        """Print what was done to the item."""
        show(item, f"{item.id} {what}", as_json=self.as_json)


CHANGE = ItemChange()


async def inbox_list(
    filters: InboxFilters = OPEN,
    *,
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List inbox items, most urgent first. Items of equal urgency are listed newest first."""

    from ekiden.cli.views.inbox import item_table

    async with place.open(is_shared=True) as ekiden:
        session = await session_id(ekiden.sessions, filters.session or "")
        found = ekiden.inbox.list(**{**asdict(filters), "session": session or None})
        table = partial(item_table, now_us=_now_us())
        await listing.show(found, table, none="the inbox is empty")


async def inbox_show(
    item: ItemArgument, /, *, place: Place = HERE, as_json: JsonOption = False
) -> None:
    """Show all details of an inbox item. Each line of text that comes from an agent begins with
    |."""
    from ekiden.cli.views.inbox import print_item

    async with place.open(is_shared=True) as ekiden:
        found = await item_of(ekiden.inbox, item)
    show(found, partial(print_item, now_us=_now_us()), as_json=as_json)


async def inbox_answer(
    item: ItemArgument,
    choice: Annotated[
        str | None,
        about(
            "One of the item's choices, or a unique prefix of it. If the item has no choices, "
            "give any text."
        ),
    ] = None,
    /,
    *,
    text: Annotated[
        str, about("Text of your answer. Without choices, give the text here or as CHOICE.")
    ] = "",
    arguments: Annotated[
        str | None,
        about("Approve the tool call with these arguments instead of its own. Give a JSON object."),
    ] = None,
    always: Annotated[
        bool,
        about("Also approve later calls of this tool by this agent in this session. See --scope."),
    ] = False,
    scope: Annotated[
        AlwaysScope,
        about(
            "What --always approves: calls with the same arguments (call), calls within --limits "
            "(limits), or all calls of the tool (session)."
        ),
    ] = "call",
    limits: Annotated[
        str | None,
        about(
            'The limit of each argument, as JSON, such as {"cents": {"max": 500}}. Other arguments '
            "must be the same as in this call."
        ),
    ] = None,
    identical: Annotated[
        bool, about("Give the same answer to all open items with the same question.")
    ] = False,
    yes: Annotated[bool, about("Do not ask for confirmation of changed arguments.")] = False,
    change: ItemChange = CHANGE,
) -> None:
    """Answer an inbox item.

    Only the first answer counts. A later answer is refused, and the command shows who answered.
    """
    from ekiden.cli.views.inbox import chosen, edit_is_meant, tell_bulk
    from ekiden.inbox.answers import json_object

    bounds = None if limits is None else json_object(limits)
    async with change.open(item) as (inbox, found, person):
        option, words = chosen(found, choice, text)
        if identical:
            bulk = await inbox.answer_identical(
                found.id,
                option,
                text=words,
                arguments=arguments,
                always=always,
                scope=scope,
                limits=bounds,
                by=person,
            )
            tell_bulk(bulk, as_json=change.as_json)
            return
        is_meant = found.status == "open" and await edit_is_meant(found, arguments, yes=yes)
        done = await inbox.answer(
            found.id,
            option,
            text=words,
            arguments=arguments,
            always=always,
            scope=scope,
            limits=bounds,
            confirm_edit=is_meant,
            by=person,
            # The person saw this version: a change meanwhile must not get their approval.
            expected_version=found.version if is_meant else None,
        )
    answer = done.answer
    said = "" if answer is None else answer.choice or answer.text
    change.tell(done, f"answered: {said}" if said else "answered")


async def inbox_assign(
    item: ItemArgument,
    who: Annotated[str | None, about("Name of the person.")] = None,
    /,
    *,
    nobody: Annotated[bool, about("Remove the assignment.")] = False,
    change: ItemChange = CHANGE,
) -> None:
    """Assign an inbox item to a person. Other people can still answer it."""
    if (who is None) != nobody:
        raise UsageError("give the name of a person, or --nobody")
    async with change.open(item) as (inbox, found, person):
        done = await inbox.assign(found.id, who, by=person)
    change.tell(done, f"assigned to {done.assignee or 'nobody'}")


async def inbox_snooze(
    item: ItemArgument,
    time: Annotated[
        str,
        about(
            "How long to hide the item, such as 30m, 2h or 1d, or the date and time to show "
            "it again."
        ),
    ],
    /,
    *,
    change: ItemChange = CHANGE,
) -> None:
    """Hide an inbox item for a while. The item stays open, and its deadline does not change."""

    seconds = ahead(time, what="the time")
    async with change.open(item) as (inbox, found, person):
        done = await inbox.snooze(found.id, for_s=seconds, by=person)
    change.tell(done, f"hidden until {clock_time((done.snoozed_until_us or 0) / 1e6)}")


async def inbox_cancel(
    item: ItemArgument,
    /,
    *,
    reason: Annotated[
        str, about("Reason for cancelling the item. The waiting session gets this text.")
    ] = "",
    change: ItemChange = CHANGE,
) -> None:
    """Cancel an inbox item. The session that waits for the answer is notified."""
    async with change.open(item) as (inbox, found, person):
        done = await inbox.cancel(found.id, reason=reason, by=person)
    change.tell(done, "cancelled")


async def inbox_watch(
    *,
    role: Annotated[str | None, about("Only items for this role.")] = None,
    after: AfterOption = None,
    once: Annotated[bool, about("Show past changes, and do not wait for new ones.")] = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Show new and changed inbox items as they happen.

    By default, the command shows only new changes. With --after, it first shows past changes after
    the given event. With --once, it shows past changes, and exits. While the command runs, it also
    handles deadlines and escalations of inbox items. After Ctrl-C, the command prints how to
    continue from the same event.
    """
    from ekiden.cli.views.inbox import change_line
    from ekiden.cli.views.live import Spectator

    spectator = Spectator(
        command=["ekiden", "inbox", "watch"],
        as_json=as_json,
        intro="watching the inbox in {url}; Ctrl-C ends it, `ekiden inbox list` shows the rest",
    )
    async with place.open(is_shared=True, keeps_time=True, on_outage=spectator.outage) as ekiden:
        spectator.words = [*([] if role is None else ["--role", role]), *place.words(ekiden.url)]
        begin = "" if once and after is None else after
        async with ekiden.events.subscribe(inbox=True, after=begin, follow=not once) as stream:
            async for found in spectator.read(stream, ekiden.url, tells=not once):
                details = found.event.details or {}
                if found.type == "event":
                    continue  # A session got its answer; the inbox has reported that itself.
                if role is not None and details.get("role") != role:
                    continue
                if as_json:
                    emit({"event_id": found.id, "type": found.type, "data": dict(found.data)})
                else:
                    say(change_line(found.event.at_us, details))
    return spectator.code


def _now_us() -> int:
    return round(clock.time() * 1e6)
