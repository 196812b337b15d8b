"""`ekiden inbox …`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.options import STORE, JsonOption, StoreOption

if TYPE_CHECKING:
    from ekiden.core.inbox_item import InboxItem
    from ekiden.inbox import Inbox, InboxQuery
    from ekiden.storage.base import Store

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
        Parameter(help="Only those that are so; closed is all but open."),
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

    def query(self) -> InboxQuery:
        """What is asked."""
        from ekiden.core.messages import PRIORITIES
        from ekiden.inbox import InboxQuery

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


OPEN = Filters()


async def inbox_list(
    filters: Filters = OPEN,
    *,
    limit: Annotated[
        int, Parameter(name="--limit", validator=Number(gte=1, lte=1000), help="How many.")
    ] = 50,
    cursor: Annotated[
        str | None, Parameter(name="--cursor", help="Go on where the last page ended.")
    ] = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """List what waits for people: the most urgent first, then the newest."""
    from ekiden.cli.inbox_view import print_items

    async with _opened(store) as (opened, inbox):
        page = await inbox.list(filters.query(), limit=limit, cursor=cursor)
        now_us = await opened.now_us()
    print_items(page.items, now_us=now_us, next_cursor=page.next_cursor, as_json=as_json)


async def inbox_show(
    item: ItemArgument, /, *, store: StoreOption = STORE, as_json: JsonOption = False
) -> None:
    """Show everything about a question; what agents wrote in it is marked with |."""
    from ekiden.cli.inbox_asking import find_item
    from ekiden.cli.inbox_view import item_record, print_item
    from ekiden.cli.output import emit

    async with _opened(store) as (opened, inbox):
        found = await find_item(inbox, item)
        now_us = await opened.now_us()
    if as_json:
        emit(item_record(found))
    else:
        print_item(found, now_us=now_us)


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
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, once: whoever comes second is told who was first."""
    from ekiden.cli.handing_over import plain_text
    from ekiden.cli.inbox_asking import VIA, chosen, edit_is_meant, find_item, who_answers

    who = who_answers(by)
    plain_text(text, "--text")
    plain_text(arguments or "", "--arguments")
    async with _opened(store) as (_, inbox):
        found = await find_item(inbox, item)
        option, words = chosen(found, choice, text)
        if identical:
            bulk = await inbox.answer_identical(
                found.id,
                choice=option,
                text=words,
                arguments=arguments,
                always=always,
                by=who,
                via=VIA,
            )
            tell_bulk(list(bulk.answered), bulk.closed, as_json=as_json)
            return
        is_meant = found.status == "open" and await edit_is_meant(found, arguments, yes=yes)
        done = await inbox.answer(
            found.id,
            choice=option,
            text=words,
            arguments=arguments,
            always=always,
            confirm_edit=is_meant,
            seen_version=found.version if is_meant else None,
            by=who,
            via=VIA,
        )
    answer = done.answer
    said = "" if answer is None else answer.choice or answer.text
    tell(done, f"answered: {said}" if said else "answered", as_json=as_json)


async def inbox_assign(
    item: ItemArgument,
    who: Annotated[str | None, Parameter(help="The person's name.")] = None,
    /,
    *,
    nobody: Annotated[
        bool, Parameter(negative="", show_default=False, help="It is nobody's any more.")
    ] = False,
    by: ByOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Say whose a question is; others may still answer it."""
    from ekiden.cli.errors import UsageError
    from ekiden.cli.handing_over import plain_text
    from ekiden.cli.inbox_asking import VIA, find_item, who_answers

    if (who is None) != nobody:
        raise UsageError("give the name of a person, or --nobody")
    plain_text(who or "", "the person's name")
    name = who_answers(by)
    async with _opened(store) as (_, inbox):
        found = await find_item(inbox, item)
        done = await inbox.assign(found.id, who, by=name, via=VIA)
    tell(done, f"assigned to {done.assignee or 'nobody'}", as_json=as_json)


async def inbox_snooze(
    item: ItemArgument,
    time: Annotated[str, Parameter(help="For how long: 30m, 2h, 1d; or until when.")],
    /,
    *,
    by: ByOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Hide a question for a time; it is not answered, and its deadline stays."""
    from ekiden.cli.inbox_asking import VIA, find_item, who_answers
    from ekiden.cli.moments import ahead
    from ekiden.cli.tables import clock_time

    name, seconds = who_answers(by), ahead(time, what="the time")
    async with _opened(store) as (_, inbox):
        found = await find_item(inbox, item)
        done = await inbox.snooze(found.id, for_s=seconds, by=name, via=VIA)
    until = clock_time((done.snoozed_until_us or 0) / 1e6)
    tell(done, f"hidden until {until}", as_json=as_json)


async def inbox_cancel(
    item: ItemArgument,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; whoever waits is told.", show_default=False)] = "",
    by: ByOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Withdraw a question: whoever waits is told that nobody will answer."""
    from ekiden.cli.handing_over import plain_text
    from ekiden.cli.inbox_asking import VIA, find_item, who_answers

    plain_text(reason, "--reason")
    name = who_answers(by)
    async with _opened(store) as (_, inbox):
        found = await find_item(inbox, item)
        done = await inbox.cancel(found.id, reason=reason, by=name, via=VIA)
    tell(done, "cancelled", as_json=as_json)


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
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Show questions to people, and what becomes of them, as they come.

    Without --after, only those from now on; with --once, all from the first.
    Meanwhile deadlines and escalations are kept. Ctrl-C ends it, and says how
    to go on without a gap.
    """
    from ekiden.cli.inbox_watching import InboxSpectator, keeping_time
    from ekiden.cli.onlooker import store_words
    from ekiden.hub import EventHub, Subscription

    async with _opened(store) as (opened, inbox):
        words = [*([] if role is None else ["--role", role]), *store_words(opened, store)]
        spectator = InboxSpectator(inbox=inbox, as_json=as_json, role=role, words=words)
        hub = EventHub(opened, on_outage=spectator.outage)
        begin = "" if once and after is None else after
        where = Subscription(inbox=True)
        async with (
            hub,
            hub.subscribe(after=begin, where=where, follow=not once) as stream,
            keeping_time(opened),
        ):
            if not once:
                spectator.begin(stream, opened.url)
            return await spectator.show(stream)


@asynccontextmanager
async def _opened(option: str | None) -> AsyncIterator[tuple[Store, Inbox]]:
    from ekiden.app import open_store
    from ekiden.cli.errors import UsageError
    from ekiden.cli.projects import store_address
    from ekiden.inbox import Inbox

    address = store_address(option)
    if address == "memory:":
        raise UsageError("nobody else can write to memory:; name a store that is kept")
    async with open_store(address, create=False) as store:
        yield store, Inbox(store)


def tell(item: InboxItem, what: str, *, as_json: bool) -> None:
    """What was done with an item."""
    from ekiden.cli.inbox_view import item_record
    from ekiden.cli.output import emit, say

    if as_json:
        emit(item_record(item))
    else:
        say(f"{item.id} {what}")


def tell_bulk(ids: list[str], closed: int, *, as_json: bool) -> None:
    """What was done with all that ask the same."""
    from ekiden.cli.output import emit, say

    if as_json:
        emit({"answered": ids, "closed": closed})
        return
    others = f"; {closed} were closed by somebody else meanwhile" if closed else ""
    say(f"answered {len(ids)} that ask the same{others}")
