"""Where a run stands, in components: what is stored of it between two steps."""

from ekiden.runtime.state.cursor.cursor import (
    ConversationView,
    Cursor,
    Grant,
    OpenQuestion,
    RunBudget,
    limit_before,
    open_questions,
    without_always_approvals,
)
from ekiden.runtime.state.cursor.handoffs import (
    USER,
    Compensation,
    PendingHandoff,
    has_open_handoffs,
    unconfirmed_handoffs,
)

__all__ = [
    "USER",
    "Compensation",
    "ConversationView",
    "Cursor",
    "Grant",
    "OpenQuestion",
    "PendingHandoff",
    "RunBudget",
    "has_open_handoffs",
    "limit_before",
    "open_questions",
    "unconfirmed_handoffs",
    "without_always_approvals",
]
