"""The inbox: stored questions to people, each answered once."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.inbox.changes import NEW_ITEM, new_item_notice, run_due
    from ekiden.inbox.inbox import Inbox
    from ekiden.inbox.items import InboxChange, InboxSettings
    from ekiden.inbox.query import InboxPage, InboxQuery

__all__ = [
    "NEW_ITEM",
    "Inbox",
    "InboxChange",
    "InboxPage",
    "InboxQuery",
    "InboxSettings",
    "new_item_notice",
    "run_due",
]

__getattr__ = lazy_names(
    __name__,
    {
        "NEW_ITEM": "ekiden.inbox.changes",
        "InboxChange": "ekiden.inbox.items",
        "Inbox": "ekiden.inbox.inbox",
        "InboxPage": "ekiden.inbox.query",
        "InboxQuery": "ekiden.inbox.query",
        "InboxSettings": "ekiden.inbox.items",
        "new_item_notice": "ekiden.inbox.changes",
        "run_due": "ekiden.inbox.changes",
    },
)
