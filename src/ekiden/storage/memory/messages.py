"""The messages of the in-memory store, in all states."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

from ekiden.core.errors import QueueFull
from ekiden.storage.memory.queues import MemoryMessage, MemoryQueue
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
from ekiden.storage.values import check_limit, check_settle, checked_copy, is_late

StagedPuts: TypeAlias = Sequence[tuple[QueuePut, MemoryMessage | None, bool]]
"""For each put its message, if any, and whether the message is new."""
StagedSettles: TypeAlias = Sequence[tuple[MessageSettle, Any]]
"""Each settlement with the store's copy of the answer."""


class MemoryMessages:
    """Messages by id, key, waiter and session, and the queues of open messages."""

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
        """The open messages by waiter."""
        self._of_session: defaultdict[str, dict[int, MemoryMessage]] = defaultdict(dict)
        self._expiring: dict[int, MemoryMessage] = {}
        """The open messages with an expiry time."""
        self.next_expiry = math.inf
        """No message expires before this time."""

    def stage(self, puts: Sequence[QueuePut]) -> StagedPuts:
        """The messages of these puts, for `put`. Raises `QueueFull` or `UserError`."""
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
        """Store the result of `stage`."""
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
        """Store one message, without the lists of `stage` and `put`. Returns its id, or `None` if
        the key is taken; raises as `stage`."""
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
        """Settle expired messages without a lease, and return their sessions."""
        over = [each for each in self._expiring.values() if each.has_expired(now)]
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
        """The settlements with copies of their answers, for `settle`. Raises `UserError`."""
        return [(settle, self.own_answer(settle)) for settle in settles]

    @staticmethod
    def own_answer(settle: MessageSettle) -> Any:
        """The store's copy of the answer. Raises `UserError`."""
        check_settle(settle)
        answer = settle.answer
        if answer is None or type(answer) is OwnJson:
            return answer
        return checked_copy(answer, "the answer to message {!r}", settle.key)

    def settle(self, staged: StagedSettles, *, now_us: int) -> tuple[list[Settled], list[str]]:
        """The result of each settlement, and the sessions to wake."""
        woken: list[str] = []
        results = [self.settle_one(settle, answer, now_us, woken) for settle, answer in staged]
        return results, woken

    def settle_one(
        self, settle: MessageSettle, answer: Any, now_us: int, woken: list[str]
    ) -> Settled:
        """The result of the settlement; a session to wake is added to `woken`."""
        message = self._by_key.get(settle.key)
        if message is None:
            return "no"
        if settle.by is not None and not message.was_last_delivered_as(settle.by):
            return "no"
        if settle.forget:
            self._forget(message)
            return "settled"
        return self.end_one(settle.key, settle.state, answer, now_us, woken)

    def end_one(
        self, key: str, state: MessageState, answer: Any, now_us: int, woken: list[str]
    ) -> Settled:
        """Give the message its final state; a session to wake is added to `woken`."""
        message = self._by_key.get(key)
        if message is None:
            return "no"
        if message.state == "open":
            self._queues[message.queue].remove(message)
            self._leaves_open(message)
            message.state = state
            message.answer = answer
            message.settled_us = now_us
            if message.session_id is not None:
                woken.append(message.session_id)
            return "settled"
        if is_late(message.state, state):
            message.state, message.answer = "late", answer
            message.settled_us = now_us
            return "late"
        return "no"

    def forget(self, key: str) -> None:
        """Remove the message, if it exists."""
        message = self._by_key.get(key)
        if message is not None:
            self._forget(message)

    def find(self, where: MessageFilter, *, after: int, limit: int) -> list[StoredMessage]:
        """One page of messages, ordered by id."""
        check_limit(limit, "messages")
        found = {
            each.id: each
            for each in self._candidates(where)
            if each.id > after and _matches(each, where)
        }
        return [found[number].stored() for number in sorted(found)[:limit]]

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
        """Remove messages that were settled before this time, oldest first."""
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
        """Remove an open message if this is its last delivery."""
        message = self._open(delivery)
        if message is None:
            return False
        self._forget(message)
        return True

    def release(self, delivery: QueueMessage, *, delay_s: float, now: float) -> bool:
        """Put an open message back in its place if this is its last delivery."""
        message = self._open(delivery)
        if message is None:
            return False
        self._queues[message.queue].release(message, delay_s=delay_s, now=now)
        if message.expires is not None:
            self.next_expiry = min(self.next_expiry, message.expires)
        return True

    def depth(self, queue: str) -> int:
        """The number of open messages in the queue."""
        line = self._queues.get(queue)
        return 0 if line is None else len(line.open)

    def _add(self, message: MemoryMessage, put: QueuePut, now: float) -> None:
        number = self._count = message.id
        self._by_id[number] = message
        if message.key is not None:
            self._by_key[message.key] = message
        waiter = message.waiter
        if waiter is not None:
            waits = self._waiting.get(waiter)
            if waits is None:
                self._waiting[waiter] = {number: message}
            else:
                waits[number] = message
        if message.session_id is not None:
            self._of_session[message.session_id][number] = message
        line = self._queues.get(message.queue)
        if line is None:
            line = self._queues[message.queue] = MemoryQueue()
        line.add(message, put, now)
        expires = message.expires
        if expires is not None:
            self._expiring[number] = message
            if expires < self.next_expiry:
                self.next_expiry = expires

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
        if message is None or message.state != "open":
            return None
        return message if message.was_last_delivered_as(delivery) else None

    def _candidates(self, where: MessageFilter) -> Iterable[MemoryMessage]:
        """Messages that include all matches; the indexes narrow them down."""
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


def _matches(message: MemoryMessage, where: MessageFilter) -> bool:
    return (
        (where.keys is None or message.key in where.keys)
        and (where.queue is None or message.queue == where.queue)
        and (where.queues is None or message.queue in where.queues)
        and (where.states is None or message.state in where.states)
        and (where.waiters is None or message.waiter in where.waiters)
        and (not where.waited_for or message.waiter is not None)
        and (where.session_id is None or message.session_id == where.session_id)
    )
