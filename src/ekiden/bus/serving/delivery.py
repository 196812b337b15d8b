"""Delivered messages: the queue of a service, and their endings: answered, failed, retried."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from heapq import heapify, heappop, heappush
from traceback import format_exception
from typing import Any, Literal, TypeAlias, TypeVar

from ekiden.bus.messages import LEAVES, own_payload
from ekiden.bus.parts import BusParts, DirectPostings
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
"""`line`: not begun; `running`: with the handler; `ending`: its end is being stored; `later`: to
be answered with `Bus.respond`; `gone`: this service has nothing more to do with it."""
CURRENT: ContextVar[Delivery | None] = ContextVar("ekiden_bus_delivery", default=None)
"""The message that the running code works on. Tasks that a handler started and left behind also see
it, so readers check that it is still running."""
_FEW = 128


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


def current_delivery() -> Delivery | None:
    """What the running code works on; `None` outside of handlers."""
    delivery = CURRENT.get()
    return delivery if delivery is not None and delivery.stage == "running" else None


class DeliveryQueue:
    """Deliveries by priority, then by age; one of every few is the oldest, whatever its priority.

    There is a heap for each priority. A delivery that left the line is skipped there.
    """

    __slots__ = ("_count", "_lines", "_oldest_every", "_pushed", "_taken")

    def __init__(self, oldest_every: int) -> None:
        self._oldest_every = oldest_every
        self._lines: dict[int, list[tuple[int, int, Delivery]]] = {}
        """By priority; none is empty."""
        self._pushed = 0
        """Decides when a message stands in line again before it was skipped for the first time."""
        self._count = 0
        self._taken = 0

    def __len__(self) -> int:
        return self._count

    def push(self, delivery: Delivery) -> None:
        """Stand in line."""
        self._pushed += 1
        line = self._lines.setdefault(delivery.message.priority, [])
        heappush(line, (delivery.number, self._pushed, delivery))
        self._count += 1
        # Deliveries that left the line stay in the heap until they come up. They are swept out when
        # they are the larger part, so that the heap does not grow with a line that is cut short
        # again and again.
        if len(line) > 2 * self._count + _FEW:
            line[:] = [entry for entry in line if entry[2].stage == "line"]
            heapify(line)

    def pop(self) -> Delivery | None:
        """The next one, which leaves the line."""
        # Also counted when nothing is found; the turn of the oldest need only come now and then.
        self._taken += 1
        lines, oldest_first = self._lines, self._taken % self._oldest_every == 0
        while self._count:
            of = min(lines, key=lambda each: lines[each][0]) if oldest_first else max(lines)
            delivery = heappop(lines[of])[2]
            if not lines[of]:
                del lines[of]
            if delivery.stage == "line":
                self.leave(delivery)
                return delivery
        lines.clear()
        return None

    def leave(self, delivery: Delivery) -> None:
        """Remove it from the line."""
        delivery.stage = "gone"
        self._count -= 1

    def drain(self) -> list[Delivery]:
        """All of them, by age; the line is empty."""
        entries = sorted(entry for line in self._lines.values() for entry in line)
        left = [entry[2] for entry in entries if entry[2].stage == "line"]
        for delivery in left:
            self.leave(delivery)
        self._lines.clear()
        return left


_LATE_S = 0.005
"""The store's clock may be coarser than ours."""

_log = logging.getLogger("ekiden.bus")

T = TypeVar("T")


class Endings:
    """Stores how the messages of one agent ended, and tells those who wait in this process."""

    __slots__ = ("_agent", "_parts", "hurry", "retries")

    def __init__(self, parts: BusParts, agent: str) -> None:
        self._parts = parts
        self._agent = agent
        self.hurry = False
        """Do not try again when the store cannot be reached."""
        self.retries: list[float] = []
        """When messages that failed may be tried again, a heap in the loop's time."""

    def retried(self, now: float) -> None:
        """Those that were due by then are looked for."""
        while self.retries and self.retries[0] <= now:
            heappop(self.retries)

    def answer_now(self, direct: DirectPostings, delivery: Delivery, result: Any) -> bool:
        """As `answer`, without giving way; whether that was possible."""
        message, answer = delivery.message, None
        if message.type == "query":
            try:
                own = own_payload(result, self._parts.settings, "an answer", "")
            except UserError:
                return False
            answer = OwnJson(payload=own) if type(own) in LEAVES else answer_json(own)
        settle = MessageSettle(key=message.id, state="answered", answer=answer)
        # Not settled here: another process ended the message first, and woke the waiting agent.
        if direct.settle_now(settle) == "settled":
            self._parts.waits.end(message.id, "answered", answer)
            if self._parts.room:
                self._parts.room.made(self._agent)
        return True

    async def answer(self, delivery: Delivery, result: Any) -> None:
        """The handler is done, with this result."""
        message = delivery.message
        if message.type != "query":
            await self._settle(delivery, "answered", None)
            return
        try:
            own = own_payload(
                result, self._parts.settings, "the answer to message {!r}", message.id
            )
        except UserError as exc:
            await self.fail(delivery, exc)
            return
        answer = OwnJson(payload=own) if type(own) in LEAVES else answer_json(own)
        await self._settle(delivery, "answered", answer)

    async def fail(self, delivery: Delivery, failure: BaseException) -> None:
        """Tell the asker at once; a message without an asker is retried."""
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
            # The event first: if the process dies between the two writes, the failure is on record
            # and the lease of the message runs out.
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
        """Store how it ended and tell who waits in this process."""
        key = delivery.message.id
        settle = MessageSettle(
            key=key,
            state=state,
            answer=answer,
            # The answer counts even if the lease has passed to another process.
            # Giving a message up is only for its present holder.
            by=delivery.row(self._parts.owner) if state in ("dead", "expired") else None,
        )
        if await self._post(settle, event) == "settled":
            self._parts.waits.end(key, state, answer)
            self._parts.room.made(self._agent)

    async def _post(self, settle: MessageSettle, event: Event | None) -> Settled:
        return await self._stored(settle.key, lambda: self._parts.postings.settle(settle, event))

    async def _stored(self, key: str, write: Callable[[], Awaitable[T]]) -> T:
        """Try until the store can be reached, or there is no time."""
        pause_s = 0.05
        while True:
            try:
                return await write()
            except StoreUnavailable as exc:
                if self.hurry:
                    raise
                _log.warning("the end of message %s is not stored, trying again: %s", key, exc)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 5.0)

    async def expire(self, delivery: Delivery) -> None:
        """Its time was over before it was begun."""
        await self._settle(delivery, "expired", None)

    async def refuse(self, row: QueueMessage, reason: str) -> None:
        """Give a message up that cannot be delivered."""
        _log.error("message %s for %s is given up: %s", row.key, self._agent, reason)
        # Put into the queue without a bus: no agent waits for the answer.
        if row.key is None:
            await self._parts.store.ack_message(row)
            return
        error = error_json(reason, code="bus.dead")
        settle = MessageSettle(key=row.key, state="dead", answer=error, by=row)
        event = _error_event(self._agent, error, {"message_id": row.key, "outcome": "dead"})
        if await self._post(settle, event) == "settled":
            self._parts.waits.end(row.key, "dead", error)
            self._parts.room.made(self._agent)

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
    """The traceback, as every log takes it."""
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
