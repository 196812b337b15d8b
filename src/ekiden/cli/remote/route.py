"""`ekiden route --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import route as local
from ekiden.cli.output import emit, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_pairs, print_table

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.routing.decision import Strategy


@like(local.route)
async def route(
    client: AsyncClient,
    *,
    text: str,
    more: tuple[str, ...] = (),
    strategy: Strategy | None,
    as_json: bool,
) -> None:
    """Show which agent of the server would get a request, and why."""
    from ekiden.cli.remote.team_reading import decision_of
    from ekiden.cli.requests import one_argument, read_text
    from ekiden.cli.routing_view import SCORE_HEADERS, reason_pairs, route_line, score_rows

    one_argument(text, more)
    found = await client.agents.route(read_text(text), strategy=strategy)
    if as_json:
        emit(found.raw)
        return
    decision = decision_of(found.raw)
    say(route_line(found.raw))
    say()
    print_pairs(reason_pairs(decision))
    rows = score_rows(decision, names=[each.name async for each in client.agents.list()])
    if rows:
        say()
        print_table(SCORE_HEADERS, rows)
