"""The values that stores keep and return: sessions, claims, commits, documents, messages, events.

Workers take ready sessions in the order of the time at which they became ready, minus the head
start of their priority. Important sessions go first, but none starves: a session can be overtaken
only by sessions that became ready at most the difference of the head starts later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass, maker
from ekiden.core.errors import UserError
from ekiden.core.events import Event, EventType
from ekiden.core.values import priority_number

SessionStatus: TypeAlias = Literal["idle", "ready", "waiting"]
"""`idle`: has no work until the next message; `ready`: has work; `waiting`: waits for the answer of
a person or an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """The values of a session to be created."""

    id: str
    agent: str
    """The agent that has the conversation."""
    status: SessionStatus = "idle"
    user_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Fixed facts about the session: title, correlation id, labels."""
    priority: int = 2
    """1 (low), 2 (normal), 3 (high) or 4 (urgent): the head start among ready sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The contents of a session that a store returns with a new claim."""

    events: Sequence[Event]
    """All events of the session."""
    steps: Mapping[str, Any]
    """The stored results of all steps, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session as it is stored."""

    id: str
    agent: str
    status: SessionStatus
    outcome: str | None
    """The kind of the last run's outcome; `None` before the first run and during a run."""
    user_id: str | None
    meta: Mapping[str, Any]
    cursor: Mapping[str, Any]
    """The position of the run, which only the runtime reads."""
    variables: Mapping[str, Any]
    """Values that agents stored with `ctx.set`."""
    seq: int
    """The number of the last event."""
    epoch: int
    owner: str | None
    """The owner of the lease; `None` when free or expired."""
    created_at_us: int
    updated_at_us: int
    wakes: int = 0
    """How often the session was woken."""
    priority: int = 2
    loaded: Loaded | None = field(default=None, compare=False, repr=False)
    """For the owner of a new claim, if the store has read it anyway; `None`: the owner reads it."""


def is_copied(row: SessionRow, event: Event) -> bool:
    """Whether the event was copied from the session that this one was forked from.

    ``forked_at`` is the number of the last copied event, or of the message that the fork replaced;
    the replacement is younger than the fork.
    """
    last = row.meta.get("forked_at") if "forked_from" in row.meta else None
    if not isinstance(last, int) or event.seq > last:
        return False
    return event.seq < last or event.at_us < row.created_at_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write to one session."""

    session_id: str
    owner: str
    epoch: int
    lease_s: float
    key: Any = None
    """The back end's handle to the row."""


class OwnJson(dict[str, Any]):
    """JSON that its writer never changes again, at any depth.

    A store in memory may keep it without copying or checking it.
    """

    __slots__ = ()


@dataclass(slots=True, kw_only=True)  # Creating a frozen one takes three times as long.
class SessionPatch:
    """The changes of a session's row in a commit; `None` leaves a field as it is."""

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
    """`None`: any version; 0: must not exist; n: must have version n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A JSON document with its version (1, 2, 3 …)."""

    collection: str
    key: str
    body: Any
    version: int
    updated_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpening:
    """A session that is created within another write, with its first events."""

    new: NewSession
    """If the id is taken, `SessionExists` is raised and nothing is written."""
    events: Sequence[Event] = ()
    """The first events, numbered from 1."""
    cursor: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)  # Not frozen: see `SessionPatch`.
class Commit:
    """One step of a session, written as one transaction."""

    patch: SessionPatch
    events: Sequence[Event] = ()
    """New events, numbered from the row's `seq` + 1."""
    steps: Mapping[str, Any] = field(default_factory=dict)
    """Results of steps to be stored, by key; JSON."""
    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    settles: Sequence[MessageSettle] = ()
    openings: Sequence[SessionOpening] = ()
    wakes: Sequence[str] = ()
    """The ids of other sessions to wake; ids of missing sessions are ignored."""
    seen_wakes: int | None = None
    """With the status `waiting`: if the row's `wakes` differ, the session becomes `ready` instead,
    because it was woken since the run read them."""
    release: bool = False
    """Release the claim in the same transaction; otherwise the lease is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes of a process that owns no session, as one transaction.

    They are written in the order of the fields: a batch can settle the messages that it puts, and
    wake the sessions that it opens.
    """

    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    settles: Sequence[MessageSettle] = ()
    openings: Sequence[SessionOpening] = ()
    wakes: Sequence[str] = ()
    events: Sequence[Event] = ()
    """Events outside sessions: `Event.session_id` is empty, and the store sets `seq`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The results of a batch, in the order of its parts."""

    receipts: Sequence[PutReceipt] = ()
    settled: Sequence[Settled] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """A filter of sessions; `None` matches all."""

    status: SessionStatus | None = None
    agent: str | None = None
    user_id: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A page of sessions, the newest first."""

    sessions: Sequence[SessionRow]
    next_cursor: str | None
    """The cursor of the next page; `None` after the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of events, and their order; `None` matches all."""

    types: Collection[EventType] | None = None
    """The types in `AUDITED` have an index; a search for other types reads all events."""
    session_id: str | None = None
    since_us: int | None = None
    """The earliest time, inclusive, in microseconds since 1970."""
    until_us: int | None = None
    """The latest time, exclusive, in microseconds since 1970."""
    newest_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """A page of events of any sessions."""

    events: Sequence[Event]
    cursors: Sequence[str]
    """For each event the cursor of a page that begins after it."""
    next_cursor: str | None
    """The cursor of the next page; `None` after the last page."""


NORMAL = 2
"""The default priority."""

HEAD_START_S: Mapping[int, int] = MappingProxyType({1: -60, 2: 0, 3: 60, 4: 600})
"""The head start in the queue by priority: low (1), normal (2), high (3), urgent (4)."""


def check_priority(new: NewSession) -> int:
    """The priority of a new session; `UserError` if it is not 1 to 4."""
    if isinstance(new.priority, str):
        raise UserError(f"a stored priority is a number, 1 to 4, not {new.priority!r:.40}")
    return priority_number(new.priority)


def head_start_sql(priority: str) -> str:
    """The head start in seconds, as SQL; `priority` is a column or a parameter."""
    cases = " ".join(f"when {number} then {start}" for number, start in HEAD_START_S.items())
    return f"case {priority} {cases} else 0 end"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """A text to search for, stored under a key in a space.

    For example::

        await store.put_entries([SearchEntry(space="menu", key="1", text="Café au lait")])
        [hit] = await store.search_text("menu", "cafe")
        print(hit.entry.key, hit.score)
    """

    space: str
    """The space of the entry. Each search covers only one space."""
    key: str
    text: str
    body: Any = None
    """Further data of the entry, as JSON."""
    vector: Sequence[float] | None = None
    """The embedding of the text; its Euclidean length is 1."""
    model: str = ""
    """The embedder that computed the vector. Vectors of different embedders are never compared."""
    updated_at_us: int = 0
    """The time of the last change, in microseconds since 1970. The store sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A search result."""

    entry: SearchEntry
    """The entry, without its vector."""
    score: float
    """The similarity, from 0 to 1. In a search by words, it is the share of the query's words that
    occur in the text, where words that are rare in the space count more. In a search by meaning, it
    is the cosine of the vectors, or 0 if the cosine is negative."""


EXECUTIONS = "collaborations.execution"
"""The collection with a document for each agreement to execute: its owner and the owner's lease."""
MESSAGES = "queued messages"
"""The topic of changes of messages, for `LeaseStore.wait_for_change`."""

