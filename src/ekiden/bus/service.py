"""The service of one agent: its handler, and the messages that this process has taken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from math import inf
from typing import Any, Final, Self, TypeAlias

from ekiden.bus.delivery import CURRENT, Delivery, DeliveryQueue, DeliveryResults
from ekiden.bus.parts import BusParts
from ekiden.bus.presence import HELD_S, IN_FLIGHT_S
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue, wait_node
from ekiden.core.current_agent import acting_as
from ekiden.core.errors import EkidenError, StoreError, StoreUnavailable
from ekiden.core.started_by_agents import pass_on_agents
from ekiden.storage.records import MessageFilter, QueueMessage, StoredMessage

_log = logging.getLogger("ekiden.bus")

_FETCH = 64
"""The number of messages that are taken from the store at once, at most."""
_STUBBORN_S = 5.0
"""How long `close` waits for a handler that suppresses its cancellation."""


class Later:
    """The type of `LATER`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LATER"


LATER: Final = Later()
"""A handler returns this value if it answers later with `Bus.respond`."""

Handler: TypeAlias = Callable[[AgentMessage], Awaitable[Any]]
"""A function that handles an agent's messages. For a query, its result is the answer."""


class BusService:
    """Handles the messages of one agent in this process. `Bus.serve` creates this object."""

    def __init__(
        self,
        parts: BusParts,
        agent: str,
        handler: Handler,
        concurrency: int,
        on_close: Callable[[BusService], None],
        on_closed: Callable[[BusService], None],
    ) -> None:
        self.agent = agent
        self.queue = agent_queue(agent)
        self.concurrency = concurrency
        self._parts = parts
        self._handler = handler
        self._on_close = on_close
        self._on_closed = on_closed
        self._results = DeliveryResults(parts, agent)
        self._deliveries: dict[str, Delivery] = {}
        """All messages that this service has, by id."""
        self._line = DeliveryQueue(parts.settings.oldest_every)
        self._running: dict[str, Delivery] = {}
        self._later: dict[str, Delivery] = {}
        self.alone = True
        """Whether no other process is known to serve the agent: then this service takes all
        messages that are sent in this process."""
        self._can_lapse = parts.presence.can_lapse
        self._closing = False
        self._closed: asyncio.Task[None] | None = None
        self._fetching = False
        self._fetch_again = False
        self._fetches = 0
        self._unsure_until = -inf
        """The loop time until which a failed call may still take messages for this service."""
        self._is_unsure = False
        self._name = f"ekiden-bus-{agent}"
        """The name of the tasks of handlers; without one, each task would get a number."""
        pass_on_agents()
        # The acting agent is set once, in a context that the task of each handler copies.
        self._context = copy_context()
        self._acting = acting_as(agent)
        self._context.run(self._acting.__enter__)

    def __repr__(self) -> str:
        return f"<BusService {self.agent!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Stop serving. Running handlers may finish within `drain_s` seconds, and are then
        cancelled.

        Unfinished messages are returned to the mailbox, and delivered again when a process serves
        the agent. A second call waits for the first.
        """
        if self._closed is None:
            self._closing = self._results.is_closing = True
            self._on_close(self)
            self._closed = self._parts.spawn(self._close(drain_s))
            self._closed.add_done_callback(lambda _: self._on_closed(self))
        # A caller that is cancelled must not leave the service half closed.
        await asyncio.shield(self._closed)

    # For the other parts of the bus

    @property
    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def accepts_now(self) -> bool:
        """Whether a message that is stored now can be assigned to this service at once."""
        if self._closing or (self._can_lapse and self._parts.presence.is_lapsed):
            return False
        return self.alone or (len(self._running) < self.concurrency and not self._line)

    def has(self, key: str) -> Delivery | None:
        """The delivery of the message with this key; `None` if this service does not have the
        message."""
        return self._deliveries.get(key)

    @property
    def later_keys(self) -> Collection[str]:
        """The ids of the messages whose handler returned `LATER`."""
        return self._later.keys()

    @property
    def retry_at(self) -> float:
        """The time at which the next failed message can be retried, on the event loop's clock."""
        return self._results.retries[0] if self._results.retries else inf

    def deliver(self, delivery: Delivery) -> None:
        """Start or queue a message that was stored for this service."""
        key = delivery.message.id
        if key in self._deliveries:
            return
        self._deliveries[key] = delivery
        if self._closing:
            # The message was stored as ours just before the service began to close.
            self._parts.spawn(self._give_back([delivery]))
        elif (
            len(self._running) < self.concurrency
            and not self._line
            and not (self._can_lapse and self._parts.presence.is_lapsed)
        ):
            self._begin(delivery)
        else:
            self._line.push(delivery)

    def drop(self, key: str) -> None:
        """Remove a message for which no caller waits any more, unless its handler is running."""
        delivery = self._deliveries.get(key)
        if delivery is None:
            return
        if delivery.stage == "line":
            self._line.leave(delivery)
            self._forget(delivery)
        elif delivery.stage == "later":
            self._forget(delivery)

    def return_queued(self) -> None:
        """Return all queued messages to the mailbox, because other processes may consider this
        service dead."""
        self._parts.spawn(self._give_back(self._line.drain()))

    def start_next(self) -> None:
        """Start the next queued messages, up to the concurrency limit."""
        while len(self._running) < self.concurrency and not self._closing:
            delivery = None if self._parts.presence.is_lapsed else self._line.pop()
            if delivery is None:
                break
            if delivery.expires is not None and self._parts.loop.time() >= delivery.expires:
                self._deliveries.pop(delivery.message.id, None)
                self._parts.spawn(self._results.expire(delivery))
            else:
                self._begin(delivery)
        if not self.alone and not self._closing and len(self._running) < self.concurrency:
            self._parts.spawn(self.fetch())

    def stop_overdue(self) -> float:
        """Cancel handlers that exceed their time limit. Return the time, on the event loop's clock,
        at which the next time limit is reached."""
        limit = self._parts.settings.handler_timeout_s
        soonest = inf
        if limit is None:
            return soonest
        now = self._parts.loop.time()
        for delivery in self._running.values():
            if delivery.overdue or delivery.work is None:
                continue
            if now - delivery.began >= limit:
                delivery.overdue = True
                delivery.work.cancel()
            else:
                soonest = min(soonest, delivery.began + limit)
        return soonest

    async def fetch(self) -> int:
        """Claim messages from the mailbox, at most as many as can be handled now, and return their
        number."""
        if self._fetching:
            # The running fetch may have read the store before the message of this call was there.
            self._fetch_again = True
            return 0
        self._fetching = True
        count = 0
        try:
            if self._is_unsure:
                count += await self._find_own()
            while (limit := self._wanted()) > 0:
                self._fetch_again = False
                self._fetches += 1
                self._results.retried(self._parts.loop.time())
                rows = await self._take(limit)
                ages = await self._ages(rows)
                for row in rows:
                    self._accept(row, ages.get(row.key or "", 0.0))
                count += len(rows)
                if len(rows) < limit and not self._fetch_again:
                    break
        finally:
            self._fetching = False
        return count

    # Internal

    def recheck_claims(self) -> None:
        """Check later for messages that a failed call may have claimed for this service."""
        self._is_unsure = True
        self._unsure_until = self._parts.loop.time() + IN_FLIGHT_S

    async def _take(self, limit: int) -> Sequence[QueueMessage]:
        try:
            return await self._parts.store.take_messages(
                self.queue,
                owner=self._parts.owner,
                lease_s=HELD_S,
                limit=limit,
                oldest_first=self._fetches % self._parts.settings.oldest_every == 0,
            )
        except StoreUnavailable:
            # The store may have leased messages to us although the answer was lost.
            self.recheck_claims()
            raise

    async def _find_own(self) -> int:
        """Accept messages that are leased to us although we do not have them; returns their
        number."""
        # Set before the read: a call that is still in flight may arrive during it.
        is_last = self._parts.loop.time() >= self._unsure_until
        count = after = 0
        owner = self._parts.owner
        where = MessageFilter(queue=self.queue, states={"open"})
        while page := await self._parts.store.find_messages(where, after=after, limit=_FETCH):
            after = page[-1].id
            rows = [_taken(each, owner) for each in page if each.owner == owner]
            rows = [row for row in rows if row.key not in self._deliveries]
            ages = await self._ages(rows)
            for row in rows:
                self._accept(row, ages.get(row.key or "", 0.0))
            count += len(rows)
        if is_last and self._parts.loop.time() >= self._unsure_until:
            self._is_unsure = False
        return count

    def _wanted(self) -> int:
        if self._closing or self._parts.presence.is_lapsed:
            return 0
        if self.alone:
            return _FETCH
        return self.concurrency - len(self._running) - len(self._line)

    async def _ages(self, rows: Collection[QueueMessage]) -> dict[str, float]:
        """The ages of expiring messages by key, on the store's clock: the clocks of senders and of
        this machine may have been changed."""
        keys = [row.key for row in rows if row.key and _expires(row.body)]
        if not keys:
            return {}
        try:
            now_us = await self._parts.store.now_us()
            found = await self._parts.store.find_messages(MessageFilter(keys=keys), limit=len(keys))
        except StoreError:
            return {}  # Treat them as new: better delivered too late than never.
        return {each.key or "": (now_us - each.created_at_us) / 1e6 for each in found}

    def _accept(self, row: QueueMessage, age_s: float) -> None:
        """Deliver a message that was taken from the store, where it was for `age_s`."""
        delivery = self._deliveries.get(row.key or "")
        if delivery is not None:
            # It was taken a second time; the store compares the later count.
            delivery.attempts = row.attempts
            return
        try:
            message = Letter.from_json(row.body).message
            if message.id != row.key:
                raise ValueError(f"the message {message.id!r} is stored as {row.key!r}")
        except Exception as exc:  # Any content: it must not block other messages.
            self._parts.spawn(
                self._results.refuse(row, f"it is not a message of the bus: {exc!r:.200}")
            )
            return
        if row.attempts > self._parts.settings.max_deliveries:
            reason = f"it was delivered {row.attempts - 1} times, and never finished"
            self._parts.spawn(self._results.refuse(row, reason))
            return
        message.redelivered = row.attempts > 1
        self.deliver(Delivery(message, row.id, row.attempts, self._expiry(message, age_s)))

    def _expiry(self, message: AgentMessage, age_s: float) -> float | None:
        """The loop time at which a message from the store expires."""
        if message.ttl is None:
            return None
        return self._parts.loop.time() + message.ttl - min(max(age_s, 0.0), message.ttl)

    def _begin(self, delivery: Delivery) -> None:
        loop = self._parts.loop
        delivery.stage = "running"
        is_sequential = self.concurrency == 1 and self.alone
        delivery.node = self.agent if is_sequential else wait_node(self.agent, delivery.task)
        delivery.began = loop.time()
        self._running[delivery.message.id] = delivery
        delivery.work = asyncio.Task(
            self._handle(delivery), loop=loop, name=self._name, context=self._context.copy()
        )

    async def _handle(self, delivery: Delivery) -> None:
        CURRENT.set(delivery)
        failure: BaseException | None = None
        result: Any = None
        try:
            result = await self._handler(delivery.message)
        except Exception as exc:
            failure = exc
        except asyncio.CancelledError as exc:
            if not delivery.overdue and _is_cancelled():
                raise  # The service is closing, and returns the message to the mailbox.
            failure = exc
        # From here on the message is finished: closing the service waits until its result is
        # stored, and does not return it to the mailbox.
        delivery.stage = "ending"
        self._running.pop(delivery.message.id, None)
        if self._line or not self.alone:
            # Before the result is stored, so that a slow store does not block the next handler.
            self.start_next()
        if delivery.overdue and failure is not None:
            seconds = self._parts.settings.handler_timeout_s or 0.0
            failure = TimeoutError(f"its handler took longer than {seconds:g} s")
        direct = self._parts.direct
        try:
            if failure is not None:
                await self._results.fail(delivery, failure)
            elif result is LATER and delivery.message.type == "query":
                delivery.stage = "later"
                self._later[delivery.message.id] = delivery
                return
            elif direct is None or not self._results.answer_now(direct, delivery, result):
                await self._results.answer(delivery, result)
        except StoreError as exc:
            _log.error("the end of message %s cannot be stored: %s", delivery.message.id, exc)
            return  # `close` returns it to the mailbox.
        self._forget(delivery)

    def _forget(self, delivery: Delivery) -> None:
        key = delivery.message.id
        delivery.stage = "gone"
        delivery.work = None  # Break the reference cycle with the context of the task.
        if self._deliveries.get(key) is delivery:
            del self._deliveries[key]
            if self._later:
                self._later.pop(key, None)

    async def _close(self, drain_s: float) -> None:
        # The drained messages are still in `_deliveries`, and are returned at the end.
        self._line.drain()
        running = list(self._running.values())
        works = [each.work for each in running if each.work is not None]
        if works and drain_s > 0:
            await asyncio.wait(works, timeout=drain_s)
        for work, delivery in zip(works, running, strict=True):
            if delivery.stage == "running":
                work.cancel()
        if works:
            _, stubborn = await asyncio.wait(works, timeout=_STUBBORN_S)
            for _ in stubborn:
                _log.error("a handler of %s does not let itself be cancelled", self.agent)
        # The handlers of these have finished: returned now, the messages would be handled twice.
        ending = [each.work for each in self._deliveries.values() if each.stage == "ending"]
        await asyncio.gather(*filter(None, ending), return_exceptions=True)
        try:
            await self._give_back(list(self._deliveries.values()))
            await self._parts.presence.leave(self.agent)
        except EkidenError as exc:
            _log.warning("messages of %s could not be given back: %s", self.agent, exc)
        self._context.run(self._acting.__exit__, None, None, None)

    async def _give_back(self, deliveries: list[Delivery]) -> None:
        rows = [each.row(self._parts.owner) for each in deliveries]
        for each in deliveries:
            # Before the release: another process may take the message at once.
            self._forget(each)
        await asyncio.gather(*(self._parts.store.release_message(row) for row in rows))


def _is_cancelled() -> bool:
    """Whether this task was cancelled; otherwise its code raised `CancelledError` itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _taken(found: StoredMessage, owner: str) -> QueueMessage:
    """The delivery of a stored message that is leased to `owner`."""
    return QueueMessage(
        id=found.id,
        queue=found.queue,
        body=found.body,
        priority=found.priority,
        attempts=found.attempts,
        owner=owner,
        key=found.key,
    )


def _expires(body: Any) -> bool:
    """Whether the message has an expiry time."""
    return isinstance(body, Mapping) and body.get("ttl") is not None
