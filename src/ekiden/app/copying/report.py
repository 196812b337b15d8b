"""How a copy goes, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.audit import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """How far a copy is."""

    tenant: str
    phase: Literal["copy", "compare", "audit"]
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
    """Sessions that somebody worked at in the source when the copy began: what is done there from
    then on is not in the copy."""
    later: Mapping[str, int]
    """Rows by table that the source has more, or fewer, than it had when the copy began."""

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
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
    finished_before: Sequence[str]
    """Tenants whose part was done when an earlier copy was killed."""
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
        """As programs read it."""
        return {
            "source": self.source,
            "target": self.target,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "audit_ok": self.audit_ok,
            "tenants": [tenant.to_json() for tenant in self.tenants],
            "finished_before": list(self.finished_before),
        }
