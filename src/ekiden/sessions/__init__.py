"""Sessions, which are stored conversations, and functions to read them."""

from ekiden.sessions.conversation import (
    chain_of as chain_of,
    conversation as conversation,
    current_events as current_events,
    history_length as history_length,
    is_rewind as is_rewind,
    is_transfer as is_transfer,
    open_calls as open_calls,
    said as said,
    visible_events as visible_events,
    visible_items as visible_items,
)
from ekiden.sessions.session import Session as Session
from ekiden.sessions.state import (
    SessionState as SessionState,
    state_at as state_at,
    variables_at as variables_at,
)
