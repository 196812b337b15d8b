"""Who handed a session to whom, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.cli.tables import clock_time
from ekiden.cli.trace_view import duration_text

CHAIN_HEADERS = ("time", "from", "to", "status", "policy", "took", "why")


def chain_line(record: Mapping[str, Any]) -> str:
    """Everyone who had the session; what was undone is left out."""
    return f"{record['session_id']}: {' → '.join(record['chain'])}"


def waiting_line(record: Mapping[str, Any]) -> str:
    """Whom the session waits for; empty if it does not."""
    return f"it waits for {record['waiting_for']}" if record.get("waiting_for") else ""


def chain_rows(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The handoffs, also those that were refused or undone."""
    return [
        (
            clock_time(each["timestamp"]),
            str(each.get("from", "")),
            str(each.get("to", "")),
            str(each.get("status", "")),
            str(each.get("policy", "")),
            _took(each.get("duration_ms")),
            _why(each),
        )
        for each in record["handoffs"]
    ]


def _took(milliseconds: Any) -> str:
    return "" if milliseconds is None else duration_text(int(milliseconds * 1e3))


def _why(each: Mapping[str, Any]) -> str:
    """Who wanted it if that was not the model, why, and what went wrong."""
    by = each.get("by") or {}
    who = "" if by.get("kind", "model") == "model" else f"{by['kind']} {by.get('name', '')}".strip()
    reason = str(each.get("reason") or "")
    wanted = ": ".join(part for part in (who, reason) if part)
    wrong = ": ".join(str(part) for part in (each.get("code"), each.get("error")) if part)
    back = "taken back by a rewind" if each.get("rewound") else ""
    return "; ".join(part for part in (wanted, wrong, back) if part)
