"""The values that stores keep and return: sessions, claims, commits, documents, messages, events.

Workers take ready sessions in the order of the time at which they became ready, minus the head
start of their priority. So important sessions go first, but no session starves. A session can
overtake a session of lower priority only if that session became ready earlier by less than the
difference of the two head starts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from ekiden.core.dataclass import dataclass, maker
from ekiden.core.errors import UserError
from ekiden.core.events import Event, EventType
from ekiden.core.values import priority_number

SessionStatus: TypeAlias = Literal["idle", "ready", "waiting"]
"""`idle`: the session has no work until the next message. `ready`: the session has work. `waiting`:
the session waits for the answer of a person or an agent."""

USUAL_CONCLUSION: Final = "succeeded"
"""The conclusion of most sessions. The index of conclusions is without it, so that the end of a
usual run writes to no index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """The values of a new session."""

    id: str
    agent: str
    """The name of the session's active agent."""
    status: SessionStatus = "idle"
    user_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Fixed facts about the session: title, correlation id, labels."""
    priority: int = 2
    """The priority: 1 (low), 2 (normal), 3 (high) or 4 (urgent). A `ready` session with a higher
    priority is claimed earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The contents of a session that a store returns when a process claims the session."""

    events: Sequence[Event]
    """All events of the session."""
    steps: Mapping[str, Any]
    """The stored results of all steps, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """The stored values of a session."""

    id: str
    agent: str
    status: SessionStatus
    outcome: str | None
    """The kind of the last run's outcome, such as ``done``. `None` before the first run, and during
    a run."""
    conclusion: str | None
    """How well the last run ended, such as ``with_errors``. `None` before the end of the first run,
    and during a run. Runs of earlier versions that are done have none."""
    user_id: str | None
    meta: Mapping[str, Any]
    cursor: Mapping[str, Any]
    """The position at which the session's run continues, in a form that only the runtime reads."""
    variables: Mapping[str, Any]
    """Values that agents stored with `ctx.set`."""
    seq: int
    """The number of the last event."""
    epoch: int
    owner: str | None
    """The process that owns the lease; `None` if the session has no lease or the lease has
    expired."""
    created_at_us: int
    updated_at_us: int
    wakes: int = 0
    """How many times the session was woken."""
    priority: int = 2
    loaded: Loaded | None = field(default=None, compare=False, repr=False)
    """The contents of the session, if the store has read them with the claim. If `None`, the
    process that claimed the session reads the contents itself."""


new_row = maker(SessionRow)
"""Creates a `SessionRow` in a third of the time of the constructor."""


def is_copied(row: SessionRow, event: Event) -> bool:
    """Whether the event of a fork was copied from the original session.

    ``forked_at`` in the metadata is the number of the last copied event. If the fork replaced a
    message, ``forked_at`` is the number of that message. The new message has the same number, but
    was created after the fork.
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
    """A value with which the back end finds the row of the session. Only the back end reads it."""


class OwnJson(dict[str, Any]):
    """A JSON value that the code that created it never changes again, including all values inside
    it.

    A store in memory may keep this value without copying or checking it.
    """

    __slots__ = ()


@dataclass(slots=True, kw_only=True)  # Creating a frozen one takes three times as long.
class SessionPatch:
    """The changes of a session's row in a commit. `None` in a field keeps the stored value."""

    agent: str | None = None
    status: SessionStatus | None = None
    outcome: str | None = None
    """The new outcome. An empty text removes the outcome."""
    conclusion: str | None = None
    """The new conclusion. It is stored if `outcome` is given; `None` then removes it."""
    cursor: Mapping[str, Any] | None = None
    variables: Mapping[str, Any] | None = None


