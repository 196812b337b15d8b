"""What a back end is still to be told: messages in a queue of the store.

A message only names an entry; what is sent is what the store has of it when it is sent. So it may
be sent twice, late, or in another order, and the back end ends with what the store has. After
sending, whoever sent looks again: if an entry was changed meanwhile, perhaps by another process
that was faster to send, it is sent anew.

The message is stored before the entry is changed, as if somebody were busy with it: nobody sends
what was there before, and if the process dies in between, the message is due when its time is over.
After the change one takes its place that waits with no other of the same entry, however often that
changes. Whoever sends puts one of their own in its place before they read the entry: so a change
that comes later finds none that waits, and leaves another.

What a back end refuses waits in a queue of its own, and nobody else for it. A message that cannot
be read is set aside in a third.
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
from ekiden.memory.base import RemoteEntry
from ekiden.memory.entries import memory_record
from ekiden.memory.remote_copy import SEND_TIMEOUT_S, RemoteCopy
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
"""The collection that says, for a space, which back ends have copies."""
_LEASE_S = 30.0
_BATCH = 100
_PAGES = 50
_RETRY_S = 5.0
_LONGEST_RETRY_S = 300.0
_REFUSED_S = 3600.0
"""After this long, refused messages are retried: the back end's settings may have changed."""
_LOOKS = 5
"""How often an entry that keeps changing is sent; each change also sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """The result of sending changes to a back end."""

    delivered: int = 0
    """The number of messages that the back end accepted."""
    waiting: int = 0
    """The number of messages that failed and wait for a retry."""
    problem: str | None = None
    """The first failure."""


def queue_of(backend: str) -> str:
    """The queue of what this back end is to be told."""
    return f"memory.outbox.{backend}"


def refused_by(backend: str) -> str:
    """The queue of what this back end refused, and is told again after an hour."""
    return f"{queue_of(backend)}.refused"


def unreadable_for(backend: str) -> str:
    """The queue of unreadable messages to this back end."""
    return f"{queue_of(backend)}.unreadable"


async def backends_of(store: Store, space: str) -> Sequence[str]:
    """The back ends that have copies of what is in the space."""
    found = await store.get_document(_MIRRORS, space)
    return () if found is None else list(found.body)


async def used_backends(store: Store) -> Sequence[str]:
    """The names of all back ends that hold copies of memories."""
    documents = [each async for each in each_document(store, _MIRRORS)]
    return sorted({name for each in documents for name in each.body})


async def add_mirror(store: Store, space: str, backend: str) -> None:
    """From now on the back end has copies of the space: it gets all present entries, and every
    change."""
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
    """Whether the back end is still to be told something of the space; so it is said of every
    space if very much is left to be told. What it refused does not count."""
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
    """Change these entries inside, or all of the space: the back ends are told afterwards."""
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
    """A message that is dropped if one of the same entry waits already."""
    name = "*" if key is None else sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    body: dict[str, Any] = {"space": space, "key": key}
    if tries:
        body["tries"] = tries
    return QueuePut(queue=queue, body=body, dedup_key=f"{space}/{name}", delay_s=delay_s)


async def _hold(store: Store, messages: Sequence[tuple[str, Any]]) -> list[QueueMessage]:
    """Put messages that no other process takes for a while, each a queue and a body."""
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
    """Send up to a hundred due messages; failed ones are retried later.

    Only vectors of the embedder `model` are sent. An entry without such a vector is sent when it
    gets one. `timeout_s` is the timeout of every call.
    """
    taken = await _taken(store, mirror.name)
    groups: dict[str, list[QueueMessage]] = {}
    for message in taken:
        groups.setdefault(message.body["space"], []).append(message)
    sending = _Sending(store=store, mirror=mirror, model=model, timeout_s=timeout_s)
    delivered, problem = 0, None
    for space, messages in groups.items():
        if sending.is_disconnected:
            await _put_back(store, messages)
            continue
        sent, why = await sending.send(space, messages)
        delivered += sent
        problem = problem or why
    return DeliveryReport(delivered=delivered, waiting=len(taken) - delivered, problem=problem)


async def _taken(store: Store, backend: str) -> list[QueueMessage]:
    """Messages that are due, with those that were refused long ago."""
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
    """What may go better later is tried again, ever later."""
    puts = []
    for message in messages:
        tries = message.body.get("tries", 0)
        pause = min(_RETRY_S * 2.0 ** min(max(tries, 0), 20), _LONGEST_RETRY_S)
        space, key = message.body["space"], message.body["key"]
        puts.append(_waiting(message.queue, space, key, tries=tries + 1, delay_s=pause))
    await _replace(store, messages, puts)


async def _put_aside(store: Store, backend: str, message: QueueMessage) -> None:
    """Refused messages do not block the others."""
    space, key = message.body["space"], message.body["key"]
    again = _waiting(refused_by(backend), space, key, delay_s=_REFUSED_S)
    await _replace(store, [message], [again])


@dataclass(slots=True, kw_only=True)
class _Sending:
    """One delivery, as far as it came."""

    store: Store
    mirror: RemoteCopy
    model: str
    timeout_s: float
    is_disconnected: bool = False

    async def send(self, space: str, messages: list[QueueMessage]) -> tuple[int, str | None]:
        """How many of the messages went, and why the first of the others did not.

        What is refused in company is tried alone, so that one entry does not keep others back.
        """
        keys = {message.body["key"] for message in messages}
        try:
            if None in keys:
                await self._all_of(space)
            await self._entries(space, {key for key in keys if key is not None})
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

    async def _all_of(self, space: str) -> None:
        """Remove what is there, and have every entry that the space has now sent on its own."""
        await self.mirror.clear(space, timeout_s=self.timeout_s)
        queue, after = queue_of(self.mirror.name), ""
        while page := await self.store.find_entries(space, after=after, limit=_BATCH):
            await self.store.put_messages([_waiting(queue, space, each.key) for each in page])
            after = page[-1].key

    async def _entries(self, space: str, keys: set[str]) -> None:
        found = await self._found(space, keys)
        for _ in range(_LOOKS):
            await self._tell(space, keys, found)
            now = await self._found(space, keys)
            keys = {key for key in keys if _version(now, key) != _version(found, key)}
            if not keys:
                return
            found = now

    async def _found(self, space: str, keys: set[str]) -> dict[str, SearchEntry]:
        if not keys:
            return {}
        found = await self.store.find_entries(space, keys=keys, limit=len(keys))
        return {entry.key: entry for entry in found}

    async def _tell(self, space: str, keys: set[str], found: dict[str, SearchEntry]) -> None:
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
    said = memory_record(entry)
    return RemoteEntry(
        key=entry.key,
        text=said.content,
        metadata=said.metadata,
        vector=entry.vector or (),
        model=entry.model,
        version=entry.updated_at_us,
    )
