"""The inbox: everything that waits for a person, stored, answered once."""

from typing import TYPE_CHECKING

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.inbox.changing import run_due
    from ekiden.inbox.documents import fingerprint
    from ekiden.inbox.inbox import BulkAnswer, Inbox, answer_of
    from ekiden.inbox.life import Change, ChangeName, is_snoozed
    from ekiden.inbox.query import InboxPage, InboxQuery, StatusFilter
    from ekiden.inbox.settings import InboxSettings
    from ekiden.inbox.telling import NEW_ITEM, change_details, new_item_notice

__all__ = [
    "NEW_ITEM",
    "BulkAnswer",
    "Change",
    "ChangeName",
    "Inbox",
    "InboxPage",
    "InboxQuery",
    "InboxSettings",
    "StatusFilter",
    "answer_of",
    "change_details",
    "fingerprint",
    "is_snoozed",
    "new_item_notice",
    "run_due",
]

__getattr__ = lazy_names(
    __name__,
    {
        "NEW_ITEM": "ekiden.inbox.telling",
        "BulkAnswer": "ekiden.inbox.inbox",
        "Change": "ekiden.inbox.life",
        "ChangeName": "ekiden.inbox.life",
        "Inbox": "ekiden.inbox.inbox",
        "InboxPage": "ekiden.inbox.query",
        "InboxQuery": "ekiden.inbox.query",
        "InboxSettings": "ekiden.inbox.settings",
        "StatusFilter": "ekiden.inbox.query",
        "answer_of": "ekiden.inbox.inbox",
        "change_details": "ekiden.inbox.telling",
        "fingerprint": "ekiden.inbox.documents",
        "is_snoozed": "ekiden.inbox.life",
        "new_item_notice": "ekiden.inbox.telling",
        "run_due": "ekiden.inbox.changing",
    },
)
