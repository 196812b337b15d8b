"""A session of the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.core.events import Event
from ekiden.storage.base import NewSession, SessionFilter, SessionRow, SessionStatus
from ekiden.storage.priorities import check_priority, head_start_us
from ekiden.storage.values import check_session_id, checked_copy, copy_json


class MemorySession:
    """A session's row and journal."""

    __slots__ = (
        "agent",
        "created_at_us",
        "cursor",
        "epoch",
        "events",
        "head_start_us",
        "id",
        "meta",
        "number",
        "outcome",
        "owner",
        "place_us",
        "priority",
        "seq",
        "status",
        "steps",
        "until",
        "updated_at_us",
        "user_id",
        "variables",
        "wakes",
    )

    def __init__(self, new: NewSession, number: int, now_us: int) -> None:
        """`UserError` for an empty id, a priority that is none, or a `meta` that is not JSON."""
        check_session_id(new.id)
        self.priority = check_priority(new)
        self.head_start_us = head_start_us(self.priority)
        self.place_us = 0
        """In the line of those that are ready, while it is there."""
        self.id = new.id
        self.number = number
        self.agent = new.agent
        self.status: SessionStatus = new.status
        self.outcome: str | None = None
        self.user_id = new.user_id
        self.meta = checked_copy(new.meta, "`meta` of session {!r}", new.id)
        self.cursor: Mapping[str, Any] = {}
        self.variables: Mapping[str, Any] = {}
        self.seq = 0
        self.epoch = 0
        self.owner: str | None = None
        self.until = 0.0
        self.wakes = 0
        self.created_at_us = self.updated_at_us = now_us
        self.events: list[Event] = []
        self.steps: dict[str, Any] = {}

    def matches(self, where: SessionFilter) -> bool:
        """Whether a list with this filter shows it."""
        return (
            (where.status is None or where.status == self.status)
            and (where.agent is None or where.agent == self.agent)
            and (where.user_id is None or where.user_id == self.user_id)
            and (where.outcome is None or where.outcome == self.outcome)
        )

    def row(self, now: float) -> SessionRow:
        """As it is given out, at a time of the leases' clock."""
        return SessionRow(
            id=self.id,
            agent=self.agent,
            status=self.status,
            outcome=self.outcome,
            user_id=self.user_id,
            meta=copy_json(self.meta),
            cursor=copy_json(self.cursor),
            variables=copy_json(self.variables),
            seq=self.seq,
            epoch=self.epoch,
            owner=self.owner if self.until > now else None,
            created_at_us=self.created_at_us,
            updated_at_us=self.updated_at_us,
            wakes=self.wakes,
            priority=self.priority,
        )
