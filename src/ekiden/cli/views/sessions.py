"""Sessions, their handoffs and their costs, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.cli.terminal.output import note, say
from ekiden.cli.terminal.tables import Cell, Extra, Id, Table, TimeCell, clock_time, print_table
from ekiden.cli.views.traces import duration_text
from ekiden.core.values import PRIORITIES

if TYPE_CHECKING:
    from ekiden.api.sessions import SessionChain, SessionSummary
    from ekiden.api.traces import CostEntry, CostSummary
    from ekiden.sessions.search import SessionHit

HIT_HEADERS = ("session", "event", "text")
CHAIN_HEADERS = ("time", "from", "to", "status", Extra("policy"), "took", "why")


def session_table(sessions: Sequence[SessionSummary]) -> Table:
    """Sessions, without their messages."""
    headers = ("session", "agent", "status", "outcome", Extra("events"), "created", "title")
    return headers, [
        (
            Id(each.session_id),
            each.agent,
            each.status,
            last_outcome(each) or "",
            str(each.events),
            TimeCell(each.created_at),
            each.title or "",
        )
        for each in sessions
    ]


def last_outcome(session: SessionSummary) -> str | None:
    """How the last run ended; a run without an outcome was stopped."""
    if session.outcome is None and session.run_id is not None and session.state == "idle":
        return "stopped"
    return session.outcome


def session_heading(session: SessionSummary) -> list[tuple[str, str]]:
    """The heading above a session's conversation."""
    state: str = session.status
    outcome = last_outcome(session)
    if outcome is not None:
        state = f"{state}, last run {outcome}"
    pairs = [
        ("session", session.session_id),
        ("agent", session.agent),
        ("state", state),
        ("created", clock_time(session.created_at)),
        ("changed", clock_time(session.updated_at)),
    ]
    if session.user_id is not None:
        pairs.append(("user", session.user_id))
    pairs.extend(
        ("priority", name)
        for name, number in PRIORITIES.items()
        if number == session.priority and name != "normal"
    )
    pairs.extend((name, str(value)) for name, value in session.meta.items())
    if session.owner is not None:
        pairs.append(("run by", session.owner))
    return pairs


def hit_rows(hits: Sequence[SessionHit]) -> list[tuple[Cell, ...]]:
    """Search hits in sessions."""
    return [(Id(each.session_id), str(each.seq or "title"), each.excerpt) for each in hits]


def print_chain(chain: SessionChain, *, wide: bool = False) -> None:
    """The agents that had a session, each handoff, and what it waits for."""
    say(chain_line(chain))
    if chain.handoffs:
        print_table(CHAIN_HEADERS, chain_rows(chain), wide=wide)
    if chain.waiting_for:
        say(f"it waits for {chain.waiting_for}")


def chain_line(chain: SessionChain) -> str:
    """All agents that had the session, without rolled-back handoffs."""
    return f"{chain.session_id}: {' → '.join(chain.chain)}"


def chain_rows(chain: SessionChain) -> list[tuple[Cell, ...]]:
    """The handoffs, including refused and rolled-back ones."""
    return [
        (
            TimeCell(each["timestamp"]),
            str(each.get("from", "")),
            str(each.get("to", "")),
            str(each.get("status", "")),
            str(each.get("policy", "")),
            _took(each.get("duration_ms")),
            _why(each),
        )
        for each in chain.handoffs
    ]


def _took(milliseconds: Any) -> str:
    return "" if milliseconds is None else duration_text(int(milliseconds * 1e3))


def _why(each: Mapping[str, Any]) -> str:
    """Who requested it, if not the model, the reason, and the failure."""
    by = each.get("by") or {}
    who = "" if by.get("kind", "model") == "model" else f"{by['kind']} {by.get('name', '')}".strip()
    reason = str(each.get("reason") or "")
    wanted = ": ".join(part for part in (who, reason) if part)
    wrong = ": ".join(str(part) for part in (each.get("code"), each.get("error")) if part)
    back = "undone by a rewind" if each.get("rewound") else ""
    return "; ".join(part for part in (wanted, wrong, back) if part)


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
