"""What model calls cost, as it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ekiden.sessions.costs import CostLine, CostReport


def cost_headers(report: CostReport) -> tuple[str, ...]:
    """The columns of `cost_rows`."""
    return (*report.by, "calls", "input", "cached", "output", "cost")


def cost_rows(report: CostReport) -> list[Sequence[str]]:
    """The lines of a report, and all in all if there are several."""
    rows = [(*line.key.values(), *_numbers(line)) for line in report.lines]
    if len(rows) > 1:
        first = ("all", *("" for _ in report.by[1:]))
        rows.append((*first, *_numbers(report.total)))
    return list(rows)


def unpriced_note(report: CostReport, *, has_list: bool) -> str:
    """What is missing in the money; empty if nothing is."""
    if not report.total.unpriced:
        return ""
    calls = report.total.unpriced
    models = ", ".join(report.unpriced_models)
    way = "set it with `ekiden config set prices …`"
    if not has_list:
        way = f"{way}, or install a price list: pip install 'ekiden[prices]'"
    return f"nobody knows what {calls} calls of {models} cost; {way}"


def _numbers(line: CostLine) -> tuple[str, ...]:
    usage = line.usage
    return (
        f"{usage.requests:,}",
        f"{usage.input_tokens:,}",
        f"{usage.cached_tokens:,}",
        f"{usage.output_tokens:,}",
        _money(line),
    )


def _money(line: CostLine) -> str:
    if line.cost is None:
        return "?"
    mark = " + ?" if line.unpriced else ""
    return f"{line.cost:.6f}{mark}" if line.cost < 1 else f"{line.cost:,.2f}{mark}"
