"""An inbox in memory, whose time a test moves with `store.advance`."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.questions import InboxItem
from ekiden.inbox import Inbox
from ekiden.storage.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()


@pytest.fixture
def inbox(store: MemoryStore) -> Inbox:
    """The inbox in it."""
    return Inbox(store)


def question(**fields: Any) -> InboxItem:
    """An item that can be answered with yes or no."""
    given: dict[str, Any] = {
        "kind": "approval",
        "from_agent": "sales",
        "subject": "15 % for 山田?",
        "options": ("yes", "no"),
    }
    return InboxItem(**(given | fields))


def confirmation(**fields: Any) -> InboxItem:
    """An item about a call of a tool."""
    given: dict[str, Any] = {
        "kind": "confirmation",
        "tool": "refund",
        "arguments": '{"order": 1042, "amount": 5}',
        "subject": "may refund run?",
    }
    return question(**(given | fields))
