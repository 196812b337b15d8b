"""Whole stores: copied from one back end to another, backed up, restored and looked through."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.app.copying.copies import copy_store
    from ekiden.app.copying.looking import StoreFindings, store_info, verify_store
    from ekiden.app.copying.report import CopiedTenant, CopyReport, CopyStep

__all__ = [
    "CopiedTenant",
    "CopyReport",
    "CopyStep",
    "StoreFindings",
    "copy_store",
    "store_info",
    "verify_store",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CopiedTenant": "ekiden.app.copying.report",
        "CopyReport": "ekiden.app.copying.report",
        "CopyStep": "ekiden.app.copying.report",
        "StoreFindings": "ekiden.app.copying.looking",
        "copy_store": "ekiden.app.copying.copies",
        "store_info": "ekiden.app.copying.looking",
        "verify_store": "ekiden.app.copying.looking",
    },
)
