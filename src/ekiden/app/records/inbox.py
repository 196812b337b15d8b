"""Questions to people as JSON: a contract with programs."""

from __future__ import annotations

from typing import Any

from ekiden.core.inbox_item import InboxItem
from ekiden.inbox.inbox import BulkAnswer


def item_record(item: InboxItem) -> dict[str, Any]:
    """An item as the doors show it."""
    return {**item.to_json(), "version": item.version}


def bulk_record(bulk: BulkAnswer) -> dict[str, Any]:
    """What became of an answer to all items that ask the same."""
    return {"answered": list(bulk.answered), "closed": bulk.closed}