new_patch = maker(SessionPatch)
"""Creates a `SessionPatch` in half the time of the constructor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWrite:
    """Put (`body`) or delete (`body=None`) one document."""

    collection: str
    key: str
    body: Any | None
    expected_version: int | None = None
    """The expected version of the stored document. `None` accepts any version. 0 means that the
    document must not exist."""


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
    """The values of the new session. If a session with this id exists, the write raises
    `SessionExists`, and nothing is written."""
    events: Sequence[Event] = ()
    """The first events, numbered from 1."""
    cursor: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)  # Not frozen: see `SessionPatch`.
class Commit:
    """The changes that one step of a run makes to its session. They are written as one
    transaction."""

    patch: SessionPatch
    events: Sequence[Event] = ()
    """The new events. The number of the first is the `seq` of the session's row + 1."""
    steps: Mapping[str, Any] = field(default_factory=dict)
    """New results of steps, such as model calls and tool calls, by step key, as JSON."""
    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    settles: Sequence[MessageSettle] = ()
    openings: Sequence[SessionOpening] = ()
    wakes: Sequence[str] = ()
    """The ids of other sessions to wake. Ids of missing sessions are ignored."""
    seen_wakes: int | None = None
    """The value of `SessionRow.wakes` that the run has read. If the new status is `waiting` and the
    row has another value, the session was woken meanwhile, so it becomes `ready` instead."""
    release: bool = False
    """Whether the claim on the session is released in the same transaction. If false, the lease is
    renewed."""


new_commit = maker(Commit)
"""Creates a `Commit` in half the time of the constructor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes of a process that owns no session, as one transaction.

    The writes are made in the order of the fields, so a batch can settle the messages that it puts,
    and wake the sessions that it opens.
    """

    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    settles: Sequence[MessageSettle] = ()
    openings: Sequence[SessionOpening] = ()
    wakes: Sequence[str] = ()
    events: Sequence[Event] = ()
    """Events without a session. Their `session_id` is empty, and the store sets their `seq`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The results of a `Batch`: one receipt for each of its `messages`, and one result for each of
    its `settles`, in order."""

    receipts: Sequence[PutReceipt] = ()
    settled: Sequence[Settled] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """A filter of sessions. `None` in a field matches all sessions."""

    status: SessionStatus | None = None
    agent: str | None = None
    user_id: str | None = None
    outcome: str | None = None
    conclusion: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A page of sessions, newest first."""

    sessions: Sequence[SessionRow]
    next_cursor: str | None
    """The cursor of the next page; `None` after the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of events, and the order of the result. `None` in a field matches all events."""

    types: Collection[EventType] | None = None
    """The types of the events. The types in `AUDITED` have an index. A search for other types reads
    all events."""
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
    """For each event, the cursor of a page that begins after this event."""
    next_cursor: str | None
    """The cursor of the next page; `None` after the last page."""


NORMAL = 2
"""The default priority."""

HEAD_START_S: Mapping[int, int] = MappingProxyType({1: -60, 2: 0, 3: 60, 4: 600})
"""The head start of ready sessions in seconds, by priority: low (1), normal (2), high (3), urgent
(4)."""


def check_priority(new: NewSession) -> int:
    """Return the priority of a new session. Raises `UserError` if it is not 1 to 4."""
    if isinstance(new.priority, str):
        raise UserError(f"a stored priority must be a number from 1 to 4, not {new.priority!r:.40}")
    return priority_number(new.priority)


def head_start_sql(priority: str) -> str:
    """Return an SQL expression for the head start, in seconds. `priority` is a column or a
    parameter."""
    cases = " ".join(f"when {number} then {start}" for number, start in HEAD_START_S.items())
    return f"case {priority} {cases} else 0 end"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """A text to search for, stored under a key in a namespace (its space).

    For example::

        await store.put_entries([SearchEntry(space="menu", key="1", text="Café au lait")])
        [hit] = await store.search_text("menu", "cafe")
        print(hit.entry.key, hit.score)
    """

    space: str
    """The namespace of the entry. Each search covers only one namespace."""
    key: str
    text: str
    body: Any = None
    """Further data of the entry, as JSON."""
    vector: Sequence[float] | None = None
    """The embedding of the text. Its Euclidean length is 1."""
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
    """The similarity, from 0 to 1. In a search by words, the score is the share of the query's
    words that occur in the text; words that are rare in the namespace count more. In a search by
    meaning, the score is the cosine of the vectors, or 0 if the cosine is negative."""


EXECUTIONS = "collaborations.execution"
"""The collection with a document for each agreement to execute: its owner and the owner's lease."""
MESSAGES = "queued messages"
"""A value for the argument `about` of `LeaseStore.wait_for_change`, which stands for changes of
messages."""

