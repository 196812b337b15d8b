"""The audit: tamper-evident records of handoffs and decisions, read from the event stream."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.storage.chain import GENESIS, AuditChain, ChainHead, chained, head_of, link

if TYPE_CHECKING:
    from ekiden.audit.export import export_audit
    from ekiden.audit.findings import BrokenLink, Fault, Verification
    from ekiden.audit.query import AuditPage, AuditQuery, audit_records, find_records
    from ekiden.audit.record import AuditActor, AuditRecord, records_of
    from ekiden.audit.verify import verify_audit

__all__ = [
    "GENESIS",
    "AuditActor",
    "AuditChain",
    "AuditPage",
    "AuditQuery",
    "AuditRecord",
    "BrokenLink",
    "ChainHead",
    "Fault",
    "Verification",
    "audit_records",
    "chained",
    "export_audit",
    "find_records",
    "head_of",
    "link",
    "records_of",
    "verify_audit",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AuditActor": "ekiden.audit.record",
        "AuditPage": "ekiden.audit.query",
        "AuditQuery": "ekiden.audit.query",
        "AuditRecord": "ekiden.audit.record",
        "BrokenLink": "ekiden.audit.findings",
        "Fault": "ekiden.audit.findings",
        "Verification": "ekiden.audit.findings",
        "audit_records": "ekiden.audit.query",
        "export_audit": "ekiden.audit.export",
        "find_records": "ekiden.audit.query",
        "records_of": "ekiden.audit.record",
        "verify_audit": "ekiden.audit.verify",
    },
)
