"""The lives of handoffs, and who had the conversation when, from the events of a session alone."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.core.events import Event
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.handoff.requests import FINAL, is_legal
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import SessionRow


def owners_of(events: Sequence[Event], *, entry: str) -> list[str]:
    """Who has the conversation before the first event, and after each: always exactly one.

    Fails at an event that somebody else wrote than the one who had it.
    """
    owners = [entry]
    for event in events:
        active, details = owners[-1], event.details or {}
        moves = details.get("moves", ()) if event.type == "handoff" else ()
        if moves[-1:] == ["transferring"]:
            assert (event.agent, details["from"]) == (active, active)
            active = details["to"]
        elif moves == ["rolled_back"]:
            assert (event.agent, details["to"]) == (details["from"], active)
            active = details["from"]
        elif event.type == "route":
            assert event.agent == active
            active = details["agent"]
        else:
            assert event.agent == active, f"{event} while {active} has the conversation"
        owners.append(active)
    return owners


def check_handoffs(events: Sequence[Event], row: SessionRow) -> list[HandoffRecord]:
    """Each handoff took a legal way, and the row knows exactly those that are not settled."""
    records = records_of(events)
    for record in records:
        assert is_legal([move.status for move in record.moves]), record
        assert record.status == record.moves[-1].status
    cursor = Cursor.from_json(row.cursor)
    under_way = [
        *(each.id for each in cursor.handoffs.open),
        *(each.id for each in cursor.handoffs.tried),
    ]
    assert [record.id for record in records if record.status not in FINAL] == under_way
    return records


def settled_keys(events: Sequence[Event]) -> set[str]:
    """The idempotency keys of compensations that are stored as made."""
    return {
        f"{event.details['id']}:{event.details['compensation']}"
        for event in events
        if event.details and "compensation" in event.details and event.error is None
    }
