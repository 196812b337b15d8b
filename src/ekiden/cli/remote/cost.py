"""`ekiden cost --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ekiden.cli.commands import cost as local
from ekiden.cli.errors import UsageError
from ekiden.cli.output import emit, note, say
from ekiden.cli.remote.likeness import like
from ekiden.cli.tables import print_table

if TYPE_CHECKING:
    from ekiden.client import AsyncClient


@like(local.cost)
async def cost(
    client: AsyncClient,
    *,
    session: str | None,
    since: str | None,
    by: tuple[Literal["agent", "model", "session", "day"], ...],
    as_json: bool,
) -> None:
    """Show what model calls used and cost, with the server's prices."""
    from ekiden.cli.cost_view import cost_headers, cost_rows, unpriced_note
    from ekiden.cli.remote.options import then
    from ekiden.cli.remote.reading import cost_report_of

    if len(set(by)) < len(by):
        raise UsageError("--by names something twice")
    start = then(since, option="--since")
    found = await client.costs.get(session=session, since=start, by=by or None)
    if as_json:
        emit(found.raw)
        return
    report = cost_report_of(found)
    if not report.lines:
        say("no model was called")
        return
    print_table(cost_headers(report), cost_rows(report))
    missing = unpriced_note(report, has_list=True)
    if missing:
        note(missing)
