"""Functions that undo effects: another process finds them by their names."""

from __future__ import annotations

from typing import Any

from ekiden.runtime import Rollback
from tests.faults.ledger import Ledger


async def undo(rollback: Rollback) -> None:
    """Undo it."""
    ledger: Ledger = rollback.context.ledger
    ledger.note("undo", what=rollback.arguments, key=rollback.idempotency_key)
    ledger.take_effect(rollback.idempotency_key, f"no {rollback.arguments}")


async def undo_at_second_try(rollback: Rollback) -> None:
    """Undo it, if it was tried before."""
    ledger: Ledger = rollback.context.ledger
    facts: dict[str, Any] = {"key": rollback.idempotency_key}
    if not ledger.lines("undo_failed", **facts):
        ledger.note("undo_failed", **facts)
        raise ConnectionError("nobody answers the telephone")
    await undo(rollback)


def undo_never(rollback: Rollback) -> None:
    """What some things cannot be."""
    rollback.context.ledger.note("undo_refused", key=rollback.idempotency_key)
    raise PermissionError("it is not given back")
