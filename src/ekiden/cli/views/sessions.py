"""Sessions, their handoffs, costs, variables and memories, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.api.memory import FoundMemory, MemoryDelivery, MemoryEntry
from ekiden.cli.output import (
    Cell,
    Extra,
    Id,
    Table,
    TimeCell,
    clock_time,
    note,
    print_pairs,
    print_table,
    say,
)
from ekiden.cli.transcript import shorten
from ekiden.cli.views.traces import duration_text
from ekiden.core.values import PRIORITIES, dumps
from ekiden.runtime.history.session_state import SharedVariable
from ekiden.sessions.state import SessionState

if TYPE_CHECKING:
    from ekiden.api.sessions import SessionChain, SessionSummary
    from ekiden.api.traces import CostEntry, CostSummary
    from ekiden.sessions.search import SessionHit

HIT_HEADERS = ("session", "event", "text")
CHAIN_HEADERS = ("time", "from", "to", "status", Extra("policy"), "took", "why")


def session_table(sessions: Sequence[SessionSummary]) -> Table:
    """Sessions, without their messages."""
    headers = ("session", "agent", "status", "conclusion", Extra("events"), "created", "title")
    return headers, [
        (
            Id(each.session_id),
            each.agent,
            each.status,
            conclusion_of(each) or "",
            str(each.events),
            TimeCell(each.created_at),
            each.title or "",
        )
        for each in sessions
    ]


def conclusion_of(session: SessionSummary) -> str | None:
    """How well the last run went; the outcome of a run that waits, or has no conclusion."""
    if session.outcome is None and session.run_id is not None and session.state == "idle":
        return "stopped"
    return session.conclusion or session.outcome


def session_heading(session: SessionSummary) -> list[tuple[str, str]]:
    """The heading above a session's conversation."""
    state: str = session.status
    conclusion = conclusion_of(session)
    if conclusion is not None:
        state = f"{state}, last run {conclusion}"
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


HEADERS = ("variable", "value", "version", "by", "changed")
_LONGEST = 400


def print_state(state: SessionState) -> None:
    """The state of a session."""
    print_pairs(state_pairs(state))
    if state.variables:
        say()
        print_table(("variable", "value"), variable_rows(state.variables))


def state_pairs(state: SessionState) -> list[tuple[str, str]]:
    """A session's state, without its variables."""
    last = state.last_action
    pairs = [
        ("session", state.session_id),
        ("after event", str(state.seq)),
        ("version", str(state.version)),
        ("task", state.current_task or "-"),
        ("status", state.task_status),
        ("agent", state.current_agent or "-"),
    ]
    if last is not None:
        pairs.append(("last", f"{last.type}, {clock_time(last.timestamp)}"))
    return pairs


def variable_rows(variables: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The variables, by name."""
    return [(name, _shown(variables[name])) for name in sorted(variables)]


def shared_rows(variables: Mapping[str, SharedVariable]) -> list[tuple[str, ...]]:
    """The variables of a user or an app, by name."""
    return [
        (name, _shown(each.value), str(each.version), each.by, clock_time(each.updated_at))
        for name, each in sorted(variables.items())
    ]


def versions_text(versions: Mapping[str, int]) -> str:
    """The new versions of variables."""
    return ", ".join(
        f"{name} has version {version}" if version else f"{name} is deleted"
        for name, version in versions.items()
    )


def _shown(value: Any) -> str:
    """A value as JSON, on one line."""
    return shorten(dumps(value), _LONGEST)


_HEADERS = ("key", "stored", "by", "content")
_SHOWN = 120


def memory_table(entries: Sequence[MemoryEntry]) -> Table:
    """Memories, one on each line."""
    return _HEADERS, [_row(each) for each in entries]


def found_table(found: Sequence[FoundMemory]) -> Table:
    """Search results, one on each line."""
    return ("score", *_HEADERS), [(f"{each.score:.2f}", *_row(each)) for each in found]


def memory_pairs(each: MemoryEntry) -> list[tuple[str, str]]:
    """Everything about one memory."""
    pairs = [
        ("key", each.key),
        ("stored", clock_time(each.stored_at)),
        ("by", each.agent or ""),
        ("metadata", dumps(dict(each.metadata)) if each.metadata else ""),
        ("content", each.content),
    ]
    return [(label, text) for label, text in pairs if text]


def print_deliveries(done: Sequence[MemoryDelivery]) -> None:
    """Print the numbers of changes sent to the back ends."""
    if not done:
        say("no back end holds copies of these memories")
        return
    print_table(
        ("back end", "delivered", "waiting", "problem"),
        [
            (each.backend, str(each.delivered), str(each.waiting), each.problem or "")
            for each in done
        ],
    )


def _row(each: MemoryEntry) -> tuple[Cell, ...]:
    content = " ".join(each.content.split())
    short = content if len(content) <= _SHOWN else content[: _SHOWN - 1] + "…"
    return (Id(each.key), TimeCell(each.stored_at), each.agent or "", short)
