"""A session of the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.core.events import Event
from ekiden.storage.base import NewSession, SessionFilter, SessionStatus
from ekiden.storage.values import checked_copy


class MemorySession:
    """A session's row and journal."""

    __slots__ = (
        "agent",
        "created_at_us",
        "cursor",
        "epoch",
        "events",
        "id",
        "meta",
        "number",
        "outcome",
        "owner",
        "seq",
        "status",
        "steps",
        "until",
        "updated_at_us",
        "user_id",
        "variables",
    )

    def __init__(self, new: NewSession, number: int, now_us: int) -> None:
        """`UserError` for a `meta` that is not JSON."""
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
