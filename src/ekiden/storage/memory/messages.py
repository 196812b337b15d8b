"""The messages of the in-memory store: all states, and the order of each queue."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from ekiden.core.errors import QueueFull
from ekiden.storage.records import (
    MessageFilter,
    MessageSettle,
    MessageState,
    OwnJson,
    PutReceipt,
    QueueMessage,
    QueuePut,
    Settled,
    StoredMessage,
)
from ekiden.storage.values import check_limit, check_settle, checked_copy, copy_json, is_late


class MemoryMessage:
    """A stored message. `due` is when it may be taken; `None` while it stands in line."""

    __slots__ = (
        "answer",
        "attempts",
        "body",
        "created_us",
        "dedup_key",
        "due",
        "expires",
        "id",
        "key",
        "owner",
        "priority",
        "queue",
        "session_id",
        "settled_us",
        "state",
        "waiter",
    )

    def __init__(self, message_id: int, put: QueuePut, body: Any) -> None:
        self.id = message_id
        self.queue = put.queue
        self.key = put.key
        self.body = body
        self.priority = put.priority
        self.dedup_key = put.dedup_key
        self.attempts = 0
        self.owner: str | None = None
        self.due: float | None = None
        self.expires: float | None = None
        self.state: MessageState = "open"
        self.waiter = put.waiter
        self.session_id = put.session_id
        self.answer: Any = None
        self.created_us = 0
        self.settled_us: int | None = None

    def is_with(self, delivery: QueueMessage) -> bool:
        """Whether this delivery is its last."""
        return (
            self.id == delivery.id
            and self.owner == delivery.owner
            and self.attempts == delivery.attempts
        )

    def is_over(self, now: float) -> bool:
        """Whether an open message is expired and not leased."""
        is_free = self.due is None or self.due <= now
        return is_free and self.expires is not None and self.expires <= now

    def delivery(self, owner: str) -> QueueMessage:
        """As its taker gets it."""
        return QueueMessage(
            id=self.id,
            queue=self.queue,
            body=copy_json(self.body),
            priority=self.priority,
            attempts=self.attempts,
            owner=owner,
            key=self.key,
        )

    def stored(self) -> StoredMessage:
        """As it is found."""
        return StoredMessage(
            id=self.id,
            queue=self.queue,
            key=self.key,
            body=copy_json(self.body),
            priority=self.priority,
            attempts=self.attempts,
            owner=self.owner,
            state=self.state,
            waiter=self.waiter,
            session_id=self.session_id,
            answer=copy_json(self.answer),
            created_at_us=self.created_us,
            settled_at_us=self.settled_us,
        )


class MemoryQueue:
    """Open messages by priority and age; times are those of the caller's clock.

    A message is in `_line` when it can be taken, and in `_later` while it is delayed or with a
    taker. Entries of either heap that the message has left behind are skipped when they come up.
    """

    __slots__ = ("_later", "_line", "dedup_keys", "open")

    def __init__(self) -> None:
        self.open: dict[int, MemoryMessage] = {}
        """By id, in the order of ids."""
        self.dedup_keys: set[str] = set()
        self._line: list[tuple[int, int]] = []
        self._later: list[tuple[float, int]] = []

    def add(self, message: MemoryMessage, put: QueuePut, now: float) -> None:
        """Take up a new message; ids rise from one to the next."""
        self.open[message.id] = message
        if put.dedup_key is not None:
            self.dedup_keys.add(put.dedup_key)
        if put.ttl_s is not None:
            message.expires = now + put.ttl_s
        if put.taken_by is not None:
            message.owner = put.taken_by
            message.attempts = 1
            self._wait(message, now + put.lease_s)
        elif put.delay_s > 0:
            self._wait(message, now + put.delay_s)
        else:
            self._stand(message)

    def reopen(self, message: MemoryMessage) -> None:
        """Take up a message again that had left."""
        self.open[message.id] = message
        # `_by_age` relies on the order of ids, and this one is older than the last.
        self.open = dict(sorted(self.open.items()))
        self._stand(message)

    def remove(self, message: MemoryMessage) -> None:
        """An open message is open no more, or gone."""
        del self.open[message.id]
        message.due = None
        if message.dedup_key is not None:
            self.dedup_keys.discard(message.dedup_key)
            message.dedup_key = None

    def take(
        self, *, owner: str, lease_s: float, limit: int, oldest_first: bool, now: float
    ) -> tuple[list[MemoryMessage], list[MemoryMessage]]:
        """The next messages in line, leased to `owner`, and those whose time is over, which are
        removed."""
        taken: list[MemoryMessage] = []
        expired: list[MemoryMessage] = []
        if limit < 1:
            return taken, expired
        self._collect(now)
        for message in self._by_age() if oldest_first else self._by_priority():
            if message.expires is not None and message.expires <= now:
                expired.append(message)
                continue
            message.owner = owner
            message.attempts += 1
            self._wait(message, now + lease_s)
            taken.append(message)
            if len(taken) == limit:
                break
        for message in expired:
            self.remove(message)
        return taken, expired

    def release(self, message: MemoryMessage, *, delay_s: float, now: float) -> None:
        """Put an open message back in its place."""
        message.owner = None
        if delay_s > 0:
            self._wait(message, now + delay_s)
        else:
            self._stand(message)

    def _by_priority(self) -> Iterator[MemoryMessage]:
        while self._line:
            message = self.open.get(heappop(self._line)[1])
            if message is not None and message.due is None:
                yield message

    def _by_age(self) -> Iterator[MemoryMessage]:
        return (message for message in self.open.values() if message.due is None)

    def _stand(self, message: MemoryMessage) -> None:
        message.due = None
        heappush(self._line, (-message.priority, message.id))
        if len(self._line) > 2 * len(self.open) + 64:
            self._line = [
                (-each.priority, each.id) for each in self.open.values() if each.due is None
            ]
            heapify(self._line)

    def _wait(self, message: MemoryMessage, due: float) -> None:
        message.due = due
        heappush(self._later, (due, message.id))
        if len(self._later) > 2 * len(self.open) + 64:
            self._later = [
                (each.due, each.id) for each in self.open.values() if each.due is not None
            ]
            heapify(self._later)

    def _collect(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            due, message_id = heappop(self._later)
            message = self.open.get(message_id)
            # An entry with another time is outdated: the message was released or taken again since.
            if message is not None and message.due == due:
                self._stand(message)


StagedPuts: TypeAlias = Sequence[tuple[QueuePut, MemoryMessage | None, bool]]
"""For each put the message that it comes to, if any, and whether that is a new one."""
StagedSettles: TypeAlias = Sequence[tuple[MessageSettle, Any]]
"""For each settlement the store's own copy of the answer."""


