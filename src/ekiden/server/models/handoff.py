"""Handoffs over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import PERSON, PLAIN, SAID, SESSION_ID

StatusName: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]
PolicyName: TypeAlias = Literal["immediate", "graceful", "conditional"]
AgentText: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, pattern=PLAIN, examples=["billing"])
]
Words: TypeAlias = Annotated[str, Field(max_length=20_000)]
WaitS: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=600,
        description="How long to wait, in seconds, until it is known what came of it; then it is "
        "told as it stands.",
    ),
]

Priority: TypeAlias = Annotated[
    int,
    Field(
        ge=-(2**53) + 1,
        le=2**53 - 1,
        description="How important it is to the caller; the target is told.",
    ),
]
Metadata: TypeAlias = Annotated[
    dict[str, Any],
    Field(
        max_length=1000,
        description="The caller's own, which the target is told. `handoff_chain` names agents that "
        "had the task before: it counts for depth and cycles.",
        examples=[{"handoff_chain": ["user", "triage"], "ticket": "T-7"}],
    ),
]


class SaidItem(BaseModel):
    """What somebody said."""

    model_config = ConfigDict(extra="allow")

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[dict[str, Any]]


class CallItem(BaseModel):
    """That a tool was called."""

    model_config = ConfigDict(extra="allow")

    type: Literal["function_call"]
    call_id: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200)
    arguments: str


class CallOutputItem(BaseModel):
    """What a tool gave."""

    model_config = ConfigDict(extra="allow")

    type: Literal["function_call_output"]
    call_id: str = Field(min_length=1, max_length=200)
    output: str | list[dict[str, Any]]


class RefusalModel(BaseModel):
    """Why a handoff was not made, or was undone."""

    code: str = Field(description="Such as `CIRCULAR_HANDOFF` or `TIMEOUT`.")
    message: str


class NewHandoff(BaseModel):
    """A handoff of a task, as a program asks for it."""

    model_config = ConfigDict(extra="forbid")

    source_agent_id: AgentText = Field(description="Who has the task: an agent's name.")
    target_agent_id: AgentText = Field(description="Who is to get it: an agent's name.")
    task_id: str = Field(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The task's session; one that does not exist yet is made.",
        examples=["ticket-7"],
    )
    task_state: dict[str, Any] = Field(
        default_factory=dict,
        max_length=1000,
        description="Variables of the task that the handoff sets; undone with it.",
    )
    conversation_history: list[SaidItem | CallItem | CallOutputItem] = Field(
        default_factory=list,
        max_length=10_000,
        description="What the handoff appends to the conversation of the task: items as the OpenAI "
        "Responses API has them; undone with it.",
        examples=[[{"role": "user", "content": "I was charged twice."}]],
    )
    policy: PolicyName = "graceful"
    reason: Words = ""
    priority: Priority = 0
    metadata: Metadata = Field(default_factory=dict)
    wait_s: WaitS = 10.0


class HandoffAnswer(BaseModel):
    """What became of a handoff that was asked for."""

    handoff_id: str = Field(
        description="Of the handoff; while it only waits for whoever runs the task, of the request."
    )
    status: StatusName
    source_agent_id: str
    target_agent_id: str
    error: RefusalModel | None = Field(description="Why it was refused or undone.")


class NewSessionHandoff(BaseModel):
    """A handoff of a session."""

    model_config = ConfigDict(extra="forbid")

    to: AgentText = Field(description="The agent that is to get the session.")
    reason: Words = Field(default="", description="Why; the agent is told.")
    summary: Words = Field(default="", description="What was done so far.")
    context: Any = Field(default=None, description="What else the agent has to know; JSON.")
    policy: PolicyName | None = Field(
        default=None,
        description="When: at once, after the step under way, or if its condition holds.",
    )
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="The target's time to confirm; without it, as the way between the two says.",
    )
    priority: Priority = 0
    metadata: Metadata = Field(default_factory=dict)
    wait_s: WaitS = 10.0


class SessionHandoffAnswer(BaseModel):
    """A handoff that was asked for and where its session stands after it."""

    id: str
    session_id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None
    error: RefusalModel | None
    rollback_performed: bool
    agent: str = Field(description="Who has the session now.")
    outcome: str | None
    speaker: str | None = Field(description="Who said the answer.")
    output: str | None


class NewCancel(BaseModel):
    """That a handoff be undone."""

    model_config = ConfigDict(extra="forbid")

    reason: Words = Field(default="", description="Why; it is put on record.")
    wait_s: WaitS = 10.0


class CancelAnswer(BaseModel):
    """What became of a handoff that was to be cancelled."""

    id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None
    error: RefusalModel | None
    rollback_performed: bool


class ActorModel(BaseModel):
    """Who wanted it."""

    kind: Literal["model", "trigger", "person", "program", "system"]
    name: str = ""


class MoveModel(BaseModel):
    """One move of a handoff."""

    status: StatusName
    at: float
    seq: int


class HandoffModel(BaseModel):
    """A handoff; what is empty is left out."""

    id: str
    session_id: str
    source: str
    target: str
    status: StatusName
    by: ActorModel
    policy: str
    started_at: float
    settled_at: float | None
    moves: list[MoveModel]
    reason: str = ""
    code: str | None = None
    error: str | None = None
    trigger: dict[str, Any] | None = None
    request: str | None = None
    filter: str | None = None
    evaluation: dict[str, Any] | None = None
    priority: int = 0
    metadata: dict[str, Any] | None = None
    compensated: list[str] = []
    not_compensated: list[str] = []


class HandoffDetail(HandoffModel):
    """Everything that is known of one handoff."""

    task_id: str
    correlation_id: str
    call_id: str | None
    words: dict[str, Any]
    compensations_failed: int
    agent: str
    view: Any
    audit: list[str]


class ShownItemModel(BaseModel):
    """One item of the conversation that was handed over, or that a filter put there."""

    text: str = Field(
        description="The first 300 characters; empty if what is said there is not to be shown."
    )
    role: Literal["user", "assistant", "system", "tool", "call", "other"]
    agent: str | None = Field(description="Who said or did it; `null`: a person, or unknown.")
    fate: Literal["kept", "summarised", "dropped", "added"]
    changed: bool = Field(description="Kept, but cut or covered in part.")
    seq: int | None = Field(description="The event that said it; `null` for what a filter made.")


class ShownModel(BaseModel):
    """What the target was shown of the conversation; of a handoff never made, nothing."""

    kept: int
    summarised: int
    dropped: int
    entries: list[ShownItemModel] = Field(description="The first 200, in order.")
    more: int = Field(description="How many are not among `entries`.")


class HandoffView(HandoffModel):
    """A handoff of a session, with what the target was shown."""

    duration_ms: float | None = Field(description="Until it was settled; `null` before.")
    summary: str | None = Field(description="What the source told the target of its work.")
    view: ShownModel | None = Field(description="`null` if it was not asked for.")
    rewound: bool = Field(
        description="The session was taken back to before it; then it is `rolled_back`, too."
    )


class FitModel(BaseModel):
    """One required capability that an agent has."""

    required: str
    capability: str
    proficiency: float
    by: Literal["name", "tag", "meaning"]
    similarity: float | None


class MatchModel(BaseModel):
    """How good an agent is for what is required."""

    agent: str
    score: float
    matched: list[str]
    missing: list[str]
    by: Literal["name", "tag", "meaning"]
    fits: list[FitModel]
    available: bool
    load: float


class PersonAnswer(BaseModel):
    """What a person says to a session that was handed to people."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=100_000, pattern=SAID, examples=["We replace it."])
    back: bool = Field(
        default=False,
        description="Give it back with this answer to the agent that handed it over.",
    )
    by: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=PERSON,
        description="Who answers, if it is not the caller; needs the scope `admin`.",
    )
    wait_s: WaitS = 10.0
