"""Errors of the inbox; all are `EkidenError`.

InboxError
├── InboxItemNotFound
├── InboxItemClosed
├── InboxAnswerInvalid
└── InboxForbidden
"""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class InboxError(EkidenError):
    """Base class of inbox errors."""

    code = "inbox.failed"


class InboxItemNotFound(InboxError):
    """No item has this id."""

    code = "inbox.not_found"

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"no inbox item is called {item_id[:80]!r}; `ekiden inbox list` shows the items"
        )
        self.item_id = item_id


class InboxItemClosed(InboxError):
    """The item was already answered, expired or cancelled; the message says by whom and when."""

    code = "inbox.closed"

    def __init__(
        self, item_id: str, *, status: str, by: str = "", at: str = "", reason: str = ""
    ) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at}" if at else ""
        super().__init__(
            f"inbox item {item_id} is {status} already{who}{when}: nothing was changed"
        )
        self.item_id, self.status, self.by, self.reason = item_id, status, by, reason


class InboxAnswerInvalid(InboxError):
    """The answer does not fit the item; the message says what would."""

    code = "inbox.answer_invalid"


class InboxForbidden(InboxError):
    """The caller may not do this: agents can never answer inbox items."""

    code = "inbox.forbidden"
