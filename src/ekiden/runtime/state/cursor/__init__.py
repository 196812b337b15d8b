"""Where a run stands, in components: what is stored of it between two steps."""

from ekiden.runtime.state.cursor.cursor import (
    ConversationView as ConversationView,
    Cursor as Cursor,
    Grant as Grant,
    OpenQuestion as OpenQuestion,
    RunBudget as RunBudget,
    limit_before as limit_before,
    open_questions as open_questions,
    without_always_approvals as without_always_approvals,
)
from ekiden.runtime.state.cursor.handoffs import (
    USER as USER,
    Compensation as Compensation,
    PendingHandoff as PendingHandoff,
    has_open_handoffs as has_open_handoffs,
    unconfirmed_handoffs as unconfirmed_handoffs,
)
