"""`ekiden cost`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.ids import session_id
from ekiden.cli.options import JsonOption, WideOption
from ekiden.cli.place import HERE, Place
from ekiden.cli.terminal.output import emit
from ekiden.sessions.costs import CostKey


async def cost(
    session: Annotated[
        str | None,
        Parameter(
            help="A session's id, which includes the sessions that answered it; all "
            "sessions by default."
        ),
    ] = None,
    /,
    *,
    since: Annotated[
        str | None,
        Parameter(help="Only calls since this time: a date, or how long ago, such as 7d."),
    ] = None,
    by: Annotated[
        tuple[CostKey, ...],
        Parameter(
            name="--by",
            negative="",
            show_default=False,
            help="Group by agent, model, session or day; may be given more than once. By "
            "default by agent and model.",
        ),
    ] = (),
    place: Place = HERE,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the tokens and cost of model calls.

    Prices come from the setting `prices`, else from the price list of the extra `prices`, in US
    dollars; nothing is fetched.
    """
    from ekiden.cli.options import moment
    from ekiden.cli.views.costs import print_costs
    from ekiden.core.documents import to_json

    start = moment(since, option="--since")
    if len(set(by)) < len(by):
        raise UsageError("--by names a group twice")
    async with place.open() as ekiden:
        chosen = await session_id(ekiden.sessions, session or "") or None
        found = await ekiden.costs.get(session=chosen, since=start, by=by)
    if as_json:
        emit(to_json(found))
    else:
        print_costs(found, is_remote=place.is_server, wide=wide)
