"""Backs up, restores and verifies whole stores, and copies them from SQLite to PostgreSQL."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.project.copying.backups import (
        backup_store as backup_store,
        restore_store as restore_store,
    )
    from ekiden.project.copying.copies import copy_store as copy_store
    from ekiden.project.copying.migrations import (
        StoreMigration as StoreMigration,
        migrate_store as migrate_store,
        pending_migrations as pending_migrations,
    )
    from ekiden.project.copying.whole_stores import (
        BackupReport as BackupReport,
        CopiedTenant as CopiedTenant,
        CopyReport as CopyReport,
        CopyStep as CopyStep,
        StoreFindings as StoreFindings,
        store_info as store_info,
        verify_store as verify_store,
    )

__getattr__ = lazy_names(__name__)
