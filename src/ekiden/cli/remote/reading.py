"""What a server tells, as the values that the views for people are made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.audit import AuditRecord, Verification
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


def audit_record_of(record: Mapping[str, Any]) -> AuditRecord:
    """One record of the audit."""
    from ekiden.audit.record import AuditActor, AuditRecord

    own = {
        name: value
        for name, value in record.items()
        if name not in ("timestamp", "from", "to", "actor")
    }
    return AuditRecord(
        **own,
        at_us=_us(record["timestamp"]),
        seq=0,
        actor=AuditActor(**record["actor"]),
        source=record["from"],
        target=record["to"],
    )


def verification_of(record: Mapping[str, Any]) -> Verification:
    """What a verification found."""
    from ekiden.audit import Verification
    from ekiden.audit.findings import BrokenLink

    counts = ("sessions", "chained", "not_chained", "events", "unhashed")
    more = ("covered", "uncovered", "decisions", "compared", "checked", "not_checked")
    found = Verification(**{name: record[name] for name in (*counts, *more)})
    for link in record["links"]:
        own = {name: value for name, value in link.items() if name != "timestamp"}
        found.report(BrokenLink(**own, at_us=_us(link["timestamp"])))
    found.broken = record["broken"]
    return found


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
