"""What stores keep and return: sessions, claims, commits, documents, messages, pages of events.

Workers take ready sessions in the order of the time at which they became ready, less the head start
of their priority. Important sessions go first, but none starves: a session is overtaken only by
sessions that became ready at most the difference of the head starts later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.events import Event, EventType
from ekiden.core.values import priority_number

SessionStatus: TypeAlias = Literal["idle", "ready", "waiting"]
"""`idle`: no work until the next message; `ready`: has work; `waiting`: for the answer of a person
or an agent."""


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
    priority: int = 2
    """1 (low), 2 (normal), 3 (high) or 4 (urgent): the head start among ready sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The contents of a session that came along with its claim."""

    events: Sequence[Event]
    """All."""
    steps: Mapping[str, Any]
    """All remembered results, by key."""


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
    """The owner of the lease; `None` when free or expired."""
    created_at_us: int
    updated_at_us: int
    wakes: int = 0
    """How often it was woken."""
    priority: int = 2
    loaded: Loaded | None = field(default=None, compare=False, repr=False)
    """For the owner of a new claim, if the store has it at hand; otherwise it must be read."""


def is_copied(row: SessionRow, event: Event) -> bool:
    """Whether the event happened in the session that this one branched off.

    ``forked_at`` is the last event that was copied, or the message in whose place the branch says
    something else: that one is younger than the branch.
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
    """The back end's own handle to the row."""


class OwnJson(dict[str, Any]):
    """JSON that its writer never changes again, nor anything in it.

    A store in memory may then keep it without looking into it.
    """

    __slots__ = ()


@dataclass(slots=True, kw_only=True)  # A frozen one takes three times as long to make.
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
    """A session that is made together with something else, with its first events."""

    new: NewSession
    """`SessionExists` if the id is taken; then nothing is written."""
    events: Sequence[Event] = ()
    """Numbered from 1."""
    cursor: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)  # As above.
class Commit:
    """One step of a session, written as one transaction."""

    patch: SessionPatch
    events: Sequence[Event] = ()
    """Numbered on from the row's `seq`."""
    steps: Mapping[str, Any] = field(default_factory=dict)
    """Results to remember, by key; JSON."""
    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    settles: Sequence[MessageSettle] = ()
    openings: Sequence[SessionOpening] = ()
    wakes: Sequence[str] = ()
    """Other sessions to wake; one that does not exist is left out."""
    seen_wakes: int | None = None
    """With the status `waiting`: if the row's `wakes` differ, the session stays `ready` instead."""
    release: bool = False
    """Give the claim up in the same transaction; otherwise the lease is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes that belong to no session that the writer owns, as one transaction.

    They are made in the order of the fields: what a batch puts it can settle, and what it opens it
    can wake.
    """

    documents: Sequence[DocumentWrite] = ()
    messages: Sequence[QueuePut] = ()
    settles: Sequence[MessageSettle] = ()
    openings: Sequence[SessionOpening] = ()
    wakes: Sequence[str] = ()
    events: Sequence[Event] = ()
    """Of no session: `Event.session_id` is empty, and `seq` is given by the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The results of a batch, in the order of its parts."""

    receipts: Sequence[PutReceipt] = ()
    settled: Sequence[Settled] = ()


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


NORMAL = 2

HEAD_START_S: Mapping[int, int] = MappingProxyType({1: -60, 2: 0, 3: 60, 4: 600})
"""By priority: low (1), normal (2), high (3), urgent (4)."""


def check_priority(new: NewSession) -> int:
    """The priority of a new session; `UserError` if it is none."""
    if isinstance(new.priority, str):
        raise UserError(f"a stored priority is a number, 1 to 4, not {new.priority!r:.40}")
    return priority_number(new.priority)


