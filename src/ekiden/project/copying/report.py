"""Progress and results of copies, backups and restores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.audit import Verification

Phase: TypeAlias = Literal["copy", "compare", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """The progress of a copy, a backup or a verification."""

    tenant: str
    phase: Phase
    done: int
    """The number of finished rows; in the phase `audit`, of finished sessions."""
    total: int


Progress: TypeAlias = Callable[[CopyStep], object]
"""Called now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTenant:
    """The copied store of one tenant."""

    name: str
    counts: Mapping[str, int]
    """The number of rows by table."""
    digests: Mapping[str, str]
    """The digest of all rows, by table. It is equal in the source and in the target."""
    audit: Verification
    """The verification of the audit in the target. A broken record was already broken in the
    source."""
    leases: int
    """The number of sessions that were running in the source at the start of the copy. Their later
    work is not in the copy."""
    later: Mapping[str, int]
    """How many rows each table of the source has gained or lost since the start of the copy."""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "tenant": self.name,
            "counts": dict(self.counts),
            "digests": dict(self.digests),
            "audit": self.audit.to_json(),
            "leases": self.leases,
            "later": dict(self.later),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """The result of a complete copy."""

    source: str
    target: str
    tenants: Sequence[CopiedTenant]
    seconds: float

    @property
    def rows(self) -> int:
        """The number of copied rows of all tables and tenants."""
        return sum(sum(tenant.counts.values()) for tenant in self.tenants)

    @property
    def audit_ok(self) -> bool:
        """Whether the audit has no broken records. A record that is broken in the source is also
        broken in the copy."""
        return all(tenant.audit.ok for tenant in self.tenants)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "audit_ok": self.audit_ok,
            "tenants": [tenant.to_json() for tenant in self.tenants],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFindings:
    """The result of verifying the store of one tenant."""

    tenant: str
    url: str
    faults: Sequence[str]
    """Damage, orphaned rows, and unreadable rows; one text each."""
    audit: Verification
    """The verification of all sessions: event numbers, hashes, and the head of each chain."""
    checked: Sequence[str] = ()
    """A description of the other checked data, for people."""
    not_checked: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether the verification found no errors."""
        return self.audit.ok and not self.faults

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "tenant": self.tenant,
            "url": self.url,
            "ok": self.ok,
            "faults": list(self.faults),
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
            "audit": self.audit.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The result of a complete backup or restore."""

    source: str
    target: str
    tenants: Sequence[StoreFindings]
    """The verification of each tenant's file or restored store. Empty for a new dump: a dump is
    verified when it is restored."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the verification found no errors. Errors in the source are also in the copy."""
        return all(found.ok for found in self.tenants)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "tenants": [found.to_json() for found in self.tenants],
        }
