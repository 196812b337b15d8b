"""The interfaces of a store: sessions with leases, their journal, documents, queues and search.

Rules that every back end keeps, and `ekiden.testing.store_contract.StoreContract` checks:

* A session is owned by at most one `Claim`. Each new claim raises the session's epoch. Every write
  names the owner and the epoch of its claim. If the session has a higher epoch, *or the lease has
  expired*, the write raises `LeaseLost` and changes nothing. Leases are measured by the store's own
  clock.
* `commit` is one transaction: either the whole commit is stored durably, or none of it.
* The caller of `commit` numbers the events of a session 1, 2, 3 … `commit` raises `StepConflict` if
  an event with the same number, or a step result with the same key, is already stored.
* Values that are stored as JSON (`meta`, `cursor`, `variables`, results of steps, bodies of
  documents and messages, contents of events) must be JSON: dicts with text as keys, lists, text,
  finite numbers, booleans, `None`. Anything else raises a `UserError` that names the value, before
  anything is stored. Only `MemoryStore` does not check events, which it keeps as objects.
* Waking a session raises its count `wakes`. A process that suspends the session passes the
  count that it has read, so no wake is lost between reading and suspending.
* A message stays open until it is settled, which gives it a final state. Only the first settlement
  counts.
* A database that cannot be reached raises `StoreUnavailable`, never an exception of its driver.
* A store opens at its first use. A closed store refuses every call with `StoreUnavailable` until it
  is opened again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, Self

from ekiden.core.events import Event
from ekiden.storage.chain import EventDigest
from ekiden.storage.records import (
    MESSAGES as MESSAGES,
    Batch as Batch,
    Claim as Claim,
    Commit as Commit,
    Document as Document,
    DocumentWrite as DocumentWrite,
    EventFilter as EventFilter,
    EventPage as EventPage,
    Loaded as Loaded,
    MessageFilter as MessageFilter,
    MessageSettle as MessageSettle,
    MessageState as MessageState,
    NewSession as NewSession,
    OwnJson as OwnJson,
    PutReceipt as PutReceipt,
    QueueMessage as QueueMessage,
    QueuePut as QueuePut,
    SearchEntry as SearchEntry,
    SearchHit as SearchHit,
    SessionFilter as SessionFilter,
    SessionOpening as SessionOpening,
    SessionPage as SessionPage,
    SessionPatch as SessionPatch,
    SessionRow as SessionRow,
    SessionStatus as SessionStatus,
    Settled as Settled,
    StoredMessage as StoredMessage,
    Written as Written,
)


class SessionStore(Protocol):
    """Sessions, each stored as one row."""

    async def create(self, new: NewSession) -> None:
        """Store a new session. Raises `SessionExists` if a session with this id exists."""
        ...

    async def get(self, session_id: str) -> SessionRow:
        """Return the row of the session. Raises `SessionNotFound`."""
        ...

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        """Return one page of sessions, newest first. Raises `UserError` for a malformed cursor."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session with its events and steps. Raises `SessionNotFound`, and `SessionBusy`
        while the session has a live lease."""
        ...


class LeaseStore(Protocol):
    """Leases of sessions: only the owner of a lease may write to the session."""

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        """Claim the session. Raises `SessionBusy` while any owner, including `owner` itself, has a
        live lease.

        With `create`, a missing session is created in the same transaction. Without `create`, this
        method raises `SessionNotFound` for a missing session.
        """
        ...

    async def claim_next(
        self, *, owner: str, lease_s: float, agents: Collection[str] | None = None
    ) -> tuple[Claim, SessionRow] | None:
        """Claim the `ready` session that has waited longest and has no live lease. Returns `None`
        if there is no such session.

        With `agents`, only sessions of these agents are claimed.
        """
        ...

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Extend the leases of these claims, and return the claims that are already lost."""
        ...

    async def release(self, claim: Claim) -> None:
        """Release the session. Does nothing if the claim is already lost."""
        ...

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        """Return soon after a change in the store, or after the timeout. The call may also return
        early.

        With `about`, the call may ignore all changes except changes of documents in these
        collections. If `about` contains `MESSAGES`, changes of messages count too.
        """
        ...

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        """Return when `claim_next` may find a session of these agents, because a session was
        released or a lease expired.

        The call may also return early. For each ready session, one waiting process is woken.
        Processes whose `has_room` returns false are skipped. In each process, only one task at a
        time may call this method.
        """
        ...


