"""Messages between agents over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import ONE_LINE, PLAIN

MessageStateName: TypeAlias = Literal[
    "open", "answered", "failed", "timed_out", "cancelled", "late", "expired", "dead"
]
PriorityName: TypeAlias = Literal["low", "normal", "high", "urgent"]
MessageKey: TypeAlias = Annotated[str, Field(min_length=1, max_length=400, pattern=ONE_LINE)]


class AgentMessageModel(BaseModel):
    """One message."""

    id: str
    type: str
    from_agent: str = Field(description="The sender; `caller:NAME` for one that is no agent.")
    to_agent: str | None
    subject: str
    payload: Any
    priority: int
    correlation_id: str | None
    timeout_seconds: float
    ttl: float | None
    created_at: float
    task: str | None
    depth: int = 0


class MessageModel(BaseModel):
    """A message and what became of it."""

    message: AgentMessageModel
    state: MessageStateName
    attempts: int
    answer: Any = Field(description="The payload of the answer.")
    error: str | None
    error_code: str | None
    stored_at: float
    ended_at: float | None
    waiter: str | None = Field(description="Who waits for the answer: a name, or `NAME#TASK`.")
    asked_in: str | None = Field(description="The session that waits for the answer.")
    answered_in: str | None = Field(description="The session in which it is answered.")


class NewMessage(BaseModel):
    """Something to tell or to ask an agent of the team."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="The agent's name.",
        examples=["billing"],
    )
    type: Literal["query", "notify"] = Field(
        default="query", description="`query`: wait for what it says; `notify`: only tell it."
    )
    subject: str = Field(default="", max_length=500)
    payload: Any = Field(default=None, description="JSON of at most a million bytes.")
    priority: PriorityName = "normal"
    correlation_id: MessageKey | None = None
    wait_s: float = Field(
        default=30.0,
        ge=0,
        le=600,
        description="How long a query waits for its answer here, in seconds. An answer that comes "
        "later is stored.",
    )


class NewRequeue(BaseModel):
    """Messages that are to be delivered again."""

    model_config = ConfigDict(extra="forbid")

    ids: list[MessageKey] = Field(min_length=1, max_length=1000)


class RequeuedModel(BaseModel):
    """How many were put back."""

    requeued: int
