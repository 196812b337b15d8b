"""The role of a mirror: a copy of sessions, elsewhere, that is fed from the store.

The store is the truth and the outbox. Who drives a mirror (`ekiden.sessions.replica.feed`) reads
what is stored and sends it; so a mirror that is away costs only lateness. Each event is sent at
least once, in the order of its session; a mirror that can tell leaves out what it has already.
Nothing is ever taken back: what a rollback undid stays in the mirror.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ekiden.core.conversation.model import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedSession:
    """A session as a mirror gets it."""

    id: str
    user_id: str | None
    created_at_us: int
    """One that was deleted and made again, with the same id, is another session."""
    kept: Any = None
    """What the mirror gave back when it was sent an event of this session last; JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedEvent:
    """What one event said, and what it did to the session's variables."""

    id: str
    """Unique, and the same whenever it is sent."""
    seq: int
    """Its number in the session; not every number is sent."""
    at_us: int
    """Microseconds since 1970; later than that of the event before, by one for each item of it."""
    agent: str
    """Who had the conversation."""
    items: Sequence[Item] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    """The names of the tools whose answers are among the items, by the call's id."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the session that got a value; `None` for one that was removed."""


class SessionReplica(Protocol):
    """The target of a session replica; another address is another mirror, with its own position.

    For example::

        class Wall(SessionReplica):
            name = "wall"

            async def send(self, session, event, *, again):
                print(session.id, event.seq, event.items)

            async def close(self):
                pass
    """

    @property
    def name(self) -> str:
        """Its kind and address, without any secret, such as ``vertex:projects/…``."""
        ...

    async def send(self, session: ReplicatedSession, event: ReplicatedEvent, *, again: bool) -> Any:
        """Append the event to the session, which is created if necessary.

        `again`: the event, or a part of it, may have been sent before. Returns JSON that comes with
        the next event as `ReplicatedSession.kept`. Raises `ReplicaUnavailable` if a retry may help,
        `ReplicaRefused` for an event that is never accepted. Events of one session come in order,
        those of several sessions concurrently.
        """
        ...

    async def close(self) -> None:
        """Close connections; a second call does nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPolicy:
    """Settings of replication.

    For example::

        policy = ReplicaPolicy(include_sensitive_data=False, parallel=2)
        await replicate_sessions(store, mirror, policy=policy)
    """

    include_sensitive_data: bool = True
    """If false, card numbers, telephones, e-mail addresses and keys are masked before anything is
    sent."""
    parallel: int = 8
    """Sessions that are sent concurrently."""
    lease_s: float = 60.0
    """After this long without a heartbeat another process may take over."""
    send_timeout_s: float = 30.0
    """For one event; shorter than the lease."""
    first_pause_s: float = 1.0
    """After a failure; doubled for each further one."""
    longest_pause_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """The result of a replication."""

    sent: int = 0
    set_aside: int = 0
    waiting: int = 0
    """Sessions with unsent events."""
    problem: str | None = None
    """The last failure, if the last attempt failed."""
    busy: bool = False
    """Another process sends to the mirror."""
