"""Sessions as JSON: a contract with programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.app.records.session_states import standing_fields
from ekiden.core.events import Event
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.runtime.rewind import Rewind
from ekiden.sessions import chain_of, conversation, info
from ekiden.sessions.info import names_of, session_info
from ekiden.storage.base import SessionRow


def session_record(row: SessionRow) -> dict[str, Any]:
    """One session without what was said."""
    return {**info.session_record(row), **standing_fields(row)}


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
    """Who had the session, in order, each handoff, and whom it waits for, if it does."""
    handoffs = chain_of(events)
    records = {each.id: each for each in records_of(events)}
    record: dict[str, Any] = {
        "session_id": row.id,
        "chain": names_of(row, handoffs),
        "handoffs": [_handoff(each, records.get(str(each.get("id")))) for each in handoffs],
    }
    if row.status == "waiting":
        record["waiting_for"] = _waiting_for(events)
    return record


def _handoff(told: Mapping[str, Any], record: HandoffRecord | None) -> dict[str, Any]:
    """A handoff of a chain, with who wanted it and how long it took to be settled."""
    if record is None:
        return dict(told)
    data = {**told, "policy": record.policy, "by": record.by.to_json()}
    if record.settled_at is not None:
        data["duration_ms"] = round((record.settled_at - record.started_at) * 1e3, 3)
    return data


def _waiting_for(events: Sequence[Event]) -> str:
    for event in reversed(events):
        details = event.details or {}
        if event.type == "agent_complete" and details.get("outcome") == "waiting":
            return str(details.get("reason") or "somebody")
    return "somebody"


def fork_record(branch: SessionRow) -> dict[str, Any]:
    """A session that was branched off another."""
    return {
        "session_id": branch.id,
        "forked_from": branch.meta["forked_from"],
        "forked_at": branch.meta["forked_at"],
        "agent": branch.agent,
        "events": branch.seq,
        "unfinished": branch.cursor.get("p", "end") != "end",
    }


def rewind_record(done: Rewind) -> dict[str, Any]:
    """What a step back came to."""
    return {
        "session_id": done.session_id,
        "to_seq": done.to_seq,
        "undone": done.undone,
        "agent": done.agent,
    }


def import_record(row: SessionRow) -> dict[str, Any]:
    """A session that was taken over."""
    return {
        "session_id": row.id,
        "agent": row.agent,
        "user_id": row.user_id,
        "events": row.seq,
    }
