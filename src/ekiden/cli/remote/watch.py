"""`ekiden watch --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import watch as local
from ekiden.cli.output import emit, say
from ekiden.cli.remote.likeness import like
from ekiden.core.events import EventType

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.watch)
async def watch(
    client: AsyncClient,
    *,
    session: tuple[str, ...],
    agent: tuple[str, ...],
    type: tuple[EventType, ...],
    after: str | None,
    once: bool,
    as_json: bool,
) -> int:
    """Show events as they happen at the server."""
    from ekiden.cli.event_view import event_line
    from ekiden.cli.remote.connection import server_words
    from ekiden.cli.remote.spectating import Audience

    asked = (("--session", session), ("--agent", agent), ("--type", type))
    words = [word for name, values in asked for each in values for word in (name, each)]
    audience = Audience(
        command=["ekiden", "watch"], words=[*words, *server_words()], as_json=as_json
    )
    stream = client.events.subscribe(
        sessions=session or None,
        agents=agent or None,
        types=type or None,
        after="" if once and after is None else after,
        follow=not once,
    )
    async with stream:
        async for found in audience.read(stream, client.url, tells=not once):
            if as_json:
                emit({"id": found.id, **found.event.to_json()})
            else:
                say(event_line(found.event))
    return audience.code
