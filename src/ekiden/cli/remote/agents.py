"""`ekiden agents … --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.commands import agents as local
from ekiden.cli.errors import NobodyCapable, UsageError
from ekiden.cli.output import emit, note
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_pairs, print_table
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.agents_list)
async def agents_list(client: AsyncClient, *, json_lines: bool, as_json: bool) -> None:
    """List the agents of the server."""
    records = [dict(each.raw) async for each in client.agents.list()]
    if json_lines:
        for record in records:
            emit(record)
    elif as_json:
        emit(records)
    else:
        local.print_agents(records)


@like(local.agents_show)
async def agents_show(client: AsyncClient, *, name: str, as_json: bool) -> None:
    """Show everything about an agent of the server."""
    from ekiden.cli.agent_view import detail_pairs

    record = dict((await client.agents.get(name.removeprefix("@"))).raw)
    if as_json:
        emit(record)
    else:
        print_pairs(detail_pairs(record))


@like(local.agents_ps)
async def agents_ps(client: AsyncClient, *, as_json: bool) -> None:
    """Show how many sessions each agent has, who runs them, and who waits for whom."""
    from ekiden.cli.presence_view import print_presences
    from ekiden.cli.remote.team_reading import presence_of

    found = [each.raw async for each in client.agents.ps()]
    if as_json:
        emit(found)
    else:
        print_presences([presence_of(each) for each in found])


@like(local.agents_deadlocks)
async def agents_deadlocks(
    client: AsyncClient, *, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List agents that wait, or waited, for each other in a circle."""
    from ekiden.bus.deadlocks import Deadlock
    from ekiden.cli.presence_view import print_deadlocks

    page = await client.agents.deadlocks().page(limit=limit, cursor=cursor)
    found = [Deadlock.from_json(each) for each in page.items]
    print_deadlocks(found, limit=limit, as_json=as_json)
    if page.next_cursor is not None:
        more = page.next_cursor
        note(dumps({"next_cursor": more}) if as_json else f"more: --cursor {more}")


@like(local.agents_match)
async def agents_match(
    client: AsyncClient,
    *,
    capabilities: tuple[str, ...] = (),
    exclude: tuple[str, ...],
    min_score: float,
    everybody: bool,
    as_json: bool,
) -> None:
    """Find the agents of the server that have certain capabilities."""
    from ekiden.app.matching import parse_names
    from ekiden.cli.matching import HEADERS, rows
    from ekiden.cli.remote.team_reading import match_of

    required = parse_names(capabilities)
    if not required:
        raise UsageError("name what is required, as in `ekiden agents match refunds,invoices`")
    if not 0 <= min_score <= 1:
        raise UsageError(f"--min-score is a number from 0 to 1, not {min_score:g}")
    everyone = client.agents.match(required, exclude=parse_names(exclude), min_score=0)
    found = [match_of(each.raw) async for each in everyone]
    enough = [match for match in found if match.score >= min_score]
    shown = found if everybody else enough
    if as_json:
        emit([match.to_json() for match in shown])
    elif shown:
        print_table(HEADERS, rows(shown))
    if enough:
        return
    start = f"no agent has a score of {min_score:g} or more for {', '.join(required)}"
    best = f"; the nearest is {found[0].agent} with {found[0].score:.2f}" if found else ""
    raise NobodyCapable(start + best)
