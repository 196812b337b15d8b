"""Waits put into a store as the bus puts them."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.bus.wait_graph import Wait
from ekiden.core.conversation.messages import (
    AgentMessage,
    GroupMode,
    Letter,
    agent_queue,
    node_agent,
)
from ekiden.storage.base import MessageFilter, QueuePut, Store


def query(
    waiter: str,
    awaits: str | None,
    *,
    key: str = "",
    group: tuple[str, GroupMode] | None = None,
    priority: int = 2,
    timeout_s: float = 30.0,
    session_id: str | None = None,
    subject: str = "",
) -> QueuePut:
    """A query of the node `waiter`, called ``waiter>awaits`` unless it is named."""
    target = "operator" if awaits is None else node_agent(awaits)
    name = key or f"{waiter}>{awaits}"
    message = AgentMessage(
        id=name,
        type="query",
        from_agent=node_agent(waiter),
        to_agent=target,
        subject=subject,
        priority=priority,
        timeout_seconds=timeout_s,
    )
    return QueuePut(
        queue=agent_queue(target),
        key=name,
        body=Letter(message=message, awaits=awaits, group=group).to_json(),
        priority=priority,
        waiter=waiter,
        session_id=session_id,
    )


def as_put(wait: Wait) -> QueuePut:
    """The query that is this wait."""
    group: tuple[str, GroupMode] | None = None if wait.any_of is None else (wait.any_of, "any")
    return query(wait.waiter, wait.awaits, key=wait.id, group=group, priority=wait.priority)


async def ask(store: Store, *edges: str) -> None:
    """``a>b`` is a query of a to b, ``a>b|c`` queries to both of which one answer is enough."""
    for edge in edges:
        waiter, _, targets = edge.partition(">")
        names = targets.split("|")
        group: tuple[str, GroupMode] | None = (edge, "any") if len(names) > 1 else None
        await store.put_messages([query(waiter, name, group=group) for name in names])


async def states(store: Store) -> dict[str, str]:
    """The state of each message, by its name."""
    found = await store.find_messages(MessageFilter(), limit=1000)
    return {row.key or "": row.state for row in found}


async def open_waits(store: Store) -> Sequence[str]:
    """The names of the messages that are still waited for."""
    return [name for name, state in (await states(store)).items() if state == "open"]