MessageState: TypeAlias = Literal[
    "open", "answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"
]
"""`open`: queued or leased; `answered`, `failed`: settled with an answer or an error;
`timed_out`, `cancelled`: the sender no longer waits; `late`: answered after that;
`expired`: its `ttl_s` passed before it was taken; `dead`: given up after too many deliveries."""


@dataclass(slots=True, kw_only=True)
class QueuePut:
    """A message to be stored in a queue.

    Treat it, and the other values that are made for every message, as read-only. They are not
    frozen, because creating frozen values would take longer than storing them.
    """

    queue: str
    body: Any
    priority: int = 0
    """Higher is taken first; first in, first out within one priority."""
    delay_s: float = 0.0
    dedup_key: str | None = None
    """A second message with this key in the queue is dropped until the first, taken or not, is
    acknowledged or settled."""
    bound: int | None = None
    """Raise `QueueFull` if the queue already has this many open messages."""
    key: str | None = None
    """A unique name of the message. A second message with this name, in any queue, is dropped while
    the first one is stored, in any state."""
    waiter: str | None = None
    """The waiting session or agent: its name in the graph of waits."""
    session_id: str | None = None
    """The session to wake when the message is settled or expires."""
    ttl_s: float | None = None
    """A message that was not taken in this time becomes `expired`."""
    taken_by: str | None = None
    """Store the message as already delivered to this owner, with a lease of `lease_s`."""
    lease_s: float = 30.0


new_put = maker(QueuePut)
"""`QueuePut`, in half the time."""


@dataclass(slots=True, kw_only=True)
class PutReceipt:
    """The result of putting a message; read-only."""

    id: int
    """The id of the message, or of the stored message with the same `key`; 0 for a duplicate of a
    `dedup_key`."""
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """A delivery of a message: the owner has it until it is acknowledged, released or settled, or
    the lease expires."""

    id: int
    queue: str
    body: Any
    priority: int
    attempts: int
    """1 on the first delivery; more means redelivered."""
    owner: str
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message as it is stored, in any state."""

    id: int
    queue: str
    key: str | None
    body: Any
    priority: int
    attempts: int
    owner: str | None
    """The owner, or the last owner."""
    state: MessageState
    waiter: str | None
    session_id: str | None
    answer: Any
    """The answer; `None` if the message was settled without one, or is open."""
    created_at_us: int
    settled_at_us: int | None


@dataclass(slots=True, kw_only=True)
class MessageSettle:
    """The final state of a message; read-only.

    For an open message, the state and the answer are stored, and its session is woken. `answered`
    or `failed` for a `timed_out` or `cancelled` message stores the answer as `late` and wakes no
    session. Everything else changes nothing.
    """

    key: str
    state: MessageState
    answer: Any = None
    by: QueueMessage | None = None
    """If given, settle the message only if this is its last delivery."""
    forget: bool = False
    """Remove the message in any state instead of keeping it. Its session is not woken, and `state`
    is ignored. For callers that have stored the answer elsewhere."""


new_settle = maker(MessageSettle)
"""`MessageSettle`, in half the time."""

Settled: TypeAlias = Literal["settled", "late", "no"]
"""The result of a `MessageSettle`; the result of `forget` is `settled` if the message existed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter of messages; `None` matches all."""

    keys: Collection[str] | None = None
    queue: str | None = None
    queues: Collection[str] | None = None
    states: Collection[MessageState] | None = None
    waiters: Collection[str] | None = None
    waited_for: bool = False
    """Only messages with a waiting session."""
    session_id: str | None = None
