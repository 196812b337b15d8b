"""The roles of a store: sessions with leases, their journal, documents and queues.

Rules that every back end keeps, and `ekiden.testing.StoreContract` checks:

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
* A database that cannot be reached is `StoreUnavailable`, never a foreign exception.
* A store opens with its first use. Once closed it refuses every call with `StoreUnavailable` until
  it is opened again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeAlias

from ekiden.core.events import Event, EventType

SessionStatus: TypeAlias = Literal["idle", "ready", "waiting"]
"""`idle`: nothing to do until somebody writes; `ready`: has work; `waiting`: for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a session is created with."""

    id: str
    agent: str
    """The agent that has the conversation."""
    status: SessionStatus = "idle"
    user_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Fixed facts about the session: title, correlation id, labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session as it is stored."""

    id: str
    agent: str
    status: SessionStatus
    outcome: str | None
    """The kind of the last run's outcome; `None` before the first and while one is under way."""
    user_id: str | None
    meta: Mapping[str, Any]
    cursor: Mapping[str, Any]
    """Where the run stands: the runtime's own, opaque to the store."""
    variables: Mapping[str, Any]
    """What agents remembered with `ctx.set`."""
    seq: int
    """The number of the last event."""
    epoch: int
    owner: str | None
    """Who has the lease; `None` when free or expired."""
    created_at_us: int
    updated_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write to one session."""

    session_id: str
    owner: str
    epoch: int
    lease_s: float
    key: Any = None
    """The back end's own handle to the row."""


class OwnJson(dict[str, Any]):
    """JSON that its writer hands over for good: nobody changes it, or anything in it, afterwards.

    A store in memory may then keep it without looking into it.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPatch:
    """The session's row after a commit; a field that is `None` stays as it is."""

    agent: str | None = None
    status: SessionStatus | None = None
    outcome: str | None = None
    """`""` clears it."""
    cursor: Mapping[str, Any] | None = None
    variables: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWrite:
    """Put (`body`) or delete (`body=None`) one document."""

    collection: str
    key: str
    body: Any | None
    expected_version: int | None = None
    """`None`: whatever is there; 0: must not exist; n: must have version n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON document with its version (1, 2, 3 …)."""

    collection: str
    key: str
    body: Any
    version: int
    updated_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePut:
    """A message to be stored in a queue."""

    queue: str
    body: Any
    priority: int = 0
    """Higher is taken first; first in, first out within one priority."""
    delay_s: float = 0.0
    dedup_key: str | None = None
    """A second message with this key in the queue, taken or not, is dropped until the first is
    acknowledged."""
    bound: int | None = None
    """Refuse with `QueueFull` if the queue holds this many already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """A message as it was taken: it is the taker's until acknowledged, released, or expired."""

    id: int
    queue: str
    body: Any
    priority: int
    attempts: int
    """1 on the first delivery; more means redelivered."""
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step of a session, written as one transaction."""

    patch: SessionPatch
    events: Sequence[Event] = ()
    """Numbered on from the row's `seq`."""
    steps: Mapping[str, Any] = field(default_factory=dict)
    """Results to remember, by key; JSON."""
    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    release: bool = False
    """Give the claim up in the same transaction; otherwise the lease is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list; `None` does not restrict."""

    status: SessionStatus | None = None
    agent: str | None = None
    user_id: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Some sessions, newest first, and how to get the next ones."""

    sessions: Sequence[SessionRow]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to find, and in which order; `None` does not restrict."""

    types: Collection[EventType] | None = None
    """Of the types in `AUDITED` there is an index; to find others, all events are looked at."""
    session_id: str | None = None
    since_us: int | None = None
    """Those of this microsecond and later."""
    until_us: int | None = None
    """Those before this microsecond."""
    newest_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Some events of any sessions, and how to get the next ones."""

    events: Sequence[Event]
    cursors: Sequence[str]
    """For each event the cursor of a page that begins after it."""
    next_cursor: str | None


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
        somebody has a live lease on it."""
        ...


class LeaseStore(Protocol):
    """Who may write to a session."""

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        """Take the session: `SessionBusy` while somebody (this owner too) has a live lease.

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

    async def wait_for_change(self, timeout_s: float) -> None:
        """Return soon after anybody changed anything, or after the time-out: a hint, never a
        promise; may return early."""
        ...


class Journal(Protocol):
    """What happened in a session."""

    async def commit(self, claim: Claim, commit: Commit) -> None:
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

    async def find_events(
        self, where: EventFilter = EventFilter(), *, limit: int = 100, cursor: str | None = None
    ) -> EventPage:
        """One page of the events of all sessions, ordered by time, then by their session's
        creation, then by number; a malformed cursor or a limit below 1 is `UserError`.

        A page begins after the last event of the page before, whatever was written or deleted
        meanwhile: no event is shown twice, and none is left out that was there all the time.
        """
        ...

    async def steps(self, session_id: str, *, prefix: str = "") -> Mapping[str, Any]:
        """The remembered results whose key begins with `prefix`."""
        ...


class DocumentStore(Protocol):
    """Versioned JSON documents in named collections."""

    async def get_document(self, collection: str, key: str) -> Document | None:
        """The document, or `None`."""
        ...

    async def write_documents(self, writes: Sequence[DocumentWrite]) -> None:
        """All of them or none; `StaleDocument` if a version is not as expected."""
        ...

    async def list_documents(
        self, collection: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Document]:
        """Documents by key, those above `after`."""
        ...


class QueueStore(Protocol):
    """Durable queues: at least once, in order of priority and age."""

    async def put_messages(self, messages: Sequence[QueuePut]) -> None:
        """Store them, all or none; `QueueFull`."""
        ...

    async def take_messages(
        self, queue: str, *, owner: str, lease_s: float, limit: int = 1
    ) -> Sequence[QueueMessage]:
        """The next ones that are due and not with somebody else."""
        ...

    async def ack_message(self, message: QueueMessage) -> bool:
        """Remove it; `False` if it was given to somebody else in the meantime."""
        ...

    async def release_message(self, message: QueueMessage, *, delay_s: float = 0.0) -> bool:
        """Put it back for another try; `False` as with `ack_message`."""
        ...

    async def queue_depth(self, queue: str) -> int:
        """How many messages it holds, taken ones included."""
        ...


class Store(SessionStore, LeaseStore, Journal, DocumentStore, QueueStore, Protocol):
    """All roles over one database, as one object; `async with` opens and closes it.

    For example::

        async with open_store("desk.db") as store:
            page = await store.list(SessionFilter(status="ready"))
    """

    @property
    def url(self) -> str:
        """Where it is, for messages; without any password."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes may use the same database, so that leases must be renewed."""
        ...

    async def open(self) -> None:
        """Connect and migrate; a second call does nothing. `StoreTooNew`, `MigrationChanged`,
        `EngineTooOld`, `StoreUnavailable`.

        A store that was closed is usable again. `Session` and `Runner` open the store that they
        are given, so a run with a closed store opens it.
        """
        ...

    async def close(self) -> None:
        """Flush and disconnect; a second call does nothing.

        Those who wait for a change return. A call under way comes to its end or is
        `StoreUnavailable`; every later one is `StoreUnavailable` until the store is opened again.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def info(self) -> Mapping[str, Any]:
        """`engine`, `version`, `format` and the counts `sessions` and `events`, for
        `ekiden doctor`; a back end may tell more."""
        ...
