"""The role of a session replica, its settings, and the form in which it gets events.

The store is the truth and the outbox. Who drives a mirror (`ekiden.sessions.replica.feed`) reads
what is stored and sends it; so a mirror that is away costs only lateness. Each event is sent at
least once, in the order of its session; a mirror that can tell leaves out what it has already.
Nothing is ever taken back: what a rollback undid stays in the mirror.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Final, Protocol

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.events import Event
from ekiden.core.values import dumps, loads
from ekiden.sessions.conversation import is_draft
from ekiden.sessions.scopes import is_run_name
from ekiden.sessions.state import told_state


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
    """The target of a session replica. Each address is a separate replica with its own position.

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
        """The kind and the address of the replica, without secrets, such as
        ``vertex:projects/…``."""
        ...

    async def send(self, session: ReplicatedSession, event: ReplicatedEvent, *, again: bool) -> Any:
        """Append the event to the session, which is created if necessary.

        `again` is true if the event, or a part of it, may have been sent before. Returns JSON; the
        next call gets it as `ReplicatedSession.kept`. Raises `ReplicaUnavailable` if a retry may
        help, and `ReplicaRefused` if the replica will never accept the event. Ekiden sends the
        events of one session in order, and different sessions concurrently.
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
    """Whether sensitive data is sent unchanged. If false, card numbers, telephone numbers, e-mail
    addresses and keys are masked first."""
    parallel: int = 8
    """The maximum number of sessions that are sent concurrently."""
    lease_s: float = 60.0
    """After this many seconds without a heartbeat, another process may take over."""
    send_timeout_s: float = 30.0
    """The timeout of one event; it must be shorter than the lease."""
    first_pause_s: float = 1.0
    """Seconds before the first retry after a failure. The delay doubles with each failure."""
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
    """Whether another process sends to the replica."""


NAME: Final = r"[A-Za-z0-9][A-Za-z0-9:._-]{0,127}"
"""What Google takes as the name of a project, a location or an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexSettings(Checked):
    """`mirror.vertex`: an agent engine of Vertex AI."""

    project: Annotated[
        str | None,
        Allowed(
            what="a project in Google Cloud",
            form=NAME,
            env="EKIDEN_VERTEX_PROJECT",
            risk="sends sessions there",
        ),
    ] = None
    """The Google Cloud project to which `ekiden mirror run` replicates sessions. With null, nothing
    is replicated."""
    location: Annotated[
        str, Allowed(what="a location in Google Cloud", form=NAME, env="EKIDEN_VERTEX_LOCATION")
    ] = "us-central1"
    """The location of the agent engine in Google Cloud."""
    engine: Annotated[
        str | None,
        Allowed(
            what="an engine's id",
            form=NAME,
            env="EKIDEN_VERTEX_ENGINE",
            risk="sends sessions there",
        ),
    ] = None
    """The id of the Vertex AI agent engine that stores the replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings(Checked):
    """What is mirrored, and where to."""

    include_sensitive_data: bool = True
    """Whether sensitive data is sent unchanged. If false, card numbers, telephone numbers, e-mail
    addresses and keys are masked first."""
    vertex: VertexSettings = field(default_factory=VertexSettings)


_COVERED = ("content", "arguments", "output", "summary")
"""The fields of an item that hold what was said."""


def is_news(event: Event) -> bool:
    """Whether a mirror has to hear of the event at all."""
    return bool(event.session_id) and (bool(_said(event)) or bool(state_delta(event)))


def _said(event: Event) -> tuple[Item, ...]:
    """What the event says; an answer that a guardrail did not let through was never said."""
    return () if is_draft(event) else event.items


def state_delta(event: Event) -> dict[str, Any]:
    """Variables of the session with their new values; `None` for those that were removed.

    Variables of a run are gone soon, and those of users and apps are not the session's.
    """
    told = told_state(event)
    if told is None:
        return {}
    values = {**told.get("base", {}), **told.get("set", {})}
    values.update(dict.fromkeys(told.get("deleted", ())))
    return {name: value for name, value in values.items() if not is_run_name(name)}


def calls_of(event: Event) -> dict[str, str]:
    """The names of the tools that the event calls, by the call's id."""
    return {
        str(item.get("call_id")): str(item.get("name"))
        for item in event.items
        if item.get("type") == "function_call"
    }


def answered(event: Event) -> list[str]:
    """The ids of the calls that the event answers."""
    return [
        str(item.get("call_id"))
        for item in event.items
        if item.get("type") == "function_call_output"
    ]


def replicated_event(
    event: Event, *, at_us: int, tools: Mapping[str, str], include_sensitive_data: bool
) -> ReplicatedEvent:
    """The event for a mirror; without sensitive data, what looks like a card number, a telephone,
    an e-mail address or a key is covered in all that was said and in all values."""
    items, state = _said(event), state_delta(event)
    if not include_sensitive_data:
        items = tuple(map(_covered_item, items))
        state = {name: _covered(value) for name, value in state.items()}
    return ReplicatedEvent(
        id=event.event_id,
        seq=event.seq,
        at_us=at_us,
        agent=event.agent or "agent",
        items=items,
        tools=tools,
        state=state,
    )


def _covered_item(item: Item) -> Item:
    return {name: _covered(value) if name in _COVERED else value for name, value in item.items()}


def _covered(value: Any) -> Any:
    from ekiden.core.privacy.redaction import redact_json, redact_text

    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, bool):
        return value
    return loads(redact_json(dumps(value)))
