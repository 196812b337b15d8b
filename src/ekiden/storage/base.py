"""The roles of a store: sessions with leases, their journal, documents and queues.

Rules that every back end keeps, and `ekiden.testing.store_contract.StoreContract` checks:

* A session is owned by at most one `Claim`. Claiming raises the session's epoch; every write of the
  owner says which epoch and owner it speaks for, and is refused with `LeaseLost` (and changes
  nothing) once the epoch moved on *or the lease ran out*. Lease time is the store's own clock.
* `commit` is one transaction: all of it is stored durably, or none.
* Events are numbered 1, 2, 3 … in a session by their writer; a number or a step key that is stored
  already is `StepConflict`.
* What is stored as JSON (`meta`, `cursor`, `variables`, results of steps, bodies of documents and
  messages, what an event carries) must be JSON: dicts with text as keys, lists, text, finite
  numbers, booleans, `None`. Anything else is `UserError`, which names it, before anything is
  stored. Only `MemoryStore` does not look into events, which it keeps as they are.
* A session that waits is woken by others: every wake raises its `wakes`; who suspends it says
  how many it has seen, so that no wake is lost between looking and suspending.
* A message stays open until it is settled, once: the first settlement counts.
* A database that cannot be reached is `StoreUnavailable`, never a foreign exception.
* A store opens with its first use. Once closed it refuses every call with `StoreUnavailable` until
  it is opened again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, Self

from ekiden.core.events import Event
from ekiden.storage.chain import EventDigest
from ekiden.storage.messages import (
    MESSAGES,
    MessageFilter,
    MessageSettle,
    MessageState,
    PutReceipt,
    QueueMessage,
    QueuePut,
    Settled,
    StoredMessage,
)
from ekiden.storage.records import (
    Batch,
    Claim,
    Commit,
    Document,
    DocumentWrite,
    EventFilter,
    EventPage,
    Loaded,
    NewSession,
    OwnJson,
    SessionFilter,
    SessionOpening,
    SessionPage,
    SessionPatch,
    SessionRow,
    SessionStatus,
    Written,
)
from ekiden.storage.search import SearchEntry, SearchHit, SearchStore

__all__ = [
    "MESSAGES",
    "Batch",
    "Claim",
    "Commit",
    "Document",
    "DocumentStore",
    "DocumentWrite",
    "EventFilter",
    "EventPage",
    "Journal",
    "LeaseStore",
    "Loaded",
    "MessageFilter",
    "MessageSettle",
    "MessageState",
    "NewSession",
    "OwnJson",
    "PutReceipt",
    "QueueMessage",
    "QueuePut",
    "QueueStore",
    "SearchEntry",
    "SearchHit",
    "SearchStore",
    "SessionFilter",
    "SessionOpening",
    "SessionPage",
    "SessionPatch",
    "SessionRow",
    "SessionStatus",
    "SessionStore",
    "Settled",
    "Store",
    "StoredMessage",
    "Written",
]


class SessionStore(Protocol):
    """Sessions as rows."""

    async def create(self, new: NewSession) -> None:
        """Store a new session; `SessionExists` if the id is taken."""
        ...

    async def get(self, session_id: str) -> SessionRow:
        """The row; `SessionNotFound` if there is none."""
        ...

    async def list(
        self, where: SessionFilter = SessionFilter(), *, limit: int = 50, cursor: str | None = None
    ) -> SessionPage:
        """One page, newest first by creation; a malformed cursor is `UserError`."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session with its events and steps; `SessionNotFound`, or `SessionBusy` while
        it has a live lease."""
        ...


class LeaseStore(Protocol):
    """Who may write to a session."""

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        """Claim the session: `SessionBusy` while any owner, even this one, has a live lease.

        With `create` a session that does not exist is made first, in the same transaction;
        without it that is `SessionNotFound`.
        """
        ...

    async def claim_next(
        self, *, owner: str, lease_s: float, agents: Collection[str] | None = None
    ) -> tuple[Claim, SessionRow] | None:
        """Take the `ready` session without a live lease that has waited longest, or `None`.

        With `agents`, only sessions that one of these agents has.
        """
        ...

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Extend the leases; gives back the claims that are lost."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give the session up; harmless if it was lost already."""
        ...

    async def wait_for_change(
        self, timeout_s: float, *, about: Collection[str] | None = None
    ) -> None:
        """Return soon after anybody changed anything, or after the time-out: a hint, never a
        promise; may return early.

        With `about`, changes of documents in these collections are enough, and with `MESSAGES`
        among them those of messages.
        """
        ...

    async def wait_for_ready(
        self, agents: Collection[str], timeout_s: float, *, has_room: Callable[[], bool]
    ) -> None:
        """Return when `claim_next` may find a session of these agents: one was released, or a
        lease expired. A hint, as `wait_for_change`.

        As many waiting processes are woken as there are sessions; processes for which `has_room`
        returns false are skipped. Only one task of a process may wait.
        """
        ...


