"""Stored things as the JSON that the command prints: a contract with programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.sessions import chain_of, conversation
from ekiden.storage.base import SessionRow

EXPORT_FORMAT = "ekiden.session"
EXPORT_VERSION = 1


def session_record(row: SessionRow) -> dict[str, Any]:
    """One session, without what was said."""
    return {
        "session_id": row.id,
        "agent": row.agent,
        "status": row.status,
        "outcome": row.outcome,
        "user_id": row.user_id,
        "meta": dict(row.meta),
        "events": row.seq,
        "owner": row.owner,
        "created_at": row.created_at_us / 1e6,
        "updated_at": row.updated_at_us / 1e6,
    }


def show_record(row: SessionRow, events: Sequence[Event]) -> dict[str, Any]:
    """One session with its conversation."""
    return {
        **session_record(row),
        "variables": dict(row.variables),
        "items": conversation(events),
        "handoffs": chain_of(events),
    }


def export_record(row: SessionRow, events: Sequence[Event]) -> dict[str, Any]:
    """One session with everything that happened in it."""
    return {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "session": {**session_record(row), "variables": dict(row.variables)},
        "events": [event.to_json() for event in events],
    }


def chain_record(row: SessionRow, events: Sequence[Event]) -> dict[str, Any]:
    """Who had the session, in order, and each handoff."""
    handoffs = chain_of(events)
    return {"session_id": row.id, "chain": names_of(row, handoffs), "handoffs": handoffs}


def names_of(row: SessionRow, handoffs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everyone who had the session, beginning with ``user``; a transfer undone is left out."""
    made = [each for each in handoffs if each.get("status") in ("transferring", "completed")]
    first = made[0]["from"] if made else row.agent
    return ["user", first, *(each["to"] for each in made)]
