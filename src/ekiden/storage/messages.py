"""Messages in durable queues, as they are put, taken, settled and found."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass

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
