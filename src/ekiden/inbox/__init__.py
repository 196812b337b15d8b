"""The inbox: everything that waits for a person, stored, answered once."""

from ekiden.inbox.changing import run_due
from ekiden.inbox.documents import fingerprint
from ekiden.inbox.inbox import BulkAnswer, Inbox, answer_of
from ekiden.inbox.life import Change, ChangeName, is_snoozed
from ekiden.inbox.query import InboxPage, InboxQuery
from ekiden.inbox.settings import InboxSettings
from ekiden.inbox.telling import NEW_ITEM, change_details, new_item_notice, posted_details

__all__ = [
    "NEW_ITEM",
    "BulkAnswer",
    "Change",
    "ChangeName",
    "Inbox",
    "InboxPage",
    "InboxQuery",
    "InboxSettings",
    "answer_of",
    "change_details",
    "fingerprint",
    "is_snoozed",
    "new_item_notice",
    "posted_details",
    "run_due",
]
