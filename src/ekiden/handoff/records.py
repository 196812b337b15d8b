"""Records of handoffs, computed from the events of sessions and never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ekiden.core.errors import HandoffNotFound, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.handoffs import Actor, HandoffFailure, HandoffResult, StatusName
from ekiden.handoff.requests import FINAL, Asked, asked_in, find_request, session_of
from ekiden.storage.base import SessionRow, Store

_MODEL = {"kind": "model"}
_LEFT_OUT_IF_EMPTY: Final = (
    "reason", "code", "error", "trigger", "request", "filter", "evaluation", "priority", "metadata",
)  # fmt: skip
_FACTS_OF_TRIGGERS: Final = frozenset({"type", "also"})
"""The fields of a trigger's reason without content: no texts of people, models and tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move of a handoff."""

    status: StatusName
    at_us: int
    seq: int
    """The number of the event that records the move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRecord:
    """All facts about one handoff, computed from its events."""

    id: str
    session_id: str
    source: str
    target: str
    status: StatusName
    moves: tuple[Move, ...]
    by: Actor
    policy: str = "graceful"
    reason: str = ""
    code: str | None = None
    error: str | None = None
    trigger: Mapping[str, Any] | None = None
    """The trigger that fired, with the facts that made it fire; `None` if no trigger fired."""
    request: str | None = None
    """The id of the handoff request, if a person or a program requested the handoff while the
    session was running."""
    filter: str | None = None
    """The key of the stored step with the filtered items that the target saw. `None` if no filter
    changed the items."""
    evaluation: Mapping[str, Any] | None = None
    """The evaluation of the handoff's condition if the condition was not met; otherwise `None`."""
    compensated: tuple[str, ...] = ()
    not_compensated: tuple[str, ...] = ()
    rollback_attempts: int = 0
    """The number of failed attempts to run compensations."""
    priority: int = 0
    metadata: Mapping[str, Any] | None = None
    """The metadata that the requesting program passed."""
    call_id: str | None = None
    """The id of the model's tool call that requested the handoff."""
    hashes: tuple[str, ...] = ()
    """The hashes of the handoff's audited events, in order."""
    is_private: bool = False
    """Whether the content of the handoff must be hidden, because of
    `RunConfig.trace_include_sensitive_data`."""

    @property
    def started_at(self) -> float:
        """When the handoff started, in seconds since 1970."""
        return self.moves[0].at_us / 1e6 if self.moves else 0.0

    @property
    def settled_at(self) -> float | None:
        """When the handoff ended, in seconds since 1970; `None` while it is in progress."""
        return self.moves[-1].at_us / 1e6 if self.status in FINAL and self.moves else None

    @property
    def is_made(self) -> bool:
        """Whether the target ever had the conversation."""
        return was_made(self.moves)

    def result(self) -> HandoffResult:
        """The result of the handoff, as a `HandoffResult`."""
        failure = None
        if self.code is not None:
            code: Any = self.code
            failure = HandoffFailure(code=code, message=self.error or "")
        return HandoffResult(
            request_id=self.id,
            status=self.status,
            source=self.source,
            target=self.target,
            completed_at=self.settled_at,
            error=failure,
            rollback_performed=self.status == "rolled_back" and self.is_made,
        )

    def shown(self) -> HandoffRecord:
        """The record without content if the handoff is private, otherwise the record itself."""
        if not self.is_private:
            return self
        trigger = self.trigger or {}
        facts = {name: trigger[name] for name in trigger if name in _FACTS_OF_TRIGGERS}
        return replace(self, reason="", trigger=facts or None, evaluation=None, metadata=None)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON. Empty and hidden fields are left out."""
        shown = self.shown()
        data: dict[str, Any] = {
            "id": self.id,
            "session_id": self.session_id,
            "source": self.source,
            "target": self.target,
            "status": self.status,
            "by": self.by.to_json(),
            "policy": self.policy,
            "started_at": self.started_at,
            "settled_at": self.settled_at,
            "moves": [
                {"status": move.status, "at": move.at_us / 1e6, "seq": move.seq}
                for move in self.moves
            ],
        }
        for name in _LEFT_OUT_IF_EMPTY:
            value = getattr(shown, name)
            if value:
                data[name] = value
        if self.compensated:
            data["compensated"] = list(self.compensated)
        if self.not_compensated:
            data["not_compensated"] = list(self.not_compensated)
        return data


class _Moved(Protocol):
    @property
    def status(self) -> StatusName: ...
    @property
    def seq(self) -> int: ...


def was_made(moves: Sequence[_Moved]) -> bool:
    """Whether the target of a handoff with these moves ever had the conversation."""
    at = {move.status: move.seq for move in moves}
    if "transferring" in at:
        # A withdrawn request is recorded with all its moves in one event.
        return at["transferring"] != at.get("rolled_back")
    return "completed" in at  # earlier versions recorded only the end


def records_of(events: Sequence[Event]) -> list[HandoffRecord]:
    """The handoffs in the events of one session, in the order of their first events."""
    by_id: dict[str, list[Event]] = {}
    for event in events:
        if event.type == "handoff" and event.details:
            by_id.setdefault(event.details.get("id", event.event_id), []).append(event)
    return [_record(handoff_id, found) for handoff_id, found in by_id.items()]


async def read_handoffs(store: Store, session_id: str) -> list[HandoffRecord]:
    """The handoffs of a session; empty if the session does not exist."""
    return records_of(await store.events(session_id))


async def read_handoff(store: Store, handoff_id: str) -> HandoffRecord:
    """The handoff with this id, which is recorded or still a stored request. Raises
    `HandoffNotFound`."""
    record = await _on_record(store, handoff_id)
    if record is not None:
        return record
    request = await find_request(store, handoff_id)
    if request is not None and (waiting := asked_in(request)).cancel is None:
        with suppress(SessionNotFound):
            row = await store.get(session_of(request))
            return await record_of_request(store, row, waiting)
    # The request may have been served between the two reads.
    record = await _on_record(store, handoff_id)
    if record is None:
        raise HandoffNotFound(handoff_id)
    return record


async def _on_record(store: Store, handoff_id: str) -> HandoffRecord | None:
    # Earlier versions used the id of the event: ``session/number``.
    for mark in (".h", "/"):
        session_id = handoff_id.rpartition(mark)[0]
        for record in await read_handoffs(store, session_id) if session_id else ():
            if record.id == handoff_id:
                return record
    return None


async def record_of_request(store: Store, row: SessionRow, asked: Asked) -> HandoffRecord:
    """The record of a requested handoff that is not made yet.

    If the request has expired and no process runs its session, the handoff counts as failed,
    because no process will make it.
    """
    source = asked.source or row.agent
    due_us = asked.due_us if asked.state == "open" and row.owner is None else None
    if due_us is not None and await store.now_us() > due_us:
        asked = replace(asked, state="timed_out", withdrawn_us=due_us)
    failure = None if asked.state == "open" else asked.why_withdrawn(source)
    moves = [Move(status="initiated", at_us=asked.asked_us, seq=0)]
    if failure is not None:
        moves.append(Move(status="failed", at_us=asked.withdrawn_us or asked.asked_us, seq=0))
    return HandoffRecord(
        id=asked.id,
        session_id=row.id,
        source=source,
        target=asked.to,
        status=moves[-1].status,
        moves=tuple(moves),
        by=asked.by,
        policy=asked.policy or "graceful",
        reason=asked.reason,
        code=None if failure is None else failure.code,
        error=None if failure is None else failure.message,
        request=asked.id,
        priority=asked.priority,
        metadata=asked.metadata or None,
    )


def _record(handoff_id: str, events: Sequence[Event]) -> HandoffRecord:
    merged: dict[str, Any] = {}
    moves: list[Move] = []
    compensated: list[str] = []
    failed = 0
    error: str | None = None
    for event in events:
        details = event.details or {}
        moves += _moves(event, details)
        if "compensation" in details:
            if event.error is None:
                compensated.append(details["compensation"])
            else:
                failed += 1
            continue
        merged.update(details)
        error = event.error or error
    last = events[-1]
    return HandoffRecord(
        id=handoff_id,
        session_id=last.session_id,
        source=merged.get("from", ""),
        target=merged.get("to", ""),
        status=merged.get("status", "completed"),
        moves=tuple(moves),
        by=Actor(**merged.get("by", _MODEL)),
        policy=merged.get("policy", "graceful"),
        reason=merged.get("reason", ""),
        code=merged.get("code"),
        error=error,
        trigger=merged.get("trigger"),
        request=merged.get("request"),
        filter=merged.get("filter"),
        evaluation=merged.get("evaluation"),
        compensated=tuple(compensated),
        not_compensated=tuple(merged.get("not_compensated", ())),
        rollback_attempts=failed,
        priority=merged.get("priority", 0),
        metadata=merged.get("metadata"),
        call_id=_call_id(events),
        hashes=tuple(
            event.details["hash"] for event in events if event.details and "hash" in event.details
        ),
        is_private=any(event.is_private for event in events),
    )


def _moves(event: Event, details: Mapping[str, Any]) -> list[Move]:
    earlier = details.get("at", {})
    # Events of earlier versions have only the final status.
    statuses = details.get("moves", [details.get("status", "completed")])
    return [
        Move(status=status, at_us=earlier.get(status, event.at_us), seq=event.seq)
        for status in statuses
    ]


def _call_id(events: Sequence[Event]) -> str | None:
    for event in events:
        for item in event.items:
            if item.get("type") == "function_call_output":
                return str(item.get("call_id"))
    return None
