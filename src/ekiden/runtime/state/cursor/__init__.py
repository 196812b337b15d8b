"""Where a run stands, in components: what is stored of it between two steps."""

from ekiden.runtime.state.cursor.active_agent import ConversationView
from ekiden.runtime.state.cursor.budget import RunBudget, had_before
from ekiden.runtime.state.cursor.cursor import Cursor
from ekiden.runtime.state.cursor.handoffs import (
    USER,
    Compensation,
    PendingHandoff,
    has_open_handoffs,
    opened_in,
)
from ekiden.runtime.state.cursor.questions import (
    Grant,
    OpenQuestion,
    open_questions,
    without_grants,
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