class Journal(Protocol):
    """The part of a store with the events of sessions, and with the results of their steps."""

    def commit(self, claim: Claim, commit: Commit) -> Awaitable[None]:
        """Store all changes that one step of a run makes. Raises `LeaseLost`, `StepConflict`,
        `StaleDocument`, `QueueFull`, and `UserError` for values that are not JSON. If it raises an
        exception, nothing is stored."""
        ...

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        """Return the events with numbers above `after`, in order. The result is empty if the
        session does not exist.

        With `with_items`, return only the events that add items to the conversation or remove
        items. These events are enough to read the conversation.
        """
        ...

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        """Return the digests of the stored events with numbers above `after`, in order.

        The result is empty if the session does not exist. It is also empty for a store in memory,
        because no other process can change its events.
        """
        ...

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        """Return one page of the events of all sessions, sorted by time, then by creation of the
        session, then by number. Raises `UserError` for a malformed cursor or a limit below 1.

        A page begins after the last event of the previous page, even if events were written or
        deleted meanwhile. No event appears twice. Every event that existed from the first to the
        last page is listed.
        """
        ...

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        """Return the events of all sessions, and events without a session, in the order in which
        they became visible to readers.

        The result begins after the event with the cursor `after`, or with the first event. A reader
        that continues from the cursor of its last event sees every event once. An event that is
        committed later never appears before an event that was already returned. `next_cursor` is
        the cursor of the last event, or `after` if there are no events. Raises `UserError` for a
        malformed cursor or a limit below 1.
        """
        ...

    async def feed_end(self) -> str:
        """The cursor after the last stored event. With this cursor as `after`, `feed` returns only
        later events."""
        ...

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        """Return the stored results of the session's steps, by key. `prefix` selects steps whose
        keys begin with it."""
        ...


class DocumentStore(Protocol):
    """Versioned JSON documents in named collections."""

    async def get_document(self, collection: str, key: str) -> Document | None:
        """Return the document, or `None` if it does not exist."""
        ...

    async def write_documents(
        self, writes: Sequence[DocumentWrite], *, silently: bool = False
    ) -> None:
        """Write all documents or none. Raises `StaleDocument` if the stored version of a document
        is not its `expected_version`.

        With `silently`, tasks in `wait_for_change` are not woken.
        """
        ...

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        """Return documents whose keys begin with `prefix` and come after `after`, sorted by key."""
        ...


async def each_document(
    store: DocumentStore, collection: str, *, prefix: str = "", page: int = 500
) -> AsyncIterator[Document]:
    """Yield all documents of the collection whose keys begin with `prefix`, sorted by key. The
    documents are read in pages, so the result may or may not include changes that happen
    meanwhile."""
    after = ""
    while True:
        found = await store.list_documents(collection, prefix=prefix, after=after, limit=page)
        for document in found:
            yield document
        if len(found) < page:
            return
        after = found[-1].key


class QueueStore(Protocol):
    """Durable queues. Each message is delivered at least once, in order of priority and age."""

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        """Store all messages or none. Raises `QueueFull`. A message with `taken_by` is stored as
        already taken by this owner."""
        ...

    async def take_messages(
        self,
        queue: str,
        *,
        owner: str,
        lease_s: float,
        limit: int = 1,
        oldest_first: bool = False,
    ) -> Sequence[QueueMessage]:
        """Take the next open messages that are due and not leased. They are sorted by priority and
        age; with `oldest_first`, only by age. Messages whose `ttl_s` has passed become `expired`
        and are not returned."""
        ...

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        """Set the final state of all these messages, in one transaction."""
        ...

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        """Return messages with an `id` above `after`, sorted by `id`."""
        ...

    async def requeue_messages(self, keys: Collection[str]) -> int:
        """Make `dead` or `expired` messages open again, as if they were never delivered, and return
        their number.

        The messages no longer have a `ttl_s`. No session waits for these messages: their sessions
        were woken when the messages became `dead` or `expired`.
        """
        ...

    async def prune_messages(self, *, before_us: int, limit: int = 1000) -> int:
        """Remove messages that got their final state before `before_us`, including `dead` messages,
        and return their number."""
        ...

    async def ack_message(self, message: QueueMessage) -> bool:
        """Acknowledge the delivery: remove the message from its queue. Returns `False` if another
        owner has taken the message."""
        ...

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        """Put the message back into its queue for another delivery. Returns `False` if another
        owner has taken the message."""
        ...

    async def queue_depth(self, queue: str) -> int:
        """The number of open messages in the queue, including messages that an owner has taken."""
        ...


