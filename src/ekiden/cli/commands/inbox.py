"""`ekiden inbox …`."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from ekiden.cli.ids import session_id
from ekiden.cli.list_options import LISTING, Listing
from ekiden.cli.options import JsonOption
from ekiden.cli.place import HERE, Place

ItemArgument: TypeAlias = Annotated[
    str, Parameter(help="The item's id, or its beginning if no other begins so.")
]
ByOption: TypeAlias = Annotated[
    str | None, Parameter(name="--by", help="Your name; else this machine's user.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which items; what is not given does not restrict."""

    status: Annotated[
        Literal["open", "answered", "expired", "cancelled", "closed", "any"],
        Parameter(help="Only items with this status; closed means every status but open."),
    ] = "open"
    role: Annotated[str | None, Parameter(help="Only those for this role.")] = None
    assignee: Annotated[
        str | None, Parameter(help='Only those of this person; "" is those of nobody.')
    ] = None
    kind: Annotated[
        Literal["confirmation", "approval", "escalation", "routing", "rollback_failed", "handoff"]
        | None,
        Parameter(help="Only those of this kind."),
    ] = None
    agent: Annotated[str | None, Parameter(help="Only what this agent asks.")] = None
    session: Annotated[str | None, Parameter(help="Only those that this session waits for.")] = None
    priority: Annotated[
        Literal["low", "normal", "high", "urgent"] | None, Parameter(help="Only those so urgent.")
    ] = None
    text: Annotated[str | None, Parameter(help="Only those that say this somewhere.")] = None
    snoozed: Annotated[
        bool, Parameter(negative="", show_default=False, help="Also those that are snoozed.")
    ] = False


OPEN = Filters()


