"""The inbox: stored questions to people, each answered once."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.inbox.changes import run_due
    from ekiden.inbox.inbox import Inbox
    from ekiden.inbox.items import Change, InboxSettings
    from ekiden.inbox.notifications import NEW_ITEM, new_item_notice
    from ekiden.inbox.query import InboxPage, InboxQuery

__all__ = [
    "NEW_ITEM",
    "Change",
    "Inbox",
    "InboxPage",
    "InboxQuery",
    "InboxSettings",
    "new_item_notice",
    "run_due",
]

__getattr__ = lazy_names(
    __name__,
    {
        "NEW_ITEM": "ekiden.inbox.notifications",
        "Change": "ekiden.inbox.items",
        "Inbox": "ekiden.inbox.inbox",
        "InboxPage": "ekiden.inbox.query",
        "InboxQuery": "ekiden.inbox.query",
        "InboxSettings": "ekiden.inbox.items",
        "new_item_notice": "ekiden.inbox.notifications",
        "run_due": "ekiden.inbox.changes",
    },
)
