"""Progress and results of copies, backups and restores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.audit import Verification

Phase: TypeAlias = Literal["copy", "compare", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """How far a copy, a backup or a verification is."""

    tenant: str
    phase: Phase
    done: int
    """Rows, or sessions in the phase `audit`."""
    total: int


Progress: TypeAlias = Callable[[CopyStep], object]
"""Called now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTenant:
    """The store of one tenant, which is in the target now."""

    name: str
    counts: Mapping[str, int]
    """Rows by table."""
    digests: Mapping[str, str]
    """Of all rows, by table: computed from what was read in the source, and the same when it was
    read again in the target."""
    audit: Verification
    """Of the target. The rows are the source's, so what is broken here was broken there."""
    leases: int
    """Sessions with a lease in the source when the copy began: their later work is not in the
    copy."""
    later: Mapping[str, int]
    """Rows by table that the source has more, or fewer, than it had when the copy began."""

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
    """A copy that came to its end."""

    source: str
    target: str
    tenants: Sequence[CopiedTenant]
    seconds: float

    @property
    def rows(self) -> int:
        """Of all tables and tenants."""
        return sum(sum(tenant.counts.values()) for tenant in self.tenants)

    @property
    def audit_ok(self) -> bool:
        """Whether the audit is unbroken: as it was in the source."""
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
    """What was found in the store of one tenant."""

    tenant: str
    url: str
    faults: Sequence[str]
    """Damage, rows that belong to nothing, and rows that cannot be read."""
    audit: Verification
    """Of every session: events without gaps in their numbers, hashes, the chain's head."""
    checked: Sequence[str] = ()
    """What was looked at, besides the audit."""
    not_checked: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
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
    """A backup, or a restore, that came to its end."""

    source: str
    target: str
    tenants: Sequence[StoreFindings]
    """What was found in the files of a backup, and in stores that were restored; nothing for a
    dump, which is verified when it is restored."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: as it was in the source."""
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
