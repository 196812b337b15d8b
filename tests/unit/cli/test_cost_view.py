"""What model calls cost, as it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.api.local.traces import summary_of
from ekiden.api.traces import CostSummary
from ekiden.cli.views.sessions import cost_headers, cost_rows, unpriced_note
from ekiden.core.events import Event
from ekiden.runtime import Price
from ekiden.sessions.costs import CostKey, cost_report

PRICES = {"m": Price(input=1, output=1)}


def called(model: str, tokens: int) -> Event:
    details: dict[str, Any] = {"model": model, "usage": {"requests": 1, "input_tokens": tokens}}
    return Event(session_id="s", seq=1, type="llm_call", at_us=0, agent="a", details=details)


def costs(
    events: list[Event], prices: dict[str, Price] | None = None, *, by: tuple[CostKey, ...] = ()
) -> CostSummary:
    return summary_of(cost_report(events, prices, by=by or ("agent", "model")))


@pytest.mark.parametrize(
    ("tokens", "shown"), [(0, "0.000000"), (1, "0.000001"), (1_234_000_000, "1,234.00")]
)
def test_small_sums_are_exact_and_large_ones_readable(tokens: int, shown: str) -> None:
    [row] = cost_rows(costs([called("m", tokens)], PRICES))
    assert row[-1] == shown


def test_several_cost_lines_end_with_the_total() -> None:
    report = costs([called("m", 1), called("nobody", 1)], PRICES, by=("model", "agent"))
    assert cost_headers(report)[:2] == ("model", "agent")
    rows = cost_rows(report)
    assert [row[:2] for row in rows] == [("m", "a"), ("nobody", "a"), ("all", "")]
    assert [row[-1] for row in rows] == ["0.000001", "?", "0.000001 + ?"]


def test_missing_prices_are_reported_with_advice() -> None:
    known = costs([called("m", 1)], PRICES)
    assert unpriced_note(known, has_list=False) == ""
    unknown = costs([called("nobody", 1)])
    assert "pip install 'ekiden[prices]'" in unpriced_note(unknown, has_list=False)
    assert "pip install" not in unpriced_note(unknown, has_list=True)
