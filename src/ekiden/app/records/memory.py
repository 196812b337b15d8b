"""Memories as JSON."""

from __future__ import annotations

from typing import Any

from ekiden.core.memory import Recollection


def memory_record(each: Recollection) -> dict[str, Any]:
    """One memory; if it was looked for, with how well it fits."""
    record: dict[str, Any] = {
        "key": each.key,
        "content": each.content,
        "metadata": dict(each.metadata),
        "stored_at": each.stored_at_us / 1e6,
        "agent": each.agent,
    }
    if each.score is not None:
        record |= {"score": round(each.score, 6), "found_by": each.found_by}
    return record
