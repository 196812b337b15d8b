"""`ekiden chain`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.commands.trace import session_or_newest
from ekiden.cli.options import JsonOption, WideOption
from ekiden.cli.output import emit
from ekiden.cli.place import HERE, Place


async def chain(
    session: Annotated[
        str | None,
        Parameter(help="The session's id, or a prefix of it; by default the newest session."),
    ] = None,
    /,
    *,
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show a session's handoffs and their reasons."""
    from ekiden.cli.views.sessions import print_chain
    from ekiden.core.documents import to_json

    async with place.open() as ekiden:
        chosen = await session_or_newest(ekiden, session)
        found = await ekiden.sessions.chain(chosen)
    if as_json:
        emit(to_json(found))
    else:
        print_chain(found, wide=wide)
