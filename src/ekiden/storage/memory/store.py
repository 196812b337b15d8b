"""The in-memory store: for tests, and for runs without a session.

Events are stored and returned as the same objects, which must not be changed (see `Event`); an
event outside sessions gets its number in a copy. Other values that a caller could change later are
copied on the way in and out, and refused if they are not JSON. Contents of events are not checked.
A store belongs to one event loop and needs no locks, because no method awaits between its changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ekiden.core.checks.fields import check_argument
from ekiden.core.errors import LeaseLost
from ekiden.core.events import Event
from ekiden.core.roles import Clock
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.storage.base import (
    Batch,
    Claim,
    Commit,
    Document,
    DocumentWrite,
    EventFilter,
    EventPage,
    MessageFilter,
    MessageSettle,
    OwnJson,
    PutReceipt,
    QueueMessage,
    QueuePut,
    SearchEntry,
    SearchHit,
    Settled,
    StoredMessage,
    Written,
)
from ekiden.storage.chain import EventDigest
from ekiden.storage.memory.sessions import MemorySession, MemorySessions
from ekiden.storage.values import (
    check_free_event,
    checked_copy,
    copy_json,
    event_conflict,
    step_conflict,
)

if TYPE_CHECKING:
    from ekiden.storage.memory.documents import MemoryDocuments, StagedDocuments
    from ekiden.storage.memory.messages import MemoryMessages, StagedPuts, StagedSettles
    from ekiden.storage.memory.search import MemorySearch


class MemoryStore(MemorySessions):
    """A `Store` in the memory of this process.

    No other process can use this store. The lease of a session therefore ends only when it is
    released, or when a test calls `advance`. The times of messages come from `clock`::

        session = Session("s1", store=MemoryStore())
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        if clock is not SYSTEM_CLOCK:
            check_argument("`clock` of MemoryStore", Clock, clock)
        super().__init__(clock)

    @cached_property
    def _begin_us(self) -> int:
        """The store's time when the monotonic clock is 0."""
        return self._clock.now_us() - int(self._clock.monotonic() * 1e6)

    @cached_property
    def _documents(self) -> MemoryDocuments:
        from ekiden.storage.memory.documents import MemoryDocuments

        return MemoryDocuments()

    @cached_property
    def _messages(self) -> MemoryMessages:
        from ekiden.storage.memory.messages import MemoryMessages

        return MemoryMessages()

    @cached_property
    def _search(self) -> MemorySearch:
        from ekiden.storage.memory.search import MemorySearch

        return MemorySearch()

    @property
    def shared(self) -> bool:
        return False

    def advance(self, seconds: float) -> None:
        """For tests: move the clock of leases and delays forward by `seconds`."""
        self._advanced_s += seconds

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        """Refuse all calls until `open` is called. The data is kept as long as this object
        exists."""
        self._closed = True
        self._notify()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def info(self) -> Mapping[str, Any]:
        self._check_open()
        free = 0 if self._feed is None else len(self._feed.free)
        return {
            "engine": "memory",
            "version": "1",
            "format": 1,
            "sessions": len(self._sessions),
            "events": free + sum(session.seq for session in self._sessions.values()),
            "estimated": [],
        }

    async def check_writable(self) -> None:
        self._check_open()

    async def now_us(self) -> int:
        self._check_open()
        return self._us(self._now())

    async def write(self, batch: Batch) -> Written:
        self._check_open()
        for event in batch.events:
            check_free_event(event)
        written = self._apply(self._stage(batch))
        if batch.events:
            self._kept_feed().add_free(batch.events)
        self._notify()
        return written

    # Journal

    async def commit(self, claim: Claim, commit: Commit) -> None:
        self._check_open()
        session = self._owned(claim)
        if session is None:
            raise LeaseLost(claim.session_id)
        events, steps = commit.events, commit.steps
        if events:
            first, last = events[0].seq, events[-1].seq
            if first != session.seq + 1 or last != session.seq + len(events):
                raise event_conflict(session.id, first, last, session.seq)
        cursor: Any = commit.patch.cursor
        variables = commit.patch.variables
        if cursor is not None and type(cursor) is not OwnJson:
            cursor = checked_copy(cursor, "the cursor of session {!r}", session.id)
        if variables is not None:
            variables = checked_copy(variables, "`variables` of session {!r}", session.id)
        results = _results(session, steps) if steps else {}

        # Everything that can be refused is staged before the first change, so that a commit is
        # stored whole or not at all.
        staged = None
        if commit.messages or commit.settles or commit.documents or commit.openings or commit.wakes:
            staged = self._stage(commit)
        if events:
            session.events.extend(events)
            session.seq = events[-1].seq
            if self._feed is not None:
                self._feed.extend(events)
        session.steps.update(results)
        self._patch(session, commit.patch, cursor, variables, commit.seen_wakes)
        if commit.release:
            session.owner = None
        else:
            session.until = self._advanced_s + claim.lease_s
        if staged is not None:
            self._apply(staged)
        self._notify()

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is not None:
            session.seal()
            events = session.events
        elif not session_id and self._feed is not None:
            events = self._feed.free
        else:
            return ()
        if with_items:
            return [event for event in events[after:] if event.speaks][:limit]
        return events[after : None if limit is None else after + limit]

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        self._check_open()
        return ()

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        from ekiden.storage.memory.documents import find_events

        self._check_open()
        free = () if self._feed is None else self._feed.free
        return find_events(self._sessions.values(), free, where, limit, cursor)

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        self._check_open()
        return self._kept_feed().page(self._sessions, after, limit)

    async def feed_end(self) -> str:
        self._check_open()
        return self._kept_feed().end

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            return {}
        return {
            key: copy_json(result)
            for key, result in session.steps.items()
            if key.startswith(prefix)
        }

    # Documents

    async def get_document(self, collection: str, key: str) -> Document | None:
        self._check_open()
        return self._documents.get(collection, key)

    async def write_documents(
        self, writes: Sequence[DocumentWrite], *, silently: bool = False
    ) -> None:
        self._check_open()
        self._documents.apply(self._documents.stage(writes, now_us=self._clock.now_us()))
        if not silently:
            self._notify()

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        self._check_open()
        return self._documents.page(collection, prefix=prefix, after=after, limit=limit)

    # Queues

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        self._check_open()
        self._expire_messages()
        now = self._now()
        receipts = self._messages.put(self._messages.stage(messages), now=now, now_us=self._us(now))
        self._notify()
        return receipts

    # `put_now` and `answer_now` write out `_now`, `_us` and `_notify`, for speed: the bus calls
    # them for each message.

    def put_now(self, put: QueuePut) -> int | None:
        """Store one message as `put_messages` does, but without ``await``. Returns the number of
        the stored message, or `None` if the store already has a message with this id."""
        if self._closed:
            self._check_open()
        now = self._clock.monotonic() + self._advanced_s
        if now >= self._messages.next_expiry:
            self._expire_messages()
        number = self._messages.put_one(put, now, self._begin_us + int(now * 1e6))
        self._changed = True
        if self._changes is not None:
            self._changes.notify()
        return number

    def answer_now(self, key: str, answer: Any) -> Settled:
        """Mark one message as answered, as `settle_messages` does, but without ``await``. The
        answer must be JSON or `None`; this method does not check this."""
        if self._closed:
            self._check_open()
        if answer is not None and type(answer) is not OwnJson:
            answer = copy_json(answer)
        now = self._clock.monotonic() + self._advanced_s
        woken: list[str] = []
        settled = self._messages.end_one(
            key, "answered", answer, self._begin_us + int(now * 1e6), woken
        )
        if woken:
            self._wake(woken)
        self._changed = True
        if self._changes is not None:
            self._changes.notify()
        return settled

    def forget_now(self, key: str) -> None:
        """Remove a message in any state. If the message does not exist, do nothing."""
        self._messages.forget(key)

    async def take_messages(
        self,
        queue: str,
        *,
        owner: str,
        lease_s: float,
        limit: int = 1,
        oldest_first: bool = False,
    ) -> Sequence[QueueMessage]:
        self._check_open()
        now = self._now()
        taken, woken = self._messages.take(
            queue,
            owner=owner,
            lease_s=lease_s,
            limit=limit,
            oldest_first=oldest_first,
            now=now,
            now_us=self._us(now),
        )
        if woken:
            self._wake(woken)
            self._notify()
        return taken

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        self._check_open()
        staged = self._messages.stage_settles(settles)
        settled, woken = self._messages.settle(staged, now_us=self._us(self._now()))
        if woken:
            self._wake(woken)
        self._notify()
        return settled

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        self._check_open()
        self._expire_messages()
        return self._messages.find(where, after=after, limit=limit)

    def _expire_messages(self) -> None:
        """Expired messages leave their queues, even if no agent serves them."""
        now = self._now()
        if now < self._messages.next_expiry:
            return
        woken = self._messages.expire(now=now, now_us=self._us(now))
        if woken:
            self._wake(woken)
            self._notify()

    async def requeue_messages(self, keys: Collection[str]) -> int:
        self._check_open()
        count = self._messages.requeue(keys)
        self._notify()
        return count

    async def prune_messages(self, *, before_us: int, limit: int = 1000) -> int:
        self._check_open()
        return self._messages.prune(before_us=before_us, limit=limit)

    async def ack_message(self, message: QueueMessage) -> bool:
        self._check_open()
        return self._messages.ack(message)

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        self._check_open()
        if not self._messages.release(message, delay_s=delay_s, now=self._now()):
            return False
        self._notify()
        return True

    async def queue_depth(self, queue: str) -> int:
        self._check_open()
        self._expire_messages()
        return self._messages.depth(queue)

    # Search

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        from ekiden.storage.search import checked_entries, words_of_all

        self._check_open()
        checked = checked_entries(entries)
        words = await words_of_all([entry.text for entry in checked])
        self._search.put(checked, words, now_us=self._clock.now_us())
        self._notify()

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        from ekiden.storage.search import checked_entries

        self._check_open()
        keys = self._search.put_vectors(checked_entries(entries))
        self._notify()
        return keys

    async def find_entries(
        self,
        space: str,
        *,
        keys: Collection[str] | None = None,
        after: str = "",
        not_of_model: str | None = None,
        limit: int = 100,
    ) -> Sequence[SearchEntry]:
        self._check_open()
        return self._search.find(
            space, keys=keys, after=after, not_of_model=not_of_model, limit=limit
        )

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        self._check_open()
        count = self._search.delete(space, keys)
        self._notify()
        return count

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        self._check_open()
        return self._search.by_words(space, query, limit)

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        self._check_open()
        return self._search.by_vector(space, vector, model, limit)

    # Internal

    def _now(self) -> float:
        return self._clock.monotonic() + self._advanced_s

    def _us(self, now: float) -> int:
        return self._begin_us + int(now * 1e6)

    def _stage(self, write: Commit | Batch) -> _Staged:
        """The parts that commits and batches share, for `_apply`; raises as `commit` and `write`
        do."""
        return _Staged(
            self._documents.stage(write.documents, now_us=self._clock.now_us()),
            self._messages.stage(write.messages),
            self._messages.stage_settles(write.settles),
            self._stage_openings(write.openings),
            write.wakes,
        )

    def _apply(self, staged: _Staged) -> Written:
        """Store the result of `_stage`; nothing is refused here."""
        now = self._now()
        now_us = self._us(now)
        self._documents.apply(staged.documents)
        receipts = self._messages.put(staged.messages, now=now, now_us=now_us)
        settled, woken = self._messages.settle(staged.settles, now_us=now_us)
        self._open_sessions(staged.openings)
        self._wake(woken)
        self._wake(staged.wakes)
        return Written(receipts=receipts, settled=settled)


class _Staged(NamedTuple):
    """The checked parts of a write."""

    documents: StagedDocuments
    messages: StagedPuts
    settles: StagedSettles
    openings: Sequence[MemorySession]
    wakes: Sequence[str]


def _results(session: MemorySession, steps: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the results; raises `StepConflict` or `UserError`."""
    for key in steps:
        if key in session.steps:
            raise step_conflict(session.id, key)
    return {
        key: checked_copy(result, "step {!r} of session {!r}", key, session.id)
        for key, result in steps.items()
    }
