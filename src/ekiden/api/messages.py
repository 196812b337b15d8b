"""Queries and notices between agents, and messages that programs send to agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, endpoint, filter_by
from ekiden.api.methods.values import ONE_LINE, PLAIN, Pages
from ekiden.core.documents import Value, left_out
from ekiden.core.values import Priority
from ekiden.storage.records import MessageState

MessageId: TypeAlias = Annotated[
    str, Param("The message's id.", min_length=1, max_length=400, pattern=ONE_LINE)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent(Value):
    """One message."""

    id: str
    type: str
    from_agent: str
    """The sending agent. `caller:NAME` if the sender is not an agent."""
    to_agent: str | None
    subject: str
    payload: Any
    priority: int
    """The priority: 1 is low, 2 normal, 3 high, and 4 urgent."""
    correlation_id: str | None
    timeout_seconds: float
    ttl: float | None
    created_at: float
    """When the message was created, in seconds since 1970."""
    task: str | None
    depth: int | None = left_out()
    """The number of earlier messages in the chain. It is left out for the first message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetails(Value):
    """A message, the state of its delivery, and its answer."""

    message: MessageContent
    state: MessageState
    attempts: int
    """How many times the message was delivered."""
    answer: Any
    """The payload of the answer."""
    error: str | None
    """The reason why the message failed, or is a dead letter."""
    error_code: str | None
    stored_at: float
    """When the message was stored, in seconds since 1970 on the store's clock."""
    ended_at: float | None
    waiter: str | None
    """The agent that waits for the answer, as `NAME` or `NAME#TASK`."""
    asked_in: str | None
    """The session that waits for the answer."""
    answered_in: str | None
    """The session in which the message is answered."""

    @property
    def message_id(self) -> str:
        """The id of the message."""
        return self.message.id

    @property
    def is_pending(self) -> bool:
        """Whether the message has no answer yet."""
        return self.state == "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued(Value):
    """The number of messages that will be delivered again."""

    requeued: int


class MessagesApi(Protocol):
    """Messages between agents."""

    @endpoint("GET", "/messages", scope="read", cursor=r"^[0-9]{1,18}$")
    def list(
        self,
        *,
        agent: Annotated[str | None, filter_by("Only messages to this agent.")] = None,
        sender: Annotated[str | None, filter_by("Only messages from this agent.")] = None,
        task: Annotated[str | None, filter_by("Only messages of this task.")] = None,
        correlation: Annotated[
            str | None,
            filter_by(
                "Only messages with this correlation id, and the message whose own id this is."
            ),
        ] = None,
        state: Annotated[MessageState | None, Param("Only messages in this state.")] = None,
        waiter: Annotated[
            str | None,
            filter_by(
                "Only queries whose answer this agent is waiting for, written as `NAME` or "
                "`NAME#TASK`."
            ),
        ] = None,
        session: Annotated[str | None, filter_by("Only messages that this session sent.")] = None,
    ) -> Pages[MessageDetails]:
        """List messages between agents, oldest first.

        Messages and answers are kept until they are deleted according to the setting `retention`.
        """
        ...

    @endpoint(
        "POST",
        "/messages",
        scope="run",
        problems=(404, 413),
        pending="The message is stored, but not answered yet.",
        location="get",
    )
    async def send(
        self,
        to: Annotated[
            str,
            Param(
                "The agent's name.",
                min_length=1,
                max_length=200,
                pattern=PLAIN,
                examples=("billing",),
            ),
        ],
        *,
        type: Annotated[
            Literal["query", "notify"],
            Param(
                "`query`: send a query and wait for the answer. `notify`: send a notification, "
                "which needs no answer."
            ),
        ] = "query",
        subject: Annotated[str, Param("", max_length=500)] = "",
        payload: Annotated[
            Any, Param("The content of the message, as JSON of at most one million bytes.")
        ] = None,
        priority: Priority = "normal",
        correlation_id: Annotated[
            str | None, Param("", min_length=1, max_length=400, pattern=ONE_LINE)
        ] = None,
        wait_s: Annotated[
            float,
            Param(
                "Seconds to wait for the answer to a query. An answer that comes later is stored.",
                ge=0,
                le=600,
            ),
        ] = 30.0,
    ) -> MessageDetails:
        """Send a notification or a query to an agent of the team, and wait for the answer to a
        query.

        The message is stored together with the session in which the agent handles the message, so
        the message cannot be lost. A worker runs the session. The status is 200 if the message was
        answered or failed (see `state`). The status is 202 if there is no answer yet; read the
        message again with `GET /messages/{id}`.
        """
        ...

    @endpoint("POST", "/messages/requeue", scope="admin", problems=(404, 413))
    async def requeue(
        self,
        ids: Annotated[
            Sequence[Annotated[str, Param("", min_length=1, max_length=400, pattern=ONE_LINE)]],
            Param("", min_length=1, max_length=1000),
        ],
    ) -> Requeued:
        """Deliver dead or expired messages again, as if they were new.

        Messages in other states are skipped. If an id is unknown, the status is 404, and no message
        is delivered.
        """
        ...

    @endpoint("GET", "/messages/{message_id:path}", scope="read", problems=(404,))
    async def get(self, message_id: MessageId) -> MessageDetails:
        """Get a message, the state of its delivery, and its answer."""
        ...


class CalledMessages(Called):
    """`MessagesApi` for synchronous code."""

    list = lists(MessagesApi.list)
    send = calls(MessagesApi.send)
    requeue = calls(MessagesApi.requeue)
    get = calls(MessagesApi.get)
