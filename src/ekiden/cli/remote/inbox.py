"""`ekiden inbox watch --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import inbox as local
from ekiden.cli.output import emit
from ekiden.cli.remote.likeness import like

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


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
