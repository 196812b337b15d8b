"""A run's events as the run items that results and filters show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, is_message
from ekiden.core.conversation.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from ekiden.core.events import Event
from ekiden.handoff import default_handoff
from ekiden.sessions import is_transfer


def run_items(
    events: Iterable[Event],
    find_agent: Callable[[str], Agent[Any]],
    *,
    transfers: Mapping[str, tuple[str, str]] | None = None,
) -> list[RunItem]:
    """What was said, item by item, with the agent that said it.

    `transfers` names further call ids that are handoffs, with source and target, beside those that
    the events tell of. What guardrails had a model say again counts as never said.
    """
    events = list(events)
    moves = {**transfers_in(events), **(transfers or {})}
    return [
        _run_item(item, find_agent(event.agent or ""), moves, find_agent)
        for event in events
        if event.type != "guardrail"
        for item in event.items
    ]


def transfers_in(events: Iterable[Event]) -> dict[str, tuple[str, str]]:
    """Call id → source and target of every handoff that the events record as made."""
    moves: dict[str, tuple[str, str]] = {}
    for event in events:
        details = event.details or {}
        if is_transfer(event):
            for item in event.items:
                moves[item["call_id"]] = (details["from"], details["to"])
    return moves


def transfer_names(agent: Agent[Any]) -> set[str]:
    """The names of the agent's transfer tools, enabled or not."""
    return {
        default_handoff(edge).tool_name if isinstance(edge, Agent) else edge.tool_name
        for edge in agent.handoffs
    }


def _run_item(
    item: Item,
    agent: Agent[Any],
    moves: Mapping[str, tuple[str, str]],
    find_agent: Callable[[str], Agent[Any]],
) -> RunItem:
    kind = item.get("type")
    move = moves.get(str(item.get("call_id")))
    if kind == "function_call":
        is_transfer = move is not None or item.get("name") in transfer_names(agent)
        return HandoffCallItem(agent, item) if is_transfer else ToolCallItem(agent, item)
    if kind == "function_call_output":
        if move is None:
            return ToolCallOutputItem(agent, item, output=item.get("output"))
        source, target = (find_agent(name) for name in move)
        return HandoffOutputItem(agent, item, source_agent=source, target_agent=target)
    if kind == "reasoning":
        return ReasoningItem(agent, item)
    if is_message(item):
        return MessageOutputItem(agent, item)
    return ToolCallItem(agent, item)