async def inbox_list(
    filters: Filters = OPEN,
    *,
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List what waits for people: the most urgent first, then the newest."""
    from dataclasses import asdict
    from functools import partial

    from ekiden.cli.views.inbox import item_table

    async with place.open(is_shared=True) as ekiden:
        session = await session_id(ekiden.sessions, filters.session or "")
        found = ekiden.inbox.list(**{**asdict(filters), "session": session or None})
        table = partial(item_table, now_us=_now_us())
        await listing.show(found, table, none="nothing waits for people")


async def inbox_show(
    item: ItemArgument, /, *, place: Place = HERE, as_json: JsonOption = False
) -> None:
    """Show everything about a question; what agents wrote in it is marked with |."""
    from ekiden.cli.inbox_prompt import find_item
    from ekiden.cli.output import emit
    from ekiden.cli.views.inbox import print_item
    from ekiden.core.values.documents import to_json

    async with place.open(is_shared=True) as ekiden:
        found = await find_item(ekiden.inbox, item)
    if as_json:
        emit(to_json(found))
    else:
        print_item(found, now_us=_now_us())


async def inbox_answer(
    item: ItemArgument,
    choice: Annotated[
        str | None,
        Parameter(help="One of the answers, or its beginning; words if there are none to choose."),
    ] = None,
    /,
    *,
    text: Annotated[str, Parameter(help="What you say, in words.", show_default=False)] = "",
    arguments: Annotated[
        str | None, Parameter(help="Run the tool with these instead; a JSON object.")
    ] = None,
    always: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Do not ask this agent again for this tool, in this session.",
        ),
    ] = False,
    identical: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Answer all that ask exactly the same, in the same way.",
        ),
    ] = False,
    yes: Annotated[
        bool,
        Parameter(
            name="--yes",
            negative="",
            show_default=False,
            help="Edited arguments are meant as they are; do not ask.",
        ),
    ] = False,
    by: ByOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, once: whoever comes second is told who was first."""
    from ekiden.cli.inbox_prompt import chosen, decides, edit_is_meant, find_item
    from ekiden.cli.run.handoffs import plain_text
    from ekiden.cli.views.inbox import tell_bulk, tell_item

    who = decides(by, place)
    plain_text(text, "--text")
    plain_text(arguments or "", "--arguments")
    async with place.open(is_shared=True) as ekiden:
        found = await find_item(ekiden.inbox, item)
        option, words = chosen(found, choice, text)
        if identical:
            bulk = await ekiden.inbox.answer_identical(
                found.id, option, text=words, arguments=arguments, always=always, by=who
            )
            tell_bulk(bulk, as_json=as_json)
            return
        is_meant = found.status == "open" and await edit_is_meant(found, arguments, yes=yes)
        done = await ekiden.inbox.answer(
            found.id,
            option,
            text=words,
            arguments=arguments,
            always=always,
            confirm_edit=is_meant,
            by=who,
            expected_version=found.version if is_meant else None,
        )
    answer = done.answer
    said = "" if answer is None else answer.choice or answer.text
    tell_item(done, f"answered: {said}" if said else "answered", as_json=as_json)


async def inbox_assign(
    item: ItemArgument,
    who: Annotated[str | None, Parameter(help="The person's name.")] = None,
    /,
    *,
    nobody: Annotated[
        bool, Parameter(negative="", show_default=False, help="It is nobody's any more.")
    ] = False,
    by: ByOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Say whose a question is; others may still answer it."""
    from ekiden.cli.errors import UsageError
    from ekiden.cli.inbox_prompt import decides, find_item
    from ekiden.cli.run.handoffs import plain_text
    from ekiden.cli.views.inbox import tell_item

    if (who is None) != nobody:
        raise UsageError("give the name of a person, or --nobody")
    plain_text(who or "", "the person's name")
    name = decides(by, place)
    async with place.open(is_shared=True) as ekiden:
        found = await find_item(ekiden.inbox, item)
        done = await ekiden.inbox.assign(found.id, who, by=name)
    tell_item(done, f"assigned to {done.assignee or 'nobody'}", as_json=as_json)


async def inbox_snooze(
    item: ItemArgument,
    time: Annotated[str, Parameter(help="For how long: 30m, 2h, 1d; or until when.")],
    /,
    *,
    by: ByOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Hide a question for a time; it is not answered, and its deadline stays."""
    from ekiden.cli.inbox_prompt import decides, find_item
    from ekiden.cli.options import ahead
    from ekiden.cli.tables import clock_time
    from ekiden.cli.views.inbox import tell_item

    name, seconds = decides(by, place), ahead(time, what="the time")
    async with place.open(is_shared=True) as ekiden:
        found = await find_item(ekiden.inbox, item)
        done = await ekiden.inbox.snooze(found.id, for_s=seconds, by=name)
    until = clock_time((done.snoozed_until_us or 0) / 1e6)
    tell_item(done, f"hidden until {until}", as_json=as_json)


async def inbox_cancel(
    item: ItemArgument,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; whoever waits is told.", show_default=False)] = "",
    by: ByOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Withdraw a question: whoever waits is told that nobody will answer."""
    from ekiden.cli.inbox_prompt import decides, find_item
    from ekiden.cli.run.handoffs import plain_text
    from ekiden.cli.views.inbox import tell_item

    plain_text(reason, "--reason")
    name = decides(by, place)
    async with place.open(is_shared=True) as ekiden:
        found = await find_item(ekiden.inbox, item)
        done = await ekiden.inbox.cancel(found.id, reason=reason, by=name)
    tell_item(done, "cancelled", as_json=as_json)


async def inbox_watch(
    *,
    role: Annotated[str | None, Parameter(help="Only what is for this role.")] = None,
    after: Annotated[
        str | None,
        Parameter(help='Begin after the event with this id; "" is before the first.'),
    ] = None,
    once: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Show what is there already, and do not wait."
        ),
    ] = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Show questions to people, and what becomes of them, as they come.

    Without --after, only those from now on; with --once, all from the first.
    Meanwhile deadlines and escalations are kept. Ctrl-C ends it, and says how
    to go on without a gap.
    """
    from ekiden.cli.live_view import Spectator
    from ekiden.cli.output import emit, say
    from ekiden.cli.views.inbox import change_line

    spectator = Spectator(
        command=["ekiden", "inbox", "watch"],
        as_json=as_json,
        intro="watching the inbox in {url}; Ctrl-C ends it, `ekiden inbox list` has the rest",
    )
    async with place.open(is_shared=True, keeps_time=True, on_outage=spectator.outage) as ekiden:
        spectator.words = [*([] if role is None else ["--role", role]), *place.words(ekiden.url)]
        begin = "" if once and after is None else after
        async with ekiden.events.subscribe(inbox=True, after=begin, follow=not once) as stream:
            async for found in spectator.read(stream, ekiden.url, tells=not once):
                details = found.event.details or {}
                if found.type == "event":
                    continue  # A session took its answer: the inbox has told of that itself.
                if role is not None and details.get("role") != role:
                    continue
                if as_json:
                    emit({"event_id": found.id, "type": found.type, "data": dict(found.data)})
                else:
                    say(change_line(found.event.at_us, details))
    return spectator.code


def _now_us() -> int:
    return round(clock.time() * 1e6)