class MemoryMessages:
    """Messages by id, key, waiter and session; the open ones of each queue in its line."""

    __slots__ = (
        "_by_id",
        "_by_key",
        "_count",
        "_expiring",
        "_of_session",
        "_queues",
        "_waiting",
        "next_expiry",
    )

    def __init__(self) -> None:
        self._count = 0
        self._queues: dict[str, MemoryQueue] = {}
        self._by_id: dict[int, MemoryMessage] = {}
        self._by_key: dict[str, MemoryMessage] = {}
        self._waiting: dict[str, dict[int, MemoryMessage]] = {}
        """The open ones, by who waits for them."""
        self._of_session: defaultdict[str, dict[int, MemoryMessage]] = defaultdict(dict)
        self._expiring: dict[int, MemoryMessage] = {}
        """The open ones that were put with a time."""
        self.next_expiry = math.inf
        """Before then none of them is over."""

    def stage(self, puts: Sequence[QueuePut]) -> StagedPuts:
        """What the puts come to; `QueueFull`, `UserError` before anything is changed."""
        staged: list[tuple[QueuePut, MemoryMessage | None, bool]] = []
        new_keys: dict[str, MemoryMessage] = {}
        new_dedups: set[tuple[str, str]] = set()
        added: dict[str, int] = {}
        number = self._count
        for put in puts:
            body, key = put.body, put.key
            if type(body) is not OwnJson:
                body = checked_copy(body, "a message for queue {!r}", put.queue)
            if key is not None:
                # Two puts of one call may have the same key, before either is stored.
                there = self._by_key.get(key) or new_keys.get(key)
                if there is not None:
                    staged.append((put, there, False))
                    continue
            queue = self._queues.get(put.queue)
            if put.dedup_key is not None:
                at = (put.queue, put.dedup_key)
                if at in new_dedups or (queue is not None and put.dedup_key in queue.dedup_keys):
                    staged.append((put, None, False))
                    continue
                new_dedups.add(at)
            count = added.get(put.queue, 0)
            if put.bound is not None:
                held = count if queue is None else count + len(queue.open)
                if held >= put.bound:
                    raise QueueFull(put.queue, put.bound)
            added[put.queue] = count + 1
            number += 1
            message = MemoryMessage(number, put, body)
            if key is not None:
                new_keys[key] = message
            staged.append((put, message, True))
        return staged

    def put(self, staged: StagedPuts, *, now: float, now_us: int) -> list[PutReceipt]:
        """Make it so."""
        receipts = []
        for put, message, is_new in staged:
            if message is None:
                receipts.append(PutReceipt(id=0, is_new=False))
                continue
            if is_new:
                message.created_us = now_us
                self._add(message, put, now)
            receipts.append(PutReceipt(id=message.id, is_new=is_new))
        return receipts

    def put_one(self, put: QueuePut, now: float, now_us: int) -> int | None:
        """Store one message; its id, or `None` if one of its name is there. As `stage`."""
        if put.dedup_key is not None:
            [receipt] = self.put(self.stage((put,)), now=now, now_us=now_us)
            return receipt.id if receipt.is_new else None
        body = put.body
        if type(body) is not OwnJson:
            body = checked_copy(body, "a message for queue {!r}", put.queue)
        if put.key in self._by_key:
            return None
        queue = self._queues.get(put.queue)
        if put.bound is not None and queue is not None and len(queue.open) >= put.bound:
            raise QueueFull(put.queue, put.bound)
        message = MemoryMessage(self._count + 1, put, body)
        message.created_us = now_us
        self._add(message, put, now)
        return message.id

    def take(
        self,
        queue: str,
        *,
        owner: str,
        lease_s: float,
        limit: int,
        oldest_first: bool,
        now: float,
        now_us: int,
    ) -> tuple[list[QueueMessage], list[str]]:
        """The next messages, leased to `owner`, and the sessions of those that expired."""
        line = self._queues.get(queue)
        if line is None:
            return [], []
        taken, expired = line.take(
            owner=owner, lease_s=lease_s, limit=limit, oldest_first=oldest_first, now=now
        )
        return [message.delivery(owner) for message in taken], self._ended(expired, now_us)

    def expire(self, *, now: float, now_us: int) -> list[str]:
        """Settle expired messages without a lease; returns their sessions."""
        over = [each for each in self._expiring.values() if each.is_over(now)]
        for message in over:
            self._queues[message.queue].remove(message)
        woken = self._ended(over, now_us)
        # A leased message expires only when its lease is over, hence the later of both times.
        self.next_expiry = min(
            (max(each.expires or 0.0, each.due or 0.0) for each in self._expiring.values()),
            default=math.inf,
        )
        return woken

    def _ended(self, expired: Sequence[MemoryMessage], now_us: int) -> list[str]:
        for message in expired:
            message.state = "expired"
            message.settled_us = now_us
            self._leaves_open(message)
        return [message.session_id for message in expired if message.session_id is not None]

    def stage_settles(self, settles: Sequence[MessageSettle]) -> StagedSettles:
        """The settlements with answers of the store's own; `UserError`."""
        return [(settle, self.own_answer(settle)) for settle in settles]

    @staticmethod
    def own_answer(settle: MessageSettle) -> Any:
        """The store's own copy of the answer; `UserError`."""
        check_settle(settle)
        answer = settle.answer
        if answer is None or type(answer) is OwnJson:
            return answer
        return checked_copy(answer, "the answer to message {!r}", settle.key)

    def settle(self, staged: StagedSettles, *, now_us: int) -> tuple[list[Settled], list[str]]:
        """What came of each, and the sessions to wake."""
        woken: list[str] = []
        results = [self.settle_one(settle, answer, now_us, woken) for settle, answer in staged]
        return results, woken

    def settle_one(
        self, settle: MessageSettle, answer: Any, now_us: int, woken: list[str]
    ) -> Settled:
        """What came of it; a session to wake is added to `woken`."""
        message = self._by_key.get(settle.key)
        if message is None or (settle.by is not None and not message.is_with(settle.by)):
            return "no"
        if settle.forget:
            self._forget(message)
            return "settled"
        if message.state == "open":
            self._queues[message.queue].remove(message)
            self._leaves_open(message)
            message.state, message.answer = settle.state, answer
            message.settled_us = now_us
            if message.session_id is not None:
                woken.append(message.session_id)
            return "settled"
        if is_late(message.state, settle.state):
            message.state, message.answer = "late", answer
            message.settled_us = now_us
            return "late"
        return "no"

    def forget(self, key: str) -> None:
        """Remove the message, if it is there."""
        message = self._by_key.get(key)
        if message is not None:
            self._forget(message)

    def find(self, where: MessageFilter, *, after: int, limit: int) -> list[StoredMessage]:
        """One page by id."""
        check_limit(limit, "messages")
        fitting = {
            each.id: each
            for each in self._candidates(where)
            if each.id > after and _fits(each, where)
        }
        return [fitting[number].stored() for number in sorted(fitting)[:limit]]

    def requeue(self, keys: Collection[str]) -> int:
        """Open `dead` and `expired` messages again."""
        count = 0
        for key in keys:
            message = self._by_key.get(key)
            if message is None or message.state not in ("dead", "expired"):
                continue
            message.state, message.answer, message.settled_us = "open", None, None
            message.attempts, message.owner, message.expires = 0, None, None
            message.waiter = None
            self._queues[message.queue].reopen(message)
            count += 1
        return count

    def prune(self, *, before_us: int, limit: int) -> int:
        """Remove what was settled long ago."""
        old = [
            message
            for message in self._by_id.values()
            if message.settled_us is not None and message.settled_us < before_us
        ]
        old.sort(key=lambda message: (message.settled_us or 0, message.id))
        del old[max(limit, 0) :]
        for message in old:
            self._forget(message)
        return len(old)

    def ack(self, delivery: QueueMessage) -> bool:
        """Remove an open message if this delivery is its last."""
        message = self._open(delivery)
        if message is None:
            return False
        self._forget(message)
        return True

    def release(self, delivery: QueueMessage, *, delay_s: float, now: float) -> bool:
        """Put an open message back in its place if this delivery is its last."""
        message = self._open(delivery)
        if message is None:
            return False
        self._queues[message.queue].release(message, delay_s=delay_s, now=now)
        if message.expires is not None:
            self.next_expiry = min(self.next_expiry, message.expires)
        return True

    def depth(self, queue: str) -> int:
        """How many open messages the queue holds."""
        line = self._queues.get(queue)
        return 0 if line is None else len(line.open)

    def _add(self, message: MemoryMessage, put: QueuePut, now: float) -> None:
        self._count = message.id
        self._by_id[message.id] = message
        if message.key is not None:
            self._by_key[message.key] = message
        waiter = message.waiter
        if waiter is not None:
            waits = self._waiting.get(waiter)
            if waits is None:
                self._waiting[waiter] = {message.id: message}
            else:
                waits[message.id] = message
        if message.session_id is not None:
            self._of_session[message.session_id][message.id] = message
        line = self._queues.get(message.queue)
        if line is None:
            line = self._queues[message.queue] = MemoryQueue()
        line.add(message, put, now)
        if message.expires is not None:
            self._expiring[message.id] = message
            self.next_expiry = min(self.next_expiry, message.expires)

    def _forget(self, message: MemoryMessage) -> None:
        del self._by_id[message.id]
        if message.key is not None:
            del self._by_key[message.key]
        if message.session_id is not None:
            own = self._of_session[message.session_id]
            del own[message.id]
            if not own:
                del self._of_session[message.session_id]
        if message.state == "open":
            self._queues[message.queue].remove(message)
            self._leaves_open(message)

    def _leaves_open(self, message: MemoryMessage) -> None:
        if message.expires is not None:
            del self._expiring[message.id]
        waiter = message.waiter
        if waiter is not None:
            waits = self._waiting[waiter]
            if len(waits) == 1:
                del self._waiting[waiter]
            else:
                del waits[message.id]

    def _open(self, delivery: QueueMessage) -> MemoryMessage | None:
        message = self._by_id.get(delivery.id)
        if message is None or message.state != "open" or not message.is_with(delivery):
            return None
        return message

    def _candidates(self, where: MessageFilter) -> Iterable[MemoryMessage]:
        """Messages among which are all that fit: as few as are quickly told."""
        only_open = where.states is not None and set(where.states) <= {"open"}
        if where.keys is not None:
            return (self._by_key[key] for key in where.keys if key in self._by_key)
        if where.session_id is not None:
            return self._of_session.get(where.session_id, {}).values()
        if where.waiters is not None and only_open:
            return (
                message
                for waiter in where.waiters
                for message in self._waiting.get(waiter, {}).values()
            )
        if where.waited_for and only_open:
            return (message for waits in self._waiting.values() for message in waits.values())
        queues = where.queues if where.queue is None else (where.queue,)
        if queues is not None and only_open:
            lines = [self._queues[queue] for queue in queues if queue in self._queues]
            return (message for line in lines for message in line.open.values())
        return self._by_id.values()


def _fits(message: MemoryMessage, where: MessageFilter) -> bool:
    return (
        (where.keys is None or message.key in where.keys)
        and (where.queue is None or message.queue == where.queue)
        and (where.queues is None or message.queue in where.queues)
        and (where.states is None or message.state in where.states)
        and (where.waiters is None or message.waiter in where.waiters)
        and (not where.waited_for or message.waiter is not None)
        and (where.session_id is None or message.session_id == where.session_id)
    )
