"""Puts messages into mailboxes, and waits for space in full mailboxes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ekiden.bus.delivery import Delivery, current_delivery
from ekiden.bus.messages import LEAVES
from ekiden.bus.parts import BusParts
from ekiden.bus.presence import HELD_S
from ekiden.bus.service import BusService
from ekiden.bus.store_reader import StoreReader
from ekiden.core.conversation.messages import AgentMessage, GroupMode, agent_queue
from ekiden.core.errors import QueueFull, StoreUnavailable
from ekiden.core.errors.messages import MailboxFull
from ekiden.storage.records import OwnJson, PutReceipt, QueuePut, new_put


class MailboxWriter:
    """Stores messages. Messages for agents that this process serves are also delivered at once."""

    __slots__ = ("_parts", "_reader", "_services")

    def __init__(
        self, parts: BusParts, services: Mapping[str, BusService], reader: StoreReader
    ) -> None:
        self._parts = parts
        self._services = services
        self._reader = reader

    async def send(self, message: AgentMessage, payload: Any) -> bool:
        """Store a message whose sender does not wait for an answer. Returns whether the message was
        new. Raises `MailboxFull`."""
        put = self.queue_put(message, payload, message.ttl)
        [receipt] = await self.put([put], [message], message.timeout_seconds)
        if receipt.is_new and put.taken_by is not None:
            self.deliver(message, payload, put, receipt.id, message.ttl)
        return receipt.is_new

    def queue_put(
        self,
        message: AgentMessage,
        payload: Any,
        ttl_s: float | None,
        waiter: str | None = None,
        awaits: str | None = None,
        group: tuple[str, GroupMode] | None = None,
    ) -> QueuePut:
        """The stored form of the message. If this process serves the agent and can handle the
        message now, the message is marked as already taken by this process.
        """
        parts, agent = self._parts, message.to_agent or ""
        service = self._services.get(agent)
        body = OwnJson(message.to_json()) if type(payload) in LEAVES else message.to_json()
        if awaits is not None:
            body["awaits"] = awaits
        if group is not None:
            body["group"] = list(group)
        if message.depth == 0 and (delivery := current_delivery()) is not None:
            body["depth"] = delivery.message.depth + 1
            if message.task is None:
                body["task"] = delivery.task
        return new_put(
            queue=agent_queue(agent) if service is None else service.queue,
            body=body,
            priority=message.priority,
            bound=parts.settings.mailbox_bound,
            key=message.id,
            waiter=waiter,
            ttl_s=ttl_s,
            taken_by=parts.owner if service is not None and service.accepts_now() else None,
            lease_s=HELD_S,
        )

    async def put(
        self, puts: Sequence[QueuePut], messages: Sequence[AgentMessage], timeout_s: float
    ) -> Sequence[PutReceipt]:
        """Store all messages, or none if one fails. Depending on the settings, the call waits for
        space in full mailboxes. Raises `MailboxFull`."""
        try:
            return await self._parts.writer.put(puts)
        except QueueFull:
            return await self._put_when_possible(puts, messages, timeout_s)
        except StoreUnavailable:
            # The messages may have been stored as ours although the answer was lost.
            for put, message in zip(puts, messages, strict=True):
                service = self._services.get(message.to_agent or "")
                if put.taken_by is not None and service is not None:
                    service.recheck_claims()
            raise

    def deliver(
        self, message: AgentMessage, payload: Any, put: QueuePut, number: int, ttl_s: float | None
    ) -> None:
        """Pass a message to the service of its agent, after it was stored as taken by this
        process."""
        body = put.body
        if (
            type(payload) not in LEAVES
            or body["task"] is not message.task
            or body.get("depth", 0) != message.depth
        ):
            # The handler gets its own payload, and the stored task and depth. Other messages are
            # passed on as they are, which saves the copy.
            message = _copy(message, payload, body)
        expires = None if ttl_s is None else self._parts.loop.time() + ttl_s
        delivery = Delivery(message, number, 1, expires)
        service = self._services.get(message.to_agent or "")
        if service is not None:
            service.deliver(delivery)
        else:  # The service was closed in the meantime.
            self._parts.spawn(self._parts.store.release_message(delivery.row(self._parts.owner)))

    async def _put_when_possible(
        self, puts: Sequence[QueuePut], messages: Sequence[AgentMessage], timeout_s: float
    ) -> Sequence[PutReceipt]:
        parts = self._parts
        agents: Collection[str] = {message.to_agent or "" for message in messages}
        deadline = parts.loop.time() + timeout_s
        again = False
        while True:
            full = await self._fullest(agents)
            left_s = deadline - parts.loop.time()
            if parts.settings.on_full == "refuse" or left_s <= 0:
                raise MailboxFull(full, parts.settings.mailbox_bound)
            # The reader wakes callers when another process makes room; without waits or services,
            # it has ended.
            self._reader.start()
            await parts.room.wait(full, left_s, again=again)
            again = True
            try:
                return await parts.writer.put(puts)
            except QueueFull:
                continue

    async def _fullest(self, agents: Collection[str]) -> str:
        """The agent with the fullest mailbox."""
        if len(agents) == 1:
            return next(iter(agents))
        depths = {
            agent: await self._parts.store.queue_depth(agent_queue(agent)) for agent in agents
        }
        return max(depths, key=depths.__getitem__)


def _copy(message: AgentMessage, payload: Any, body: Mapping[str, Any]) -> AgentMessage:
    """The message with the stored task and depth, and its own payload."""
    return AgentMessage(
        type=message.type,
        from_agent=message.from_agent,
        to_agent=message.to_agent,
        subject=message.subject,
        payload=payload,
        priority=message.priority,
        correlation_id=message.correlation_id,
        timeout_seconds=message.timeout_seconds,
        ttl=message.ttl,
        id=message.id,
        created_at=message.created_at,
        task=body["task"],
        depth=body.get("depth", 0),
    )
