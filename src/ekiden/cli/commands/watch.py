"""`ekiden watch`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

from ekiden.cli.ids import session_ids
from ekiden.cli.options import JsonOption
from ekiden.cli.place import HERE, Place
from ekiden.cli.terminal.output import emit, say
from ekiden.core.events import EventType

SeveralTexts: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
SeveralTypes: TypeAlias = Annotated[
    tuple[EventType, ...], Parameter(negative="", show_default=False)
]


async def watch(
    *,
    session: Annotated[SeveralTexts, Parameter(help="Only events of this session.")] = (),
    agent: Annotated[
        SeveralTexts, Parameter(help="Only events of this agent, and handoffs to and from it.")
    ] = (),
    type: Annotated[SeveralTypes, Parameter(help="Only events of this type.")] = (),
    after: Annotated[
        str | None,
        Parameter(help='Begin after the event with this id; "" is before the first.'),
    ] = None,
    once: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Show existing events, and do not wait."),
    ] = False,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Show events of all processes as they happen.

    Without --after, only those from now on; with --once, all from the first. Each of --session,
    --agent and --type may be given more than once. Ctrl-C ends it, and prints the command that
    continues without a gap.
    """
    from ekiden.cli.terminal.live_view import Spectator, event_line

    spectator = Spectator(as_json=as_json)
    async with place.open(is_shared=True, on_outage=spectator.outage) as ekiden:
        asked = (("--session", session), ("--agent", agent), ("--type", type))
        words = [word for name, values in asked for each in values for word in (name, each)]
        spectator.words = [*words, *place.words(ekiden.url)]
        chosen = await session_ids(ekiden.sessions, session)
        stream = ekiden.events.subscribe(
            sessions=chosen or None,
            agents=agent or None,
            types=type or None,
            after="" if once and after is None else after,
            follow=not once,
        )
        async with stream:
            async for found in spectator.read(stream, ekiden.url, tells=not once):
                if as_json:
                    emit({"id": found.id, **found.event.to_json()})
                else:
                    say(event_line(found.event))
    return spectator.code
