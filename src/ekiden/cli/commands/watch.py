"""`ekiden watch`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.core.events import EventType

SeveralTexts: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
SeveralTypes: TypeAlias = Annotated[
    tuple[EventType, ...], Parameter(negative="", show_default=False)
]


async def watch(
    *,
    session: Annotated[SeveralTexts, Parameter(help="Only those of this session.")] = (),
    agent: Annotated[
        SeveralTexts, Parameter(help="Only those of this agent, and handoffs to and from it.")
    ] = (),
    type: Annotated[SeveralTypes, Parameter(help="Only those of this type.")] = (),
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
    """Show events as they happen, in whichever process.

    Without --after, only those from now on; with --once, all from the
    first. Each of --session, --agent and --type may be given more than
    once. Ctrl-C ends it, and says how to go on without a gap.
    """
    from ekiden.app import open_store
    from ekiden.cli.errors import UsageError
    from ekiden.cli.event_view import Spectator
    from ekiden.cli.onlooker import store_words
    from ekiden.cli.projects import store_address
    from ekiden.hub import EventHub, Subscription

    address = store_address(store)
    if address == "memory:":
        raise UsageError("nobody else can write to memory:; name a store that is kept")
    where = Subscription(sessions=session or None, agents=agent or None, types=type or None)
    begin = "" if once and after is None else after
    async with open_store(address, create=False) as opened:
        asked = (("--session", session), ("--agent", agent), ("--type", type))
        words = [word for name, values in asked for each in values for word in (name, each)]
        spectator = Spectator(as_json=as_json, words=[*words, *store_words(opened, store)])
        hub = EventHub(opened, on_outage=spectator.outage)
        async with hub, hub.subscribe(after=begin, where=where, follow=not once) as stream:
            if not once:
                spectator.begin(stream, opened.url)
            return await spectator.show(stream)
