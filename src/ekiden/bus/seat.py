"""The bus as one agent sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ekiden.core.errors import UserError
from ekiden.core.inbox_item import InboxAnswer, InboxItem
from ekiden.core.messages import (
    DEFAULT_TIMEOUT_S,
    PRIORITIES,
    AgentMessage,
    MessageType,
    Priority,
    priority_number,
)
from ekiden.storage.messages import Settled

if TYPE_CHECKING:
    from ekiden.core.asking import Ask
