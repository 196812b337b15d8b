"""The cursor of a run: its position between two steps, stored in components."""

from ekiden.runtime.state.cursor.cursor import (
    ALWAYS as ALWAYS,
    ConversationView as ConversationView,
    Cursor as Cursor,
    Grant as Grant,
    OpenQuestion as OpenQuestion,
    RunBudget as RunBudget,
    open_questions as open_questions,
)
from ekiden.runtime.state.cursor.handoffs import (
    USER as USER,
    Compensation as Compensation,
    PendingHandoff as PendingHandoff,
    has_open_handoffs as has_open_handoffs,
    unconfirmed_handoffs as unconfirmed_handoffs,
)
