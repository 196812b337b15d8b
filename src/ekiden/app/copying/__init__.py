"""Whole stores: backed up, restored, copied from SQLite to PostgreSQL, and looked through."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.app.copying.backups import backup_store, restore_store
    from ekiden.app.copying.copies import copy_store
    from ekiden.app.copying.looking import store_info, verify_store
    from ekiden.app.copying.report import (
        BackupReport,
        CopiedTenant,
        CopyReport,
        CopyStep,
        StoreFindings,
    )

__all__ = [
    "BackupReport",
    "CopiedTenant",
    "CopyReport",
    "CopyStep",
    "StoreFindings",
    "backup_store",
    "copy_store",
    "restore_store",
    "store_info",
    "verify_store",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BackupReport": "ekiden.app.copying.report",
        "CopiedTenant": "ekiden.app.copying.report",
        "CopyReport": "ekiden.app.copying.report",
        "CopyStep": "ekiden.app.copying.report",
        "StoreFindings": "ekiden.app.copying.report",
        "backup_store": "ekiden.app.copying.backups",
        "copy_store": "ekiden.app.copying.copies",
        "restore_store": "ekiden.app.copying.backups",
        "store_info": "ekiden.app.copying.looking",
        "verify_store": "ekiden.app.copying.looking",
    },
)
