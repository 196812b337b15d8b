from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item
from ekiden.core.conversation.run_items import (
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from ekiden.core.handoffs import HandoffInputData

_WRAP: dict[str, Callable[[Agent[Any], Item], RunItem]] = {
    "function_call": ToolCallItem,
    "function_call_output": ToolCallOutputItem,
    "reasoning": ReasoningItem,
}


@pytest.fixture(scope="session")
def make_data() -> Callable[..., HandoffInputData]:
    """Makes filter input out of plain items: the history, the run before, and the last turn."""
    agent: Agent[Any] = Agent("source")

    def wrap(item: Item) -> RunItem:
        return _WRAP.get(item.get("type", ""), MessageOutputItem)(agent, item)

    def make(
        history: str | Sequence[Item] = (),
        before: Sequence[Item] = (),
        turn: Sequence[Item] = (),
    ) -> HandoffInputData:
        return HandoffInputData(
            input_history=history if isinstance(history, str) else tuple(history),
            pre_handoff_items=tuple(wrap(item) for item in before),
            new_items=tuple(wrap(item) for item in turn),
        )

    return make
