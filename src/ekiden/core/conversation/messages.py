"""Messages between agents, their answers, and the state of waiting agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from time import time
from typing import Annotated, Any, Literal, TypeAlias, get_args

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass, maker
from ekiden.core.documents import Value
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.errors.messages import BusError, DeadlockError, QueryFailed, QueryTimeout
from ekiden.core.values import new_id

MessageType: TypeAlias = Literal[
    "query", "response", "notify", "escalate", "request", "broadcast", "negotiate", "acknowledge",
    "reject", "cancel",
]  # fmt: skip
DEFAULT_TIMEOUT_S = 30.0
VictimPolicy: TypeAlias = Literal["longest", "youngest", "lowest_priority"]
"""The query that is cancelled to end a deadlock: the query with the longest wait, the shortest
wait, or the lowest priority."""


def check_policy(policy: str) -> None:
    """Raise `UserError` for an unknown policy."""
    if policy not in get_args(VictimPolicy):
        raise UserError(
            f"{policy!r:.40} is not a victim policy: {', '.join(get_args(VictimPolicy))}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BusLimits(Checked):
    """Limits of messages between agents, and the rule that chooses the victim of a deadlock. In the
    settings, these limits are the section `bus`.

    For example::

        RunConfig(bus=BusLimits(mailbox_bound=100, victim="lowest_priority"))
    """

    mailbox_bound: Annotated[int, Allowed(low=1)] = 10_000
    """The maximum number of messages in an agent's mailbox, including messages in progress."""
    max_subject: Annotated[int, Allowed(low=1, high=100_000)] = 500
    """The maximum length of a subject, in characters."""
    max_payload: Annotated[int, Allowed(low=1)] = 1_000_000
    """The maximum size of a payload or an answer, in bytes of JSON."""
    victim: VictimPolicy = "longest"
    """The query that is cancelled to end a deadlock: the query with the longest wait, the shortest
    wait, or the lowest priority."""


DEFAULT_LIMITS = BusLimits()


@dataclass(slots=True, kw_only=True)
class AgentMessage:
    """A message between agents. Do not change the object.

    For example::

        AgentMessage(type="query", from_agent="pm", to_agent="sales", subject="customer",
                     payload={"id": 42})
    """

    type: MessageType = "notify"
    from_agent: str
    to_agent: str | None = None
    """The receiving agent. `None` means all agents (a broadcast)."""
    subject: str = ""
    payload: Any = None
    """The content of the message; any JSON value."""
    priority: int = 2
    """The priority: 1 is low, 2 normal, 3 high, and 4 urgent."""
    correlation_id: str | None = None
    """The id of the message that this message answers, or of the task that it belongs to."""
    timeout_seconds: float = DEFAULT_TIMEOUT_S
    """Seconds that a query waits for its answer."""
    ttl: float | None = None
    """Seconds until the message expires. An expired message is not delivered. `None` means that the
    message never expires."""
    id: str = field(default_factory=lambda: new_id("msg"))
    created_at: float = field(default_factory=time)
    """When the message was created, in seconds since 1970."""
    redelivered: bool = False
    """Whether the message may have been delivered before."""
    task: str | None = None
    """The id of the task that the message belongs to. The queries of one task form a chain."""
    depth: int = 0
    """The number of messages before this one in its chain. The first message of a chain has the
    depth 0, or 1 if a session sent it."""

    def to_json(self) -> dict[str, Any]:
        """The message as JSON. The message is stored and shown in this form."""
        # Written out, because a loop over the names takes twice as long, for every message.
        data: dict[str, Any] = {
            "type": self.type,
            "from_agent": self.from_agent,
            "to_agent": self.to_agent,
            "subject": self.subject,
            "payload": self.payload,
            "priority": self.priority,
            "correlation_id": self.correlation_id,
            "timeout_seconds": self.timeout_seconds,
            "ttl": self.ttl,
            "id": self.id,
            "created_at": self.created_at,
            "task": self.task,
        }
        if self.depth:
            data["depth"] = self.depth
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AgentMessage:
        """Create the object from the JSON that `to_json` returns. Fields of a newer version are
        ignored."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})


new_message = maker(AgentMessage)
"""Create an `AgentMessage` in half the time of a call of the class."""

BlockingName: TypeAlias = Literal["none", "internal", "user"]
"""`none`: the agent does not wait. `internal`: the agent waits for another agent. `user`: the agent
waits for a person."""


class BlockingStatus(StrEnum):
    """Names for the values of `BlockingContext.status`. You can also compare with plain texts, such
    as ``"user"``.

    For example::

        people = [wait for wait in await bus.blocked() if wait.status == BlockingStatus.USER]
    """

    NONE = "none"
    INTERNAL = "internal"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingContext(Value):
    """Describes the wait of an agent: the agents or people that it waits for, and the reason."""

    agent: str = ""
    status: BlockingName = "none"
    waiting_for: tuple[str, ...] = ()
    """The names of the agents that the agent waits for. For people, the name is ``person:role``."""
    reason: str = ""
    message_id: str | None = None
    """The message or inbox item that the agent waits for."""
    started_at: float | None = None
    """When the wait started, in seconds since 1970."""
    session_id: str | None = None


def agent_queue(agent: str) -> str:
    """The name of the queue that is an agent's mailbox."""
    return f"agent:{agent}"


