"""The interface of session replicas, their settings, and the events that they receive. The store is
the source of the replication: `ekiden.sessions.replica_feed` reads stored events and sends them, so
an unavailable replica only receives the events later. Each event is sent at least once, and the
events of a session are sent in order. Nothing is removed from a replica: undone content stays
there.
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
from ekiden.sessions.state import is_run_name, recorded_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedSession:
    """The session of a replicated event."""

    id: str
    user_id: str | None
    created_at_us: int
    """The creation time of the session, in microseconds since 1970. It distinguishes sessions with
    the same id."""
    kept: Any = None
    """The result of the replica's last `send` for this session, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedEvent:
    """The items of one event, and the changes that the event made to the session's variables."""

    id: str
    """The unique id of the event."""
    seq: int
    """The number of the event in the session. Not every event is sent, so numbers may be
    missing."""
    at_us: int
    """The time of the event, in microseconds since 1970. If the previous event has n items, this
    event is at least n microseconds later."""
    agent: str
    """The agent that had the conversation."""
    items: Sequence[Item] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    """The names of the tools whose results are among the items, by call id."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The new values of variables. The value of a deleted variable is `None`."""


class SessionReplica(Protocol):
    """A copy of sessions in another system, to which Ekiden sends events. Each address is a
    separate replica with its own position in the event stream.

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
        """Append the event to the copy of the session, and create this copy if necessary.

        `again` is true if the event, or a part of it, may have been sent before. Ekiden stores the
        returned JSON, and passes it to the next call for this session as `ReplicatedSession.kept`.
        Raises `ReplicaUnavailable` if a retry may help, and `ReplicaRefused` if the replica will
        never accept the event. Ekiden sends the events of one session in order, and different
        sessions concurrently.
        """
        ...

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
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
    addresses and keys are masked before events are sent."""
    parallel: int = 8
    """The maximum number of sessions that are sent concurrently."""
    lease_s: float = 60.0
    """After this many seconds without a heartbeat from the sending process, another process may
    take over."""
    send_timeout_s: float = 30.0
    """The timeout, in seconds, for sending one event. It must be shorter than `lease_s`."""
    first_pause_s: float = 1.0
    """Seconds before the first retry after a failure. The delay doubles with each failure."""
    longest_pause_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """The result of a call of `replicate_sessions`."""

    sent: int = 0
    set_aside: int = 0
    waiting: int = 0
    """The number of sessions that still have unsent events."""
    problem: str | None = None
    """Describes the failure of the last attempt; `None` if the last attempt succeeded."""
    busy: bool = False
    """Whether this process sent nothing because another process is sending to the replica."""


NAME: Final = r"[A-Za-z0-9][A-Za-z0-9:._-]{0,127}"
"""The form of the names of projects, locations and engines in Google Cloud."""


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
    """Settings of replication: the content and the target."""

    include_sensitive_data: bool = True
    """Whether sensitive data is sent unchanged. If false, card numbers, telephone numbers, e-mail
    addresses and keys are masked before events are sent."""
    vertex: VertexSettings = field(default_factory=VertexSettings)


_CONTENT_FIELDS = ("content", "arguments", "output", "summary")
"""The fields of an item with content."""


def is_replicated(event: Event) -> bool:
    """Whether the event has items or changes of variables that replicas receive."""
    return bool(event.session_id) and (bool(_items(event)) or bool(state_delta(event)))


def _items(event: Event) -> tuple[Item, ...]:
    """The items of the event, without answers that a guardrail blocked."""
    return () if is_draft(event) else event.items


def state_delta(event: Event) -> dict[str, Any]:
    """The new values of the session's variables. The value of a deleted variable is `None`.

    Variables of runs, users and apps are left out.
    """
    changes = recorded_changes(event)
    if changes is None:
        return {}
    values = {**changes.get("base", {}), **changes.get("set", {})}
    values.update(dict.fromkeys(changes.get("deleted", ())))
    return {name: value for name, value in values.items() if not is_run_name(name)}


def calls_of(event: Event) -> dict[str, str]:
    """The names of the tools that the event calls, by call id."""
    return {
        str(item.get("call_id")): str(item.get("name"))
        for item in event.items
        if item.get("type") == "function_call"
    }


def result_ids(event: Event) -> list[str]:
    """The ids of the calls whose results are in the event."""
    return [
        str(item.get("call_id"))
        for item in event.items
        if item.get("type") == "function_call_output"
    ]


def replicated_event(
    event: Event, *, at_us: int, tools: Mapping[str, str], include_sensitive_data: bool
) -> ReplicatedEvent:
    """Convert an event to the form that replicas receive. If sensitive data is excluded, card
    numbers, telephone numbers, e-mail addresses and keys are masked in all content and values."""
    items, state = _items(event), state_delta(event)
    if not include_sensitive_data:
        items = tuple(map(_redacted_item, items))
        state = {name: _redacted(value) for name, value in state.items()}
    return ReplicatedEvent(
        id=event.event_id,
        seq=event.seq,
        at_us=at_us,
        agent=event.agent or "agent",
        items=items,
        tools=tools,
        state=state,
    )


def _redacted_item(item: Item) -> Item:
    return {
        name: _redacted(value) if name in _CONTENT_FIELDS else value for name, value in item.items()
    }


def _redacted(value: Any) -> Any:
    from ekiden.core.privacy.redaction import redact_json, redact_text

    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, bool):
        return value
    return loads(redact_json(dumps(value)))
