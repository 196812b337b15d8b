"""`ekiden chain`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.errors import NoSessions
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.output import emit, say
from ekiden.cli.tables import print_table


async def chain(
    session: Annotated[
        str | None, Parameter(help="The session; the newest if none is given.")
    ] = None,
    /,
    *,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Show who handed a session to whom, and why."""
    from ekiden.app import open_store
    from ekiden.app.records.sessions import chain_record
    from ekiden.cli.chain_view import CHAIN_HEADERS, chain_line, chain_rows, waiting_line
    from ekiden.cli.projects import store_address

    async with open_store(store_address(store), create=False) as opened:
        if session is None:
            newest = (await opened.list(limit=1)).sessions
            if not newest:
                raise NoSessions
            session = newest[0].id
        row = await opened.get(session)
        record = chain_record(row, await opened.events(session))
    if as_json:
        emit(record)
        return
    say(chain_line(record))
    if record["handoffs"]:
        print_table(CHAIN_HEADERS, chain_rows(record))
    if waits := waiting_line(record):
        say(waits)