MessageState: TypeAlias = Literal[
    "open", "answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"
]
"""The state of a message. `open`: it is queued or leased. `answered`, `failed`: it was settled with
an answer or an error. `timed_out`, `cancelled`: the sender no longer waits. `late`: it was answered
after the sender stopped waiting. `expired`: its `ttl_s` passed before it was taken. `dead`: it had
too many deliveries and is not delivered again."""


@dataclass(slots=True, kw_only=True)
class QueuePut:
    """A new message for a queue.

    Do not change this object. The classes of messages are not frozen, because it would take longer
    to create a frozen value than to store it.
    """

    queue: str
    body: Any
    priority: int = 0
    """The priority. Messages with a higher priority are taken first. Messages with the same
    priority are taken in the order in which they were stored."""
    delay_s: float = 0.0
    dedup_key: str | None = None
    """If the queue already has an open message with this key, the new message is dropped."""
    bound: int | None = None
    """Raise `QueueFull` if the queue already has this many open messages."""
    key: str | None = None
    """A unique name of the message. If a message with this name is stored in any queue, in any
    state, the new message is dropped."""
    waiter: str | None = None
    """The session or agent that waits for the answer, as the name of its node in the wait-for
    graph."""
    session_id: str | None = None
    """The session to wake when the message is settled or expires."""
    ttl_s: float | None = None
    """A message that is not taken within this many seconds becomes `expired`."""
    taken_by: str | None = None
    """If set, the message is stored as already delivered to this owner, with a lease of `lease_s`
    seconds."""
    lease_s: float = 30.0


new_put = maker(QueuePut)
"""Creates a `QueuePut` in half the time of the constructor."""


@dataclass(slots=True, kw_only=True)
class PutReceipt:
    """The result of storing a message. Do not change this object."""

    id: int
    """The id of the new message. If a message with the same `key` was already stored, the id of
    that message. 0 if the new message was dropped because of its `dedup_key`."""
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """A delivery of a message. The owner has the message until the message is acknowledged,
    released or settled, or until the lease expires."""

    id: int
    queue: str
    body: Any
    priority: int
    attempts: int
    """The number of deliveries of the message, including this one."""
    owner: str
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A stored message in any state."""

    id: int
    queue: str
    key: str | None
    body: Any
    priority: int
    attempts: int
    owner: str | None
    """The process that has the message now, or had it last."""
    state: MessageState
    waiter: str | None
    session_id: str | None
    answer: Any
    """The answer; `None` if the message is open or was settled without an answer."""
    created_at_us: int
    settled_at_us: int | None


@dataclass(slots=True, kw_only=True)
class MessageSettle:
    """A write that gives a message its final state. Do not change this object.

    If the message is open, the state and the answer are stored, and the session that waits for the
    message is woken. If the message is already `timed_out` or `cancelled`, an answer or failure is
    stored with the state `late`, and no session is woken. A message in another state is not
    changed.
    """

    key: str
    state: MessageState
    answer: Any = None
    by: QueueMessage | None = None
    """The delivery that is answered. If it is given, and the message was delivered again since
    then, the message is not settled."""
    forget: bool = False
    """Remove the message in any state instead of keeping it. Its session is not woken, and `state`
    is ignored. Use this if the answer is stored elsewhere."""


Settled: TypeAlias = Literal["settled", "late", "no"]
"""The result of a `MessageSettle`. With `forget`, the result is `settled` if the message
existed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter of messages. `None` in a field matches all messages."""

    keys: Collection[str] | None = None
    queue: str | None = None
    queues: Collection[str] | None = None
    states: Collection[MessageState] | None = None
    waiters: Collection[str] | None = None
    waited_for: bool = False
    """If true, only messages with a waiting session match."""
    session_id: str | None = None