def wait_node(agent: str, task: str | None) -> str:
    """The name of an agent's node in the wait-for graph.

    An agent that does one task at a time has one node. An agent that does several tasks at a time
    has a node for each task, because it can answer in one task while another task waits.
    """
    return agent if task is None else f"{agent}#{task}"


def node_agent(node: str) -> str:
    """Return the agent of a node. This is the inverse of `wait_node`."""
    return node.rpartition("#")[0] or node


GroupMode: TypeAlias = Literal["any", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message in a mailbox, with the data that the bus needs."""

    message: AgentMessage
    awaits: str | None = None
    """For a query: the node of the wait-for graph that must answer the query (see `wait_node`)."""
    group: tuple[str, GroupMode] | None = None
    """For queries that are sent together: the id of the group, and whether the asker needs one
    answer or all answers."""

    def to_json(self) -> dict[str, Any]:
        """The body of the stored message."""
        body = self.message.to_json()
        if self.awaits is not None:
            body["awaits"] = self.awaits
        if self.group is not None:
            body["group"] = list(self.group)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Letter:
        """Create the object from the JSON that `to_json` returns. Fields of a newer version are
        ignored."""
        group = body.get("group")
        return cls(
            message=AgentMessage.from_json(body),
            awaits=body.get("awaits"),
            group=None if group is None else (group[0], group[1]),
        )


_MAX_ERROR = 2_000


def answer_json(payload: Any) -> dict[str, Any]:
    """The stored form of a successful answer."""
    return {"payload": payload}


def error_json(error: str, *, code: str) -> dict[str, Any]:
    """The stored form of an error of the asked agent."""
    return {"error": error[:_MAX_ERROR], "code": code}


def exception_json(exc: BaseException) -> dict[str, Any]:
    """The stored form of an exception of the asked agent."""
    if isinstance(exc, EkidenError):
        return error_json(str(exc), code=exc.code)
    try:
        text = str(exc)
    except Exception:
        text = "(it cannot be shown)"
    return error_json(f"{type(exc).__name__}: {text}", code="bus.handler_failed")


def deadlock_json(cycle: list[str], *, victim: str) -> dict[str, Any]:
    """The stored form of the answer to a query that was cancelled to end a deadlock."""
    shown = " waits for ".join(cycle)
    error = error_json(f"deadlock: {shown}", code=DeadlockError.code)
    return {**error, "cycle": cycle, "victim": victim}


def error_of(answer: Mapping[str, Any], query: AgentMessage) -> BusError | None:
    """The error that the asker gets for a stored answer; `None` for a successful answer."""
    error = answer.get("error")
    if error is None:
        return None
    cycle = answer.get("cycle")
    if cycle is not None:
        return DeadlockError(cycle, victim=answer.get("victim", ""), message_id=query.id)
    return QueryFailed(
        query.to_agent or "", error, error_code=answer.get("code", ""), message_id=query.id
    )


def timeout_of(query: AgentMessage) -> QueryTimeout:
    """The error that the asker gets if no answer came in time."""
    return QueryTimeout(
        query.from_agent, query.to_agent or "", query.timeout_seconds, message_id=query.id
    )