class SearchStore(Protocol):
    """Texts to search for. Each entry has a key in a namespace, which is called its space.

    The search for words ignores case. In scripts without blanks between words (Chinese, Japanese,
    Thai …) a word is found at any position. A search in a namespace without entries finds nothing.
    """

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        """Store all entries or none. An entry replaces the stored entry with the same space and
        key.

        Raises `UserError` for a body that is not JSON, and for an empty space or key. Also raises
        `UserError` for a vector without a model, with a wrong length for its model, or with a value
        that is not a finite number.
        """
        ...

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        """Store the vectors of these existing entries, and change nothing else.

        An entry is skipped if it was removed, or if its text has changed since it was read. Returns
        the keys of the entries that were not skipped, in order. Raises `UserError` in the same
        cases as `put_entries`.
        """
        ...

    async def find_entries(
        self,
        space: str,
        *,
        keys: Collection[str] | None = None,
        after: str = "",
        not_of_model: str | None = None,
        limit: int = 100,
    ) -> Sequence[SearchEntry]:
        """Return entries of the space whose keys come after `after`, sorted by key. With `keys`,
        return only entries with these keys. With `not_of_model`, return only entries that have no
        vector of this embedder."""
        ...

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        """Remove the entries with these keys, or all entries of the space, and return their
        number."""
        ...

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        """Return entries that contain words of the query, best match first. A query without words
        finds nothing. A query has no special syntax."""
        ...

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        """Return the entries whose vectors are most similar to `vector`, most similar first. Only
        vectors of the embedder `model` are compared."""
        ...


class QueueStarts:
    """Base class of stores that can start a write to a queue and return a future of its result at
    once.

    Concurrent writes may take effect in any order. If you cancel a future, its write is not undone.
    When a write has ended, `ended` is called in the event loop, even if the future was cancelled.
    The bus calls `start_put` instead of `put_messages`, and `start_settle` instead of
    `settle_messages`. So a subclass that overrides `put_messages` or `settle_messages` must also
    override `start_put` or `start_settle`.
    """

    def start_put(
        self, messages: Sequence[QueuePut], ended: Callable[[], None]
    ) -> asyncio.Future[Sequence[PutReceipt]]:
        """Start a write like `QueueStore.put_messages`, and return a future of its result."""
        raise NotImplementedError

    def start_settle(
        self, settles: Sequence[MessageSettle], ended: Callable[[], None]
    ) -> asyncio.Future[Sequence[Settled]]:
        """Start a write like `QueueStore.settle_messages`, and return a future of its result."""
        raise NotImplementedError


class Store(SessionStore, LeaseStore, Journal, DocumentStore, QueueStore, SearchStore, Protocol):
    """A store: all data that Ekiden keeps in one database. `async with` opens and closes the store.

    For example::

        async with open_store("desk.db") as store:
            page = await store.list(SessionFilter(status="ready"))
    """

    @property
    def url(self) -> str:
        """The address of the store without a password, to be shown to people."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes may use the same database. Leases must then be renewed."""
        ...

    async def open(self) -> None:
        """Connect to the database, and migrate its tables to the current format.

        If the store is already open, nothing happens. Raises `StoreTooNew`, `StoreTooOld`,
        `MigrationChanged`, `EngineTooOld`, `StoreUnavailable`, and `StoreUnfinished` if a copy into
        this store is incomplete. A closed store can be opened again. `Session` and `Runner` open
        their store themselves, even if it was closed before.
        """
        ...

    async def close(self) -> None:
        """Write pending data, and disconnect. A second call does nothing.

        Calls of `wait_for_change` return at once. Other calls in progress finish, or raise
        `StoreUnavailable`. Later calls raise `StoreUnavailable` until the store is opened again.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def write(self, batch: Batch) -> Written:
        """Write the whole batch in one transaction. If this is not possible, write nothing, and
        raise `StaleDocument`, `QueueFull`, `SessionExists` or `UserError`."""
        ...

    async def now_us(self) -> int:
        """Return the time of the store's clock, in microseconds since 1970.

        All processes see the same clock, so use it for deadlines. It does not jump when the wall
        clock of a machine is changed.
        """
        ...

    async def check_writable(self) -> None:
        """Commit a write that changes nothing, to check that writing is possible. Raises
        `StoreReadOnly` and `StoreUnavailable`."""
        ...

    async def info(self) -> Mapping[str, Any]:
        """Facts about the store, for the command `ekiden doctor`: `engine`, `version`, `format` and
        the counts `sessions` and `events`.

        A back end may add more facts. The call is fast even for a large store, because some counts
        are estimates. The entry `estimated` lists the names of the estimated counts.
        """
        ...
