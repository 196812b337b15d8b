"""Questions to people over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import PERSON

ItemStatusName: TypeAlias = Literal["open", "answered", "expired", "cancelled"]
StatusChoice: TypeAlias = Literal["open", "answered", "expired", "cancelled", "closed", "any"]
KindName: TypeAlias = Literal[
    "confirmation", "approval", "escalation", "routing", "rollback_failed", "handoff"
]
PriorityName: TypeAlias = Literal["low", "normal", "high", "urgent"]
By: TypeAlias = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        pattern=PERSON,
        description="Who does it, if it is not the caller; needs the scope `admin`.",
    ),
]


class InboxAnswerModel(BaseModel):
    """What a person decided."""

    choice: str
    by: str
    at_us: int
    via: str
    text: str
    arguments: str | None
    always: bool


class InboxItemModel(BaseModel):
    """Something that waits for a person. Its texts may come from a model: show them as text."""

    id: str
    kind: KindName
    from_agent: str
    subject: str
    body: str
    options: list[str] = Field(description="What can be chosen; empty: the answer is free text.")
    context: Any
    priority: int = Field(description="1 low, 2 normal, 3 high, 4 urgent.")
    created_at_us: int
    deadline_us: int | None
    default: str | None
    role: str
    assignee: str | None
    chain: list[tuple[str, float]] = Field(description="Whom to ask next, and after how long.")
    escalate_at_us: int | None
    snoozed_until_us: int | None
    status: ItemStatusName
    answer: InboxAnswerModel | None
    closed_at_us: int | None
    closed_by: str
    reason: str
    session_id: str | None
    task_id: str | None
    correlation_id: str | None
    message_id: str | None
    tool: str | None
    arguments: str | None
    notice: bool
    version: int


class BulkModel(BaseModel):
    """What became of an answer to all items that ask the same."""

    answered: list[str]
    closed: int = Field(description="How many somebody else closed meanwhile.")


class NewAnswer(BaseModel):
    """What a person says to a question."""

    model_config = ConfigDict(extra="forbid")

    choice: str | None = Field(
        default=None, max_length=500, description="One of the item's options, in whatever case."
    )
    text: str = Field(default="", max_length=100_000, description="In their words.")
    arguments: str | dict[str, Any] | None = Field(
        default=None,
        description="Run the tool with these instead: an object, or its JSON text.",
    )
    always: bool = Field(
        default=False, description="Do not ask this agent again for this tool, in this session."
    )
    identical: bool = Field(
        default=False, description="Answer all that ask exactly the same, in the same way."
    )
    confirm_edit: bool = Field(default=False, description="Edited arguments are meant as they are.")
    by: By = None


class NewAssignment(BaseModel):
    """Whose a question is to be."""

    model_config = ConfigDict(extra="forbid")

    assignee: str | None = Field(
        min_length=1,
        max_length=200,
        pattern=PERSON,
        description="The person's name; `null`: nobody's any more.",
    )
    by: By = None


class SnoozeFor(BaseModel):
    """For how long a question is to be hidden."""

    model_config = ConfigDict(extra="forbid")

    for_s: float = Field(ge=1, le=1e9, description="So many seconds.")
    by: By = None


class SnoozeUntil(BaseModel):
    """Until when a question is to be hidden."""

    model_config = ConfigDict(extra="forbid")

    until_us: int = Field(ge=0, le=10**17, description="In microseconds since 1970.")
    by: By = None


NewSnooze: TypeAlias = SnoozeFor | SnoozeUntil


class NewCancellation(BaseModel):
    """That a question be withdrawn."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="", max_length=2000, description="Why; whoever waits is told.")
    by: By = None
