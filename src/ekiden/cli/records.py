"""Stored things as the JSON that the command prints: a contract with programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.sessions import chain_of, conversation
from ekiden.sessions.info import names_of, session_info
from ekiden.sessions.info import session_record as session_record
from ekiden.storage.base import SessionRow


def show_record(row: SessionRow, events: Sequence[Event]) -> dict[str, Any]:
    """One session with its conversation."""
    return {
        **session_record(row),
        "variables": dict(row.variables),
        "items": conversation(events),
        "handoffs": chain_of(events),
        "metadata": session_info(row, events).metadata,
    }


def chain_record(row: SessionRow, events: Sequence[Event]) -> dict[str, Any]:
    """Who had the session, in order, and each handoff."""
    handoffs = chain_of(events)
    return {"session_id": row.id, "chain": names_of(row, handoffs), "handoffs": handoffs}
