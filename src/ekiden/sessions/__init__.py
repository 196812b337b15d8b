"""Sessions: stored conversations and how to read them."""

from ekiden.sessions.conversation import (
    chain_of,
    conversation,
    history_length,
    is_transfer,
    open_calls,
    said,
    visible_items,
)
from ekiden.sessions.session import Session

__all__ = [
    "Session",
    "chain_of",
    "conversation",
    "history_length",
    "is_transfer",
    "open_calls",
    "said",
    "visible_items",
]
