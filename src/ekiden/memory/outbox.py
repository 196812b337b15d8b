"""The outbox of memory back ends: messages in a queue of the store.

A message contains only the name of an entry. The sender reads the current entry from the store and
sends it. So even if messages are sent twice, late, or in another order, the back end finally has
the contents of the store. After sending, the sender reads the entry again. If the entry was changed
meanwhile, the sender sends it again.

A message is stored before its entry is changed, and is marked as already taken. So no process sends
the old entry. If this process dies, the message becomes due when its lease ends. After the change,
the message is replaced by a message with a `dedup_key`, so only one message waits for an entry,
even if the entry changes often. Before a sender reads the entry, it replaces the waiting message by
a message that the sender has taken. So a later change finds no waiting message, and adds a new one.

Refused messages wait in their own queue, and do not block others. Unreadable messages are put into
a third queue.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ekiden.core.errors import StaleDocument
from ekiden.core.errors.memory import BackendUnavailable
from ekiden.core.values import new_id
from ekiden.memory.base import SEND_TIMEOUT_S, RemoteCopy, RemoteEntry
from ekiden.memory.search import memory_record
from ekiden.storage.base import (
    Batch,
    DocumentWrite,
    MessageFilter,
    QueueMessage,
    QueuePut,
    SearchEntry,
    Store,
    each_document,
)

_log = logging.getLogger("ekiden.memory")

_MIRRORS = "memory.mirrors"
"""The collection with the names of the back ends that have copies, for each space."""
_LEASE_S = 30.0
_BATCH = 100
_PAGES = 50
_RETRY_S = 5.0
_LONGEST_RETRY_S = 300.0
_REFUSED_S = 3600.0
"""After this long, refused messages are retried: the back end's settings may have changed."""
_SENDS = 5
"""How often an entry that keeps changing is sent again; each change also sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """The result of `deliver`."""

    delivered: int = 0
    """The number of changes that the back end accepted."""
    waiting: int = 0
    """The number of changes that could not be sent, and wait for a retry."""
    problem: str | None = None
    """The first failure."""


def queue_of(backend: str) -> str:
    """The queue of pending messages to this back end."""
    return f"memory.outbox.{backend}"


def refused_by(backend: str) -> str:
    """The queue of messages that this back end refused, which are sent again after an hour."""
    return f"{queue_of(backend)}.refused"


def unreadable_for(backend: str) -> str:
    """The queue of unreadable messages to this back end."""
    return f"{queue_of(backend)}.unreadable"


async def backends_of(store: Store, space: str) -> Sequence[str]:
    """The names of the back ends with copies of the space."""
    found = await store.get_document(_MIRRORS, space)
    return () if found is None else list(found.body)


async def used_backends(store: Store) -> Sequence[str]:
    """The names of all back ends that hold copies of memories."""
    documents = [each async for each in each_document(store, _MIRRORS)]
    return sorted({name for each in documents for name in each.body})


async def add_mirror(store: Store, space: str, backend: str) -> None:
    """Send all existing entries of the space, and every later change, to the back end."""
    while True:
        found = await store.get_document(_MIRRORS, space)
        names = [] if found is None else list(found.body)
        if backend in names:
            return
        write = DocumentWrite(
            collection=_MIRRORS,
            key=space,
            body=sorted([*names, backend]),
            expected_version=0 if found is None else found.version,
        )
        everything = _waiting(queue_of(backend), space, None)
        with suppress(StaleDocument):
            await store.write(Batch(documents=[write], messages=[everything]))


async def is_behind(store: Store, backend: str, space: str) -> bool:
    """Whether there are pending messages about the space. Also true if too many messages are
    pending to search them. Refused messages do not count."""
    where = MessageFilter(queue=queue_of(backend), states={"open"})
    after = 0
    for _ in range(_PAGES):
        page = await store.find_messages(where, after=after, limit=_BATCH)
        if any(each.body.get("space") == space for each in page if _is_readable(each.body)):
            return True
        if len(page) < _BATCH:
            return False
        after = page[-1].id
    return True


@asynccontextmanager
async def announced(
    store: Store, backends: Collection[str], space: str, keys: Collection[str] | None
) -> AsyncIterator[None]:
    """Announce changes of these entries, or of the whole space. The caller makes the changes inside
    the ``with`` block."""
    named: list[str | None] = [None] if keys is None else [*sorted(keys)]
    queues = [queue_of(backend) for backend in backends]
    bodies = [{"space": space, "key": key} for key in named]
    held = await _hold(store, [(queue, body) for queue in queues for body in bodies])
    try:
        yield
    finally:
        await _replace(
            store, held, [_waiting(queue, space, key) for queue in queues for key in named]
        )


def _waiting(
    queue: str, space: str, key: str | None, *, tries: int = 0, delay_s: float = 0.0
) -> QueuePut:
    """A message that is dropped if a message about the same entry is already waiting."""
    name = "*" if key is None else sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    body: dict[str, Any] = {"space": space, "key": key}
    if tries:
        body["tries"] = tries
    return QueuePut(queue=queue, body=body, dedup_key=f"{space}/{name}", delay_s=delay_s)


async def _hold(store: Store, messages: Sequence[tuple[str, Any]]) -> list[QueueMessage]:
    """Put messages, each with its queue and body, as already taken by this process."""
    owner = new_id("post")
    puts = [
        QueuePut(queue=queue, body=body, taken_by=owner, lease_s=_LEASE_S)
        for queue, body in messages
    ]
    receipts = await store.put_messages(puts) if puts else ()
    return [
        QueueMessage(
            id=receipt.id, queue=put.queue, body=put.body, priority=0, attempts=1, owner=owner
        )
        for receipt, put in zip(receipts, puts, strict=True)
    ]


async def _replace(
    store: Store, messages: Sequence[QueueMessage], puts: Sequence[QueuePut]
) -> None:
    """Replace these messages by those; a crash in between leaves both."""
    if puts:
        await store.put_messages(puts)
    for message in messages:
        await store.ack_message(message)


async def deliver(
    store: Store, mirror: RemoteCopy, *, model: str, timeout_s: float = SEND_TIMEOUT_S
) -> DeliveryReport:
    """Send up to a hundred waiting changes of memories to a back end. A change that cannot be sent
    is retried later.

    A memory is sent only when it has a vector of the embedder `model`. `timeout_s` is the timeout
    of every call of the back end.
    """
    taken = await _taken(store, mirror.name)
    groups: dict[str, list[QueueMessage]] = {}
    for message in taken:
        groups.setdefault(message.body["space"], []).append(message)
    sender = _Sender(store=store, mirror=mirror, model=model, timeout_s=timeout_s)
    delivered, problem = 0, None
    for space, messages in groups.items():
        if sender.is_disconnected:
            await _put_back(store, messages)
            continue
        sent, why = await sender.send(space, messages)
        delivered += sent
        problem = problem or why
    return DeliveryReport(delivered=delivered, waiting=len(taken) - delivered, problem=problem)


async def _taken(store: Store, backend: str) -> list[QueueMessage]:
    """Take due messages, including refused ones; each is replaced by one that this process has
    taken."""
    found: list[QueueMessage] = []
    for queue in (queue_of(backend), refused_by(backend)):
        if len(found) < _BATCH:
            found += await store.take_messages(
                queue,
                owner=new_id("post"),
                lease_s=_LEASE_S,
                limit=_BATCH - len(found),
                oldest_first=True,
            )
    good = [message for message in found if _is_readable(message.body)]
    bad = [message for message in found if not _is_readable(message.body)]
    if bad:
        aside = unreadable_for(backend)
        _log.warning("%d messages to %s cannot be read: they are in %s", len(bad), backend, aside)
        await _replace(store, bad, [QueuePut(queue=aside, body=message.body) for message in bad])
    held = await _hold(store, [(message.queue, message.body) for message in good])
    await _replace(store, good, ())
    return held


def _is_readable(body: Any) -> bool:
    return (
        isinstance(body, dict)
        and isinstance(body.get("space"), str)
        and isinstance(body.get("key", 0), str | None)
        and isinstance(body.get("tries", 0), int)
    )


async def _put_back(store: Store, messages: Sequence[QueueMessage]) -> None:
    """Retry the messages later; the delay doubles with each attempt."""
    puts = []
    for message in messages:
        tries = message.body.get("tries", 0)
        pause = min(_RETRY_S * 2.0 ** min(max(tries, 0), 20), _LONGEST_RETRY_S)
        space, key = message.body["space"], message.body["key"]
        puts.append(_waiting(message.queue, space, key, tries=tries + 1, delay_s=pause))
    await _replace(store, messages, puts)


async def _put_aside(store: Store, backend: str, message: QueueMessage) -> None:
    """Move a refused message to its own queue, where it does not block others."""
    space, key = message.body["space"], message.body["key"]
    again = _waiting(refused_by(backend), space, key, delay_s=_REFUSED_S)
    await _replace(store, [message], [again])


@dataclass(slots=True, kw_only=True)
class _Sender:
    """Sends the messages of one delivery."""

    store: Store
    mirror: RemoteCopy
    model: str
    timeout_s: float
    is_disconnected: bool = False

    async def send(self, space: str, messages: list[QueueMessage]) -> tuple[int, str | None]:
        """The number of delivered messages, and the first failure.

        If a group is refused, its messages are sent one by one, so that one entry does not block
        others.
        """
        keys = {message.body["key"] for message in messages}
        try:
            if None in keys:
                await self._send_space(space)
            await self._send_entries(space, {key for key in keys if key is not None})
        except BackendUnavailable as exc:
            if exc.retry:
                self.is_disconnected = True
                await _put_back(self.store, messages)
                return 0, str(exc)
            if len(messages) == 1:
                await _put_aside(self.store, self.mirror.name, messages[0])
                return 0, str(exc)
            return await self._one_by_one(space, messages)
        for message in messages:
            await self.store.ack_message(message)
        return len(messages), None

    async def _one_by_one(
        self, space: str, messages: Sequence[QueueMessage]
    ) -> tuple[int, str | None]:
        sent, problem = 0, None
        for message in messages:
            if self.is_disconnected:
                await _put_back(self.store, [message])
                continue
            went, why = await self.send(space, [message])
            sent += went
            problem = problem or why
        return sent, problem

    async def _send_space(self, space: str) -> None:
        """Clear the space in the back end, and queue a message for each present entry."""
        await self.mirror.clear(space, timeout_s=self.timeout_s)
        queue, after = queue_of(self.mirror.name), ""
        while page := await self.store.find_entries(space, after=after, limit=_BATCH):
            await self.store.put_messages([_waiting(queue, space, each.key) for each in page])
            after = page[-1].key

    async def _send_entries(self, space: str, keys: set[str]) -> None:
        found = await self._read(space, keys)
        for _ in range(_SENDS):
            await self._update(space, keys, found)
            now = await self._read(space, keys)
            keys = {key for key in keys if _version(now, key) != _version(found, key)}
            if not keys:
                return
            found = now

    async def _read(self, space: str, keys: set[str]) -> dict[str, SearchEntry]:
        if not keys:
            return {}
        found = await self.store.find_entries(space, keys=keys, limit=len(keys))
        return {entry.key: entry for entry in found}

    async def _update(self, space: str, keys: set[str], found: dict[str, SearchEntry]) -> None:
        gone = sorted(keys - found.keys())
        if gone:
            await self.mirror.delete(space, gone, timeout_s=self.timeout_s)
        entries = [
            _mirrored(found[key])
            for key in sorted(keys & found.keys())
            if found[key].model == self.model and found[key].vector is not None
        ]
        if entries:
            await self.mirror.upsert(space, entries, timeout_s=self.timeout_s)


def _version(found: dict[str, SearchEntry], key: str) -> tuple[object, ...] | None:
    entry = found.get(key)
    return None if entry is None else (entry.updated_at_us, entry.model, entry.text)


def _mirrored(entry: SearchEntry) -> RemoteEntry:
    record = memory_record(entry)
    return RemoteEntry(
        key=entry.key,
        text=record.content,
        metadata=record.metadata,
        vector=entry.vector or (),
        model=entry.model,
        version=entry.updated_at_us,
    )
