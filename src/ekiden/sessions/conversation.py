"""Reading a session's events as the conversation that an agent sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.core.items import Item


def undone(events: Iterable[Event]) -> list[tuple[int, int]]:
    """The ranges of event numbers that a rollback took out of the conversation."""
    ranges: list[tuple[int, int]] = []
    for event in events:
        if event.type == "handoff" and event.details and "undoes" in event.details:
            first, last = event.details["undoes"]
            for kept in sorted(event.details.get("keeps", ())):
                ranges.append((first, kept - 1))
                first = kept + 1
            ranges.append((first, last))
    return ranges


def is_transfer(event: Event) -> bool:
    """Whether the event gave the conversation to another agent."""
    if event.type != "handoff" or not event.details:
        return False
    moves = event.details.get("moves")
    if moves is None:  # written before handoffs had moves
        return bool(event.details.get("status") == "completed")
    return "transferring" in moves and "rolled_back" not in moves


def said(events: Sequence[Event]) -> Iterable[Event]:
    """The events that carry items and were not undone."""
    ranges = undone(events)
    for event in events:
        if event.items and not any(first <= event.seq <= last for first, last in ranges):
            yield event


def conversation(events: Sequence[Event]) -> list[Item]:
    """Everything said that still stands."""
    return [item for event in said(events) for item in event.items]


def visible_items(
    events: Sequence[Event], *, base: Sequence[Item] = (), after: int = 0
) -> list[Item]:
    """What the active agent sees: `base`, then what was said after event number `after`."""
    items = list(base)
    for event in said(events):
        if event.seq > after:
            items.extend(event.items)
    return items


def history_length(events: Sequence[Event], *, base: Sequence[Item], after: int, first: int) -> int:
    """How many of `visible_items` came before the run whose first event is number `first`.

    That event is the run's input and counts as before; what a filter made of all that came
    earlier (`base`) does too.
    """
    return len(base) + sum(len(event.items) for event in said(events) if after < event.seq <= first)


def open_calls(events: Sequence[Event]) -> list[Item]:
    """Calls that stand without an answer, in order."""
    calls: dict[str, Item] = {}
    for item in conversation(events):
        kind = item.get("type")
        if kind == "function_call":
            calls[str(item.get("call_id"))] = item
        elif kind == "function_call_output":
            calls.pop(str(item.get("call_id")), None)
    return list(calls.values())


def chain_of(events: Sequence[Event]) -> list[Mapping[str, Any]]:
    """The handoffs in order, each as it stands now: id, from, to, reason, status, time."""
    rows: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.type != "handoff":
            continue
        details = event.details or {}
        row = rows.setdefault(details.get("id", event.event_id), {"timestamp": event.at_us / 1e6})
        row.update({name: value for name, value in details.items() if name not in _INTERNAL})
        if event.error and "compensation" not in details:
            row["error"] = event.error
    return list(rows.values())


_INTERNAL = frozenset({"undoes", "keeps", "hash", "moves", "compensation", "attempt"})
