"""`ekiden cost`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import STORE, JsonOption, StoreOption
from ekiden.cli.output import emit, note, say
from ekiden.cli.tables import print_table


async def cost(
    session: Annotated[
        str | None,
        Parameter(help="A session's id: it and all sessions that answered it; else all there are."),
    ] = None,
    /,
    *,
    since: Annotated[
        str | None, Parameter(help="Only calls since then: a date, or how long ago, such as 7d.")
    ] = None,
    by: Annotated[
        tuple[Literal["agent", "model", "session", "day"], ...],
        Parameter(
            name="--by",
            negative="",
            show_default=False,
            help="Put together by agent, model, session or day; may be given more than once. Else "
            "by agent and model.",
        ),
    ] = (),
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """Show what model calls used and cost.

    Prices are those of the setting `prices`, else those of the price list that
    comes with the extra `prices`, in US dollars; nothing is fetched.
    """
    from ekiden.app import load_settings, open_store
    from ekiden.app.spending import costs
    from ekiden.cli.cost_view import cost_headers, cost_rows, unpriced_note
    from ekiden.cli.moments import moment
    from ekiden.cli.projects import store_address
    from ekiden.models.pricing import has_price_list

    start = moment(since, option="--since")
    keys = by or ("agent", "model")
    if len(set(keys)) < len(keys):
        raise UsageError("--by names something twice")
    async with open_store(store_address(store), create=False) as opened:
        report = await costs(
            opened, load_settings().settings, session_id=session, since=start, by=keys
        )
    if as_json:
        emit(report.to_json())
        return
    if not report.lines:
        say("no model was called")
        return
    print_table(cost_headers(report), cost_rows(report))
    missing = unpriced_note(report, has_list=has_price_list())
    if missing:
        note(missing)
