"""The inbox: stored questions to people, each answered once."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.inbox.changes import (
        NEW_ITEM as NEW_ITEM,
        new_item_notice as new_item_notice,
        run_due as run_due,
    )
    from ekiden.inbox.inbox import Inbox as Inbox, InboxPage as InboxPage, InboxQuery as InboxQuery
    from ekiden.inbox.items import InboxChange as InboxChange, InboxSettings as InboxSettings

__getattr__ = lazy_names(__name__)
