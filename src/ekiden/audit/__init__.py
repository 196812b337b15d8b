"""The audit log: tamper-evident records of handoffs and decisions, read from the event stream."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.storage.chain import (
    GENESIS as GENESIS,
    AuditChain as AuditChain,
    ChainHead as ChainHead,
    chained as chained,
    head_of as head_of,
    link as link,
)

if TYPE_CHECKING:
    from ekiden.audit.query import (
        AuditPage as AuditPage,
        AuditQuery as AuditQuery,
        audit_records as audit_records,
        export_audit as export_audit,
        find_records as find_records,
    )
    from ekiden.audit.record import (
        AuditActor as AuditActor,
        AuditRecord as AuditRecord,
        BrokenLink as BrokenLink,
        Fault as Fault,
        Verification as Verification,
        records_of as records_of,
    )
    from ekiden.audit.verify import verify_audit as verify_audit

__getattr__ = lazy_names(__name__)