class Journal(Protocol):
    """What happened in a session."""

    def commit(self, claim: Claim, commit: Commit) -> Awaitable[None]:
        """Store one step; `LeaseLost`, `StepConflict`, `StaleDocument`, `QueueFull`, and
        `UserError` for what is not JSON, change nothing."""
        ...

    async def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        with_items: bool = False,
    ) -> Sequence[Event]:
        """The events numbered above `after`, in order; empty if there is no such session.

        `with_items`: only those that carry items or take some back, which is all it takes to read a
        conversation.
        """
        ...

    async def digests(
        self, session_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[EventDigest]:
        """What is stored of the events numbered above `after`, as digests, in order.

        Empty if there is no such session, or if the store keeps nothing that could be changed
        behind its back.
        """
        ...

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        """One page of the events of all sessions, ordered by time, then by their session's
        creation, then by number; a malformed cursor or a limit below 1 is `UserError`.

        A page begins after the last event of the previous page, even if events were written or
        deleted meanwhile: no event is shown twice, and no event that existed all the time is
        missing.
        """
        ...

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        """The events of all sessions and of none, in the order in which they became visible.

        Begins after the event with the cursor `after`, or with the first one. A reader that
        continues from the cursor of its last event sees every event once: an event that is
        committed later never gets a place before an event that was shown. `next_cursor` is the
        cursor of the last event, or `after` without events. A malformed cursor or a limit below 1
        is `UserError`.
        """
        ...

    async def feed_end(self) -> str:
        """The cursor after the last event there is."""
        ...

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        """The remembered results whose key begins with `prefix`."""
        ...


class DocumentStore(Protocol):
    """Versioned JSON documents in named collections."""

    async def get_document(self, collection: str, key: str) -> Document | None:
        """The document, or `None`."""
        ...

    async def write_documents(
        self, writes: Sequence[DocumentWrite], *, silently: bool = False
    ) -> None:
        """All of them or none; `StaleDocument` if a version is not as expected.

        `silently`: do not wake tasks that wait for changes.
        """
        ...

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        """Documents by key, those above `after`."""
        ...


class QueueStore(Protocol):
    """Durable queues: at least once, in order of priority and age."""

    async def put_messages(self, messages: Sequence[QueuePut]) -> Sequence[PutReceipt]:
        """Store them, all or none; `QueueFull`. With `taken_by`, as taken already."""
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
        """The next open messages that are due and not leased; by priority and age, or by age alone.
        Messages whose `ttl_s` is over become `expired` and are not returned."""
        ...

    async def settle_messages(self, settles: Sequence[MessageSettle]) -> Sequence[Settled]:
        """Bring messages to their end, all in one transaction."""
        ...

    async def find_messages(
        self, where: MessageFilter = MessageFilter(), *, after: int = 0, limit: int = 100
    ) -> Sequence[StoredMessage]:
        """Messages by `id`, those above `after`."""
        ...

    async def requeue_messages(self, keys: Collection[str]) -> int:
        """Make `dead` or `expired` messages open again, as if never delivered; returns how many.

        They no longer have a `ttl_s`, and no session waits for them: their end was reported."""
        ...

    async def prune_messages(self, *, before_us: int, limit: int = 1000) -> int:
        """Remove messages settled before that microsecond (`dead` ones too); how many."""
        ...

    async def ack_message(self, message: QueueMessage) -> bool:
        """Remove it; `False` if another owner has it by now."""
        ...

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        """Put it back for another try; `False` as with `ack_message`."""
        ...

    async def queue_depth(self, queue: str) -> int:
        """How many open messages it holds, taken ones included."""
        ...


class Store(SessionStore, LeaseStore, Journal, DocumentStore, QueueStore, SearchStore, Protocol):
    """All parts of a store over one database, as one object; `async with` opens and closes it.

    For example::

        async with open_store("desk.db") as store:
            page = await store.list(SessionFilter(status="ready"))
    """

    @property
    def url(self) -> str:
        """Its address, for messages; without any password."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes may use the same database, so that leases must be renewed."""
        ...

    async def open(self) -> None:
        """Connect and migrate; a second call does nothing. `StoreTooNew`, `StoreTooOld`,
        `MigrationChanged`, `EngineTooOld`, `StoreUnavailable`, and `StoreUnfinished` for an
        incomplete copy.

        A store that was closed is usable again. `Session` and `Runner` open the store that they
        are given, so a run with a closed store opens it.
        """
        ...

    async def close(self) -> None:
        """Flush and disconnect; a second call does nothing.

        Calls that wait for a change return. A current call finishes or raises `StoreUnavailable`;
        every later one raises `StoreUnavailable` until the store is opened again.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def write(self, batch: Batch) -> Written:
        """Write the whole batch, or raise `StaleDocument`, `QueueFull`, `SessionExists` or
        `UserError`."""
        ...

    async def now_us(self) -> int:
        """Microseconds since 1970 on the store's own clock, for deadlines: it is the same for all
        processes and does not jump with a process's wall clock."""
        ...

    async def check_writable(self) -> None:
        """Write something without effect, as durably as a commit: `StoreReadOnly`,
        `StoreUnavailable`."""
        ...

    async def info(self) -> Mapping[str, Any]:
        """`engine`, `version`, `format` and the counts `sessions` and `events`, for `ekiden
        doctor`; a back end may add more. The time does not depend on the store's size: `estimated`
        names the counts that are estimates."""
        ...
