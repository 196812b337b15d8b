"""A message that is with a service, and which one the running code works on."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Literal, TypeAlias

from ekiden.core.messages import AgentMessage, agent_queue
from ekiden.storage.messages import QueueMessage

Stage: TypeAlias = Literal["line", "running", "ending", "later", "gone"]
"""`line`: not begun; `running`: with the handler; `ending`: its end is being stored; `later`: to
be answered with `Bus.respond`; `gone`: this service has nothing more to do with it."""


class Delivery:
    """A message that this process has taken and not settled yet."""

    __slots__ = (
        "attempts",
        "began",
        "expires",
        "message",
        "node",
        "number",
        "overdue",
        "stage",
        "task",
        "work",
    )

    def __init__(
        self,
        message: AgentMessage,
        number: int,
        attempts: int,
        expires: float | None,
    ) -> None:
        self.message = message
        self.number = number
        """Of the stored row: the order in which messages came."""
        self.attempts = attempts
        self.expires = expires
        """In the time of the event loop."""
        self.stage: Stage = "line"
        self.task = message.task or message.id
        """What it is a part of."""
        self.node = ""
        """Who waits, in the graph of waits, if the handler does."""
        self.work: asyncio.Task[None] | None = None
        self.began = 0.0
        self.overdue = False
        """Cancelled because it took too long."""

    def row(self, owner: str) -> QueueMessage:
        """The delivery as the store knows it."""
        return QueueMessage(
            id=self.number,
            queue=agent_queue(self.message.to_agent or ""),
            body=None,
            priority=self.message.priority,
            attempts=self.attempts,
            owner=owner,
            key=self.message.id,
        )


CURRENT: ContextVar[Delivery | None] = ContextVar("ekiden_bus_delivery", default=None)
"""What the running code works on; also in tasks that a handler has started and left behind, so
whoever looks asks whether it is still running."""


def current_delivery() -> Delivery | None:
    """What the running code works on; `None` outside of handlers."""
    delivery = CURRENT.get()
    return delivery if delivery is not None and delivery.stage == "running" else None
