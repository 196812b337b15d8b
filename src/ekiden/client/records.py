"""Values of the audit, traces and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.client.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Value):
    """One thing that the audit knows: a move of a handoff, a decision, a case for a person."""

    id: str
    timestamp: float = 0.0
    session_id: str = ""
    type: str = ""
    move: str | None = None
    actor: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    handoff_id: str | None = None
    task_id: str = ""
    correlation_id: str = ""
    reason: str | None = None
    code: str | None = None
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    hash: str | None = None
    previous: str | None = None

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"source": raw.get("from"), "target": raw.get("to")}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification(Value):
    """What was looked at, and what is broken."""

    ok: bool
    sessions: int = 0
    events: int = 0
    compared: int = 0
    broken: int = 0
    checked: tuple[str, ...] = ()
    """What was looked at, in words."""
    not_checked: tuple[str, ...] = ()
    links: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(raw.get(name) or ()) for name in ("checked", "not_checked", "links")}
