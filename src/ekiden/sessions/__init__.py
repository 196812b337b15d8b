"""Sessions: stored conversations and how to read them."""

from ekiden.sessions.conversation import (
    chain_of,
    conversation,
    current_events,
    history_length,
    is_rewind,
    is_transfer,
    open_calls,
    said,
    visible_events,
    visible_items,
)
from ekiden.sessions.session import Session
from ekiden.sessions.state import SessionState, state_at, variables_at

__all__ = [
    "Session",
    "SessionState",
    "chain_of",
    "conversation",
    "current_events",
    "history_length",
    "is_rewind",
    "is_transfer",
    "open_calls",
    "said",
    "state_at",
    "variables_at",
    "visible_events",
    "visible_items",
]
