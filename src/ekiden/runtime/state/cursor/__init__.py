"""Where a run stands, in components: what is stored of it between two steps."""

from ekiden.runtime.state.cursor.cursor import (
    ConversationView,
    Cursor,
    Grant,
    OpenQuestion,
    RunBudget,
    had_before,
    open_questions,
    without_grants,
)
from ekiden.runtime.state.cursor.handoffs import (
    USER,
    Compensation,
    PendingHandoff,
    has_open_handoffs,
    opened_in,
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
    "had_before",
    "has_open_handoffs",
    "open_questions",
    "opened_in",
    "without_grants",
]
