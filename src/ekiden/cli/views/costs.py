"""Costs of model calls, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.traces import CostEntry, CostSummary
from ekiden.cli.terminal.output import note, say
from ekiden.cli.terminal.tables import print_table


def print_costs(report: CostSummary, *, is_remote: bool, wide: bool) -> None:
    """A table, and the calls without a price."""
    from ekiden.models.prices import has_price_list

    if not report.lines:
        say("there were no model calls")
        return
    print_table(cost_headers(report), cost_rows(report), wide=wide)
    missing = unpriced_note(report, has_list=is_remote or has_price_list())
    if missing:
        note(missing)


def cost_headers(report: CostSummary) -> tuple[str, ...]:
    """The columns of `cost_rows`."""
    return (*report.by, "calls", "input", "cached", "output", "cost")


def cost_rows(report: CostSummary) -> list[Sequence[str]]:
    """The lines of a report, and a total if there are several."""
    rows = [
        (*(getattr(line, name) for name in report.by), *_numbers(line)) for line in report.lines
    ]
    if len(rows) > 1:
        first = ("all", *("" for _ in report.by[1:]))
        rows.append((*first, *_numbers(report.total)))
    return list(rows)


def unpriced_note(report: CostSummary, *, has_list: bool) -> str:
    """The calls without a price; empty if there are none."""
    if not report.total.unpriced_requests:
        return ""
    calls = report.total.unpriced_requests
    models = ", ".join(report.unpriced_models)
    way = "set it with `ekiden config set prices …`"
    if not has_list:
        way = f"{way}, or install a price list: pip install 'ekiden[prices]'"
    return f"the price of {calls} calls of {models} is unknown; {way}"


def _numbers(line: CostEntry) -> tuple[str, ...]:
    return (
        f"{line.requests:,}",
        f"{line.input_tokens:,}",
        f"{line.cached_tokens:,}",
        f"{line.output_tokens:,}",
        _money(line),
    )


def _money(line: CostEntry) -> str:
    if line.cost is None:
        return "?"
    mark = " + ?" if line.unpriced_requests else ""
    return f"{line.cost:.6f}{mark}" if line.cost < 1 else f"{line.cost:,.2f}{mark}"
