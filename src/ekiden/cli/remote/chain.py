"""`ekiden chain --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chain_view import CHAIN_HEADERS, chain_line, chain_rows, waiting_line
from ekiden.cli.commands import chain as local
from ekiden.cli.errors import NoSessions
from ekiden.cli.output import emit, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_table

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.chain)
async def chain(client: AsyncClient, *, session: str | None, as_json: bool) -> None:
    """Show who handed a session to whom, and why."""
    if session is None:
        newest = (await client.sessions.list().page(limit=1)).items
        if not newest:
            raise NoSessions
        session = newest[0].session_id
    record = (await client.sessions.chain(session)).raw
    if as_json:
        emit(record)
        return
    say(chain_line(record))
    if record["handoffs"]:
        print_table(CHAIN_HEADERS, chain_rows(record))
    if waits := waiting_line(record):
        say(waits)