def head_start_sql(priority: str) -> str:
    """Its head start in seconds, as SQL; `priority` is a column or a parameter."""
    cases = " ".join(f"when {number} then {start}" for number, start in HEAD_START_S.items())
    return f"case {priority} {cases} else 0 end"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """A text with its key, in one space.

    For example::

        await store.put_entries([SearchEntry(space="menu", key="1", text="Café au lait")])
        [hit] = await store.search_text("menu", "cafe")
        print(hit.entry.key, hit.score)
    """

    space: str
    """The space of the entry. Every call names one space, and searches only there."""
    key: str
    text: str
    body: Any = None
    """The JSON of the entry."""
    vector: Sequence[float] | None = None
    """The embedding of the text; its Euclidean length is 1."""
    model: str = ""
    """The embedder of the vector: vectors of two embedders are never compared."""
    updated_at_us: int = 0
    """The time of the last change, in microseconds since 1970. The store sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A search result."""

    entry: SearchEntry
    """The entry, without its vector."""
    score: float
    """The similarity, from 0 to 1. In a search by words, it is the share of the query's words in
    the text, weighted by rarity in the space. In a search by meaning, it is the cosine, or 0 if the
    cosine is negative."""


EXECUTIONS = "collaborations.execution"
"""The collection with a document for each agreement to execute: who does so, and until when."""
MESSAGES = "queued messages"
"""What changes of messages are about; see `LeaseStore.wait_for_change`."""

MessageState: TypeAlias = Literal[
    "open", "answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"
]
"""`open`: queued or leased; `answered`, `failed`: settled with an answer or an error;
`timed_out`, `cancelled`: the sender no longer waits; `late`: answered after that;
`expired`: its time was over before it was taken; `dead`: given up after too many tries."""


@dataclass(slots=True, kw_only=True)
class QueuePut:
    """A message to be stored in a queue.

    Treat it, and the other values that are made for every message, as read-only: that Python sees
    to it would take longer than to store them.
    """

    queue: str
    body: Any
    priority: int = 0
    """Higher is taken first; first in, first out within one priority."""
    delay_s: float = 0.0
    dedup_key: str | None = None
    """A second message with this key in the queue, taken or not, is dropped until the first is
    acknowledged or settled."""
    bound: int | None = None
    """Refuse with `QueueFull` if the queue holds this many open messages already."""
    key: str | None = None
    """A name by which it is found; a second message of that name, in any queue and while the first
    is stored in any state, is dropped."""
    waiter: str | None = None
    """The waiting session or agent: its name in the graph of waits."""
    session_id: str | None = None
    """The session that is woken when it is settled, or expires."""
    ttl_s: float | None = None
    """Not taken after so long: then it is `expired`."""
    taken_by: str | None = None
    """Stored as the first delivery to this owner, which has the lease for `lease_s`."""
    lease_s: float = 30.0


@dataclass(slots=True, kw_only=True)
class PutReceipt:
    """The result of putting a message; read-only."""

    id: int
    """Of the message, or of the one that was there under its name; 0 for a dropped duplicate of a
    `dedup_key`."""
    is_new: bool


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
    """`None` until it is settled with one."""
    created_at_us: int
    settled_at_us: int | None


@dataclass(slots=True, kw_only=True)
class MessageSettle:
    """Bring a message to its end; read-only.

    For an open message, the state and the answer are stored, and its session is woken. `answered`
    or `failed` for a `timed_out` or `cancelled` message stores the answer as `late` and wakes no
    session. Everything else changes nothing.
    """

    key: str
    state: MessageState
    answer: Any = None
    by: QueueMessage | None = None
    """If given, only while this delivery is its last."""
    forget: bool = False
    """Remove the message in any state instead of keeping it. Its session is not woken, and `state`
    is ignored. For callers that have stored the answer elsewhere."""


Settled: TypeAlias = Literal["settled", "late", "no"]
"""What came of a `MessageSettle`; `forget` of a message that was there is `settled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which messages to find; `None` does not restrict."""

    keys: Collection[str] | None = None
    queue: str | None = None
    queues: Collection[str] | None = None
    states: Collection[MessageState] | None = None
    waiters: Collection[str] | None = None
    waited_for: bool = False
    """Only messages with a waiting session."""
    session_id: str | None = None
