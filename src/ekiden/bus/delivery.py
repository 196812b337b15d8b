"""Deliveries: the queue of a service, and the results of its messages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from traceback import format_exception
from typing import Any, Literal, TypeAlias, TypeVar

from ekiden.bus.messages import LEAVES, copied_payload
from ekiden.bus.parts import BusParts, DirectWriter
from ekiden.core.conversation.messages import (
    AgentMessage,
    agent_queue,
    answer_json,
    error_json,
    exception_json,
)
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.events import Event
from ekiden.storage.records import (
    Batch,
    MessageSettle,
    MessageState,
    OwnJson,
    QueueMessage,
    Settled,
)

Stage: TypeAlias = Literal["line", "running", "ending", "later", "gone"]
"""`line`: the message is in the queue. `running`: the handler runs. `ending`: the result is being
stored. `later`: the answer comes with `Bus.respond`. `gone`: this service no longer has the
message."""
CURRENT: ContextVar[Delivery | None] = ContextVar("ekiden_bus_delivery", default=None)
"""The delivery that the running code handles. Tasks that a handler started also see this delivery
after the handler has ended, so readers check that the delivery is still running."""
_FEW = 128


class Delivery:
    """A message that this process has taken but not settled yet."""

    __slots__ = (
        "attempts", "began", "expires", "message", "node", "number", "overdue", "stage", "task",
        "work",
    )  # fmt: skip

    def __init__(
        self,
        message: AgentMessage,
        number: int,
        attempts: int,
        expires: float | None,
    ) -> None:
        self.message = message
        self.number = number
        """The id of the stored row, which gives the order of messages."""
        self.attempts = attempts
        self.expires = expires
        """The loop time at which the message expires."""
        self.stage: Stage = "line"
        self.task = message.task or message.id
        """The task that the message belongs to."""
        self.node = ""
        """The node in the wait graph for waits of the handler."""
        self.work: asyncio.Task[None] | None = None
        self.began = 0.0
        self.overdue = False
        """Whether the handler was cancelled because it took too long."""

    def row(self, owner: str) -> QueueMessage:
        """Identifies the delivery in calls of the store."""
        return QueueMessage(
            id=self.number,
            queue=agent_queue(self.message.to_agent or ""),
            body=None,
            priority=self.message.priority,
            attempts=self.attempts,
            owner=owner,
            key=self.message.id,
        )


def current_delivery() -> Delivery | None:
    """The delivery that the running code handles; `None` outside handlers."""
    delivery = CURRENT.get()
    return delivery if delivery is not None and delivery.stage == "running" else None


class DeliveryQueue:
    """Deliveries, sorted by priority and then by age. Every n-th delivery (see
    `BusSettings.oldest_every`) is the oldest one, regardless of its priority.

    There is a heap for each priority. Deliveries that left the queue stay in their heap and are
    skipped when they come up.
    """

    __slots__ = ("_count", "_lines", "_oldest_every", "_pushed", "_taken")

    def __init__(self, oldest_every: int) -> None:
        self._oldest_every = oldest_every
        self._lines: dict[int, list[tuple[int, int, Delivery]]] = {}
        """The heaps by priority; none is empty."""
        self._pushed = 0
        """The order of two entries of one message: it may be queued again while its first entry is
        still in the heap."""
        self._count = 0
        """The number of queued deliveries."""
        self._taken = 0
        """The number of calls of `pop`."""

    def __len__(self) -> int:
        return self._count

    def push(self, delivery: Delivery) -> None:
        """Add a delivery."""
        self._pushed += 1
        line = self._lines.setdefault(delivery.message.priority, [])
        heappush(line, (delivery.number, self._pushed, delivery))
        self._count += 1
        # Rebuild the heap when most of its entries have left the queue, so that it cannot grow for
        # ever.
        if len(line) > 2 * self._count + _FEW:
            line[:] = [entry for entry in line if entry[2].stage == "line"]
            heapify(line)

    def pop(self) -> Delivery | None:
        """Remove and return the next delivery."""
        # Calls on an empty queue also count: the turn of the oldest need not be exact.
        self._taken += 1
        lines, oldest_first = self._lines, self._taken % self._oldest_every == 0
        while self._count:
            priority = min(lines, key=lambda each: lines[each][0]) if oldest_first else max(lines)
            delivery = heappop(lines[priority])[2]
            if not lines[priority]:
                del lines[priority]
            if delivery.stage == "line":
                self.leave(delivery)
                return delivery
        lines.clear()
        return None

    def leave(self, delivery: Delivery) -> None:
        """Remove a delivery."""
        delivery.stage = "gone"
        self._count -= 1

    def drain(self) -> list[Delivery]:
        """Remove and return all deliveries, in the order of the queue."""
        entries = sorted(entry for line in self._lines.values() for entry in line)
        left = [entry[2] for entry in entries if entry[2].stage == "line"]
        for delivery in left:
            self.leave(delivery)
        self._lines.clear()
        return left


_LATE_S = 0.005
"""Added to delays, because the store's clock may be coarser than the loop's."""

_log = logging.getLogger("ekiden.bus")

T = TypeVar("T")


class DeliveryResults:
    """Stores the results of one agent's messages, and wakes the waiters in this process."""

    __slots__ = ("_agent", "_parts", "is_closing", "retries")

    def __init__(self, parts: BusParts, agent: str) -> None:
        self._parts = parts
        self._agent = agent
        self.is_closing = False
        """Whether the service is closing; then unreachable stores are not tried again."""
        self.retries: list[float] = []
        """The loop times at which failed messages can be retried; a heap."""

    def retried(self, now: float) -> None:
        """Forget the retry times up to `now`, because the caller now reads the mailbox."""
        while self.retries and self.retries[0] <= now:
            heappop(self.retries)

    def answer_now(self, direct: DirectWriter, delivery: Delivery, result: Any) -> bool:
        """Like `answer`, but without ``await``. Returns whether this was possible."""
        message, answer = delivery.message, None
        if message.type == "query":
            try:
                own = copied_payload(result, self._parts.settings, "an answer", "")
            except UserError:
                return False
            answer = OwnJson(payload=own) if type(own) in LEAVES else answer_json(own)
        # Otherwise another process settled the message first, and woke the waiting agent.
        if direct.answer_now(message.id, answer):
            self._parts.waits.end(message.id, "answered", answer)
            if self._parts.room:
                self._parts.room.freed(self._agent)
        return True

    async def answer(self, delivery: Delivery, result: Any) -> None:
        """Store the result of the handler."""
        message = delivery.message
        if message.type != "query":
            await self._settle(delivery, "answered", None)
            return
        try:
            own = copied_payload(
                result, self._parts.settings, "the answer to message {!r}", message.id
            )
        except UserError as exc:
            await self.fail(delivery, exc)
            return
        answer = OwnJson(payload=own) if type(own) in LEAVES else answer_json(own)
        await self._settle(delivery, "answered", answer)

    async def fail(self, delivery: Delivery, failure: BaseException) -> None:
        """Store the failure of the handler: the answer of a query, a retry, or a dead letter."""
        message, settings = delivery.message, self._parts.settings
        error = exception_json(failure)
        _log.warning(
            "%s failed with message %s (%s):\n%s",
            self._agent,
            message.id,
            message.type,
            _shown(failure),
        )
        if message.type == "query":
            await self._settle(delivery, "failed", error, self._event(delivery, error, "failed"))
        elif delivery.attempts >= settings.max_attempts:
            await self._settle(delivery, "dead", error, self._event(delivery, error, "dead"))
        else:
            # The event is written first: if the process dies between the two writes, the failure is
            # on record, and the message is delivered again when its lease expires.
            event = self._event(delivery, error, "retried")
            await self._stored(message.id, lambda: self._parts.store.write(Batch(events=(event,))))
            delay_s = settings.retry_delay_s(delivery.attempts)
            heappush(self.retries, self._parts.loop.time() + delay_s + _LATE_S)
            row = delivery.row(self._parts.owner)
            await self._stored(
                message.id, lambda: self._parts.store.release_message(row, delay_s=delay_s)
            )

    async def _settle(
        self, delivery: Delivery, state: MessageState, answer: Any, event: Event | None = None
    ) -> None:
        """Settle the message and wake the waiters in this process."""
        key = delivery.message.id
        settle = MessageSettle(
            key=key,
            state=state,
            answer=answer,
            # An answer counts even if another process has the message by now. Only the present
            # owner may give a message up.
            by=delivery.row(self._parts.owner) if state in ("dead", "expired") else None,
        )
        if await self._post(settle, event) == "settled":
            self._parts.waits.end(key, state, answer)
            self._parts.room.freed(self._agent)

    async def _post(self, settle: MessageSettle, event: Event | None) -> Settled:
        return await self._stored(settle.key, lambda: self._parts.writer.settle(settle, event))

    async def _stored(self, key: str, write: Callable[[], Awaitable[T]]) -> T:
        """Retry the write until the store can be reached, or the service is closing."""
        pause_s = 0.05
        while True:
            try:
                return await write()
            except StoreUnavailable as exc:
                if self.is_closing:
                    raise
                _log.warning("the end of message %s is not stored, trying again: %s", key, exc)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 5.0)

    async def expire(self, delivery: Delivery) -> None:
        """Settle a message that expired in the queue."""
        await self._settle(delivery, "expired", None)

    async def refuse(self, row: QueueMessage, reason: str) -> None:
        """Make a message that cannot be delivered a dead letter."""
        _log.error("message %s for %s has failed permanently: %s", row.key, self._agent, reason)
        # A message without a key was not stored by a bus: no agent waits for the answer.
        if row.key is None:
            await self._parts.store.ack_message(row)
            return
        error = error_json(reason, code="bus.dead")
        settle = MessageSettle(key=row.key, state="dead", answer=error, by=row)
        event = _error_event(self._agent, error, {"message_id": row.key, "outcome": "dead"})
        if await self._post(settle, event) == "settled":
            self._parts.waits.end(row.key, "dead", error)
            self._parts.room.freed(self._agent)

    def _event(self, delivery: Delivery, error: dict[str, Any], outcome: str) -> Event:
        message = delivery.message
        details = {
            "message_id": message.id,
            "message_type": message.type,
            "from_agent": message.from_agent,
            "subject": message.subject,
            "attempt": delivery.attempts,
            "outcome": outcome,
        }
        return _error_event(self._agent, error, details)


def _shown(failure: BaseException) -> str:
    """The traceback as text that every log can encode."""
    text = "".join(format_exception(failure)).rstrip()
    return text.encode(errors="backslashreplace").decode()


def _error_event(agent: str, error: dict[str, Any], details: dict[str, Any]) -> Event:
    return Event(
        session_id="",
        seq=0,
        type="agent_error",
        at_us=time.time_ns() // 1000,
        agent=agent,
        details={**details, "code": error["code"]},
        error=error["error"],
    )
