"""What a server tells, as the values that the views for people are made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.storage.base import SessionRow


def row_of(record: Mapping[str, Any]) -> SessionRow:
    """A session as it is stored, as far as it is told."""
    from ekiden.storage.base import SessionRow

    return SessionRow(
        id=record["session_id"],
        agent=record["agent"],
        status=record["status"],
        outcome=record["outcome"],
        user_id=record["user_id"],
        meta=record["meta"],
        cursor={},
        variables=record.get("variables", {}),
        seq=record["events"],
        epoch=0,
        owner=record["owner"],
        created_at_us=_us(record["created_at"]),
        updated_at_us=_us(record["updated_at"]),
        priority=record.get("priority", 2),
    )


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
