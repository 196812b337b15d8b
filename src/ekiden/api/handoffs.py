"""Handoffs of tasks and sessions from agent to agent, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, SessionId, endpoint, filter_by, name_of
from ekiden.api.methods.values import EVENT_CURSOR, PERSON, PLAIN, SAID, SESSION_ID, Moment, Pages
from ekiden.api.runs import ITEM, LimitOptions
from ekiden.core.documents import Value, left_out
from ekiden.core.handoffs import ActorKind, PolicyName, StatusName
from ekiden.core.runs import Run, RunError
from ekiden.handoff.records import was_made

SessionStanding: TypeAlias = Literal["running", "waiting", "ready", "idle"]
"""`running`: a process runs the session. `waiting`: the session waits for people or agents.
`ready`: a worker will run the session. `idle`: the session waits for the next message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffActor(Value):
    """The requester of a handoff."""

    kind: ActorKind
    name: str | None = left_out()

    def __str__(self) -> str:
        return f"{self.kind} {self.name or ''}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRefusal(Value):
    """Why a handoff was refused or rolled back."""

    code: str
    """The code of the reason, such as `CIRCULAR_HANDOFF` or `TIMEOUT`."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffMove(Value):
    """One status change of a handoff."""

    status: StatusName
    at: float
    """The time of the status change, in seconds since 1970."""
    seq: int
    """The number of the event that records the change. For a handoff request the number is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffSummary(Value):
    """A handoff. Empty fields are left out."""

    id: str
    session_id: str
    source: str
    target: str
    status: StatusName
    by: HandoffActor
    policy: str
    started_at: float
    settled_at: float | None
    """When the handoff was settled; `null` while it is in progress."""
    moves: Sequence[HandoffMove]
    reason: str | None = left_out()
    code: str | None = left_out()
    """The code of the reason why the handoff was refused or rolled back."""
    error: str | None = left_out()
    trigger: Mapping[str, Any] | None = left_out()
    """The facts that made the trigger fire."""
    request: str | None = left_out()
    """The id of the handoff request, if a person or a program requested the handoff while the
    session was running."""
    filter: str | None = left_out()
    """The key of the stored step that contains the conversation that the target saw. Left out if
    the target saw the whole conversation."""
    evaluation: Mapping[str, Any] | None = left_out()
    """The result of the condition that was not met."""
    priority: int | None = left_out()
    metadata: Mapping[str, Any] | None = left_out()
    """The metadata that the requester passed."""
    compensated: Sequence[str] | None = left_out()
    not_compensated: Sequence[str] | None = left_out()

    @property
    def is_made(self) -> bool:
        """Whether the target got the conversation."""
        return was_made(self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDetails(HandoffSummary):
    """All details of a handoff."""

    task_id: str
    correlation_id: str
    call_id: str | None
    """The model's tool call that requested the handoff."""
    words: Mapping[str, Any]
    """The message of the handoff. It is empty if the run hides its content."""
    compensations_failed: int
    """The number of failed compensation attempts."""
    agent: str
    """The current agent of the session."""
    view: Mapping[str, Any] | None
    """The changes that a filter made to the conversation; `null` without a filter."""
    audit: Sequence[str]
    """The ids of the handoff's audit records, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem(Value):
    """One item of the conversation that the target got: an original item, or an item that a filter
    added."""

    text: str
    """The first 300 characters of the item; empty if its content is hidden."""
    role: Literal["user", "assistant", "system", "tool", "call", "other"]
    agent: str | None
    """The agent that the item comes from. `null` if it comes from a person, or if the agent is
    unknown."""
    fate: Literal["kept", "summarised", "dropped", "added"]
    changed: bool
    """Whether a filter kept the item but shortened or masked parts of it."""
    seq: int | None
    """The number of the event that contains the item; `null` for items that a filter added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownToTarget(Value):
    """The part of the conversation that the target saw. It is empty if the handoff was not made."""

    kept: int
    summarised: int
    dropped: int
    entries: Sequence[ShownItem]
    """The first 200 items, in order."""
    more: int
    """The number of items that are not in `entries`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffView(HandoffSummary):
    """A handoff of a session, with the part of the conversation that the target saw."""

    duration_ms: float | None
    """The duration of the handoff in milliseconds; `null` while it is in progress."""
    summary: str | None
    """The source agent's summary of its work, written for the target."""
    view: ShownToTarget | None
    """The part of the conversation that the target saw; `null` if the caller did not ask for it."""
    rewound: bool
    """Whether the session was rewound to a point before the handoff; its status is then
    `rolled_back`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatedHandoff(Value):
    """The result of a requested handoff."""

    handoff_id: str
    """The id of the handoff. While the handoff waits for the process that runs the task, this is
    the id of the handoff request."""
    status: StatusName
    source_agent_id: str
    target_agent_id: str
    error: HandoffRefusal | None
    """The reason why the handoff was refused or rolled back; otherwise `null`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledHandoff(Value):
    """The result of a cancellation."""

    id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None
    """When the handoff ended, in seconds since 1970; `null` while the handoff is in progress."""
    error: HandoffRefusal | None
    """The reason why the handoff was refused or rolled back; otherwise `null`."""
    rollback_performed: bool

    @property
    def is_pending(self) -> bool:
        """Whether the process that runs the session still has to roll the handoff back."""
        return self.completed_at is None and self.status != "rolled_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffEnd(Value):
    """A handoff, and the state of its session after the handoff."""

    id: str
    session_id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None
    """When the handoff ended, in seconds since 1970; `null` while the handoff is in progress."""
    error: HandoffRefusal | None
    """The reason why the handoff was refused or rolled back; otherwise `null`."""
    rollback_performed: bool
    agent: str
    """The current agent of the session."""
    outcome: str | None
    speaker: str | None
    """The agent that gave the answer."""
    output: str | None
    """The agent's answer."""
    standing: SessionStanding
    """The state of the session."""
    problem: RunError | None = field(default=None, metadata={"left_out": True})
    """The reason why the run after the handoff failed; `null` if the run did not fail."""


HandoffId: TypeAlias = Annotated[
    str,
    Param(
        "The id of a handoff or of a handoff request.",
        min_length=1,
        max_length=160,
        pattern=r"^[A-Za-z0-9_\-.:@/]+$",
    ),
]
"""The id of a handoff. Ids from earlier versions contain a slash."""
_Text: TypeAlias = Annotated[str, Param("", max_length=20_000)]
_Wait: TypeAlias = Annotated[
    float,
    Param(
        "Seconds to wait for the result. After this time, the current state is returned.",
        ge=0,
        le=600,
    ),
]
_Priority: TypeAlias = Annotated[
    int,
    Param("The priority of the handoff. The target agent sees it.", ge=-(2**53) + 1, le=2**53 - 1),
]
_Metadata: TypeAlias = Annotated[
    Mapping[str, Any],
    Param(
        "Metadata of the caller, which the target sees. `handoff_chain` names agents that had the "
        "task before. The checks for depth and cycles include these agents.",
        max_length=1000,
        examples=({"handoff_chain": ["user", "triage"], "ticket": "T-7"},),
    ),
]
_Timeout: TypeAlias = Annotated[
    float | None,
    Param(
        "Time in seconds for the target to confirm. Default: the timeout in the handoff definition "
        "of the two agents.",
        gt=0,
        le=1e9,
    ),
]


class HandoffFilters(TypedDict, total=False):
    """Filters for handoffs. A filter that is missing or `None` matches all handoffs."""

    session: Annotated[
        str | None, Param("Only handoffs of this session.", max_length=128, pattern=PLAIN)
    ]
    source: Annotated[str | None, filter_by("Only handoffs from this agent.")]
    target: Annotated[str | None, filter_by("Only handoffs to this agent.")]
    status: Annotated[StatusName | None, Param("Only handoffs with this status.")]
    task: Annotated[str | None, filter_by("Only handoffs of this task.")]
    correlation: Annotated[str | None, filter_by("Only handoffs with this correlation id.")]
    policy: Annotated[PolicyName | None, Param("Only handoffs with this policy.")]
    by: Annotated[
        str | None,
        filter_by(
            "Only handoffs from this initiator: model, trigger, person, program, or the name of a "
            "person."
        ),
    ]
    since: Annotated[Moment | None, Param("Only entries since this time.")]
    until: Annotated[Moment | None, Param("Only entries before this time.")]


_CURSOR: Final = rf"^{EVENT_CURSOR}$"
_NOTHING: Final[Mapping[str, Any]] = {}


class HandoffsApi(Protocol):
    """Handoffs between agents."""

    @endpoint("POST", "/handoff/initiate", scope="run", problems=(404, 413), body="NewHandoff")
    async def initiate(
        self,
        source_agent_id: Annotated[
            str, name_of("The agent that has the task.", examples=("billing",))
        ],
        target_agent_id: Annotated[
            str, name_of("The agent that gets the task.", examples=("billing",))
        ],
        task_id: Annotated[
            str,
            Param(
                "The id of the task's session. A missing session is created.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
                examples=("ticket-7",),
            ),
        ],
        *,
        task_state: Annotated[
            Mapping[str, Any],
            Param(
                "Variables of the task that the handoff sets. "
                "A rollback of the handoff restores their old values.",
                max_length=1000,
            ),
        ] = _NOTHING,
        conversation_history: Annotated[
            Sequence[Mapping[str, Any]],
            Param(
                "Items that the handoff appends to the conversation, in the format of the OpenAI "
                "Responses API. A rollback of the handoff also removes these items. Without the "
                "scope `history`, only user messages are stored as messages. All other items are "
                "quoted as data.",
                max_length=10_000,
                examples=([{"role": "user", "content": "I was charged twice."}],),
                schema={"items": ITEM},
            ),
        ] = (),
        policy: PolicyName = "graceful",
        reason: _Text = "",
        correlation_id: Annotated[
            str | None,
            name_of("The correlation id of a new task. An existing task keeps its own id."),
        ] = None,
        priority: _Priority = 0,
        timeout_s: _Timeout = None,
        capabilities: Annotated[
            Sequence[Annotated[str, Param("", min_length=1, max_length=200, pattern=PLAIN)]],
            Param(
                "Capabilities that the target must have. Otherwise the handoff is refused.",
                max_length=100,
                examples=(["refunds"],),
            ),
        ] = (),
        condition: Annotated[
            str,
            Param(
                "A condition that must be true for every policy. Otherwise the handoff is refused.",
                max_length=2000,
                examples=("error_count < 3",),
            ),
        ] = "",
        metadata: _Metadata = _NOTHING,
        wait_s: _Wait = 10.0,
    ) -> InitiatedHandoff:
        """Hand off a task from one agent to another agent, which then works on the task.

        The HTTP status is 200 even if the handoff is refused or rolled back. The field `status` is
        then `failed` or `rolled_back`, and `error` gives the reason. For an agent outside the team,
        the HTTP status is 404, and `refusal` is `AGENT_NOT_FOUND`. The call waits at most `wait_s`
        seconds for the target's confirmation. If `status` is not final after this time, use `GET
        /handoff/{id}` to read the later status. If another process is working on the task, that
        process makes the handoff. Until that process makes the handoff, `status` is `initiated`.
        """
        ...

    @endpoint("GET", "/handoff", scope="read", cursor=_CURSOR)
    def list(
        self,
        *,
        agent: Annotated[str | None, filter_by("Only handoffs from or to this agent.")] = None,
        **filters: Unpack[HandoffFilters],
    ) -> Pages[HandoffSummary]:
        """List handoffs, newest first. The first page begins with handoff requests that wait for a
        running session. These requests do not count towards `limit`."""
        ...

    @endpoint(
        "GET", "/handoff/history/{agent_id:path}", scope="read", problems=(404,), cursor=_CURSOR
    )
    def history(
        self,
        agent_id: Annotated[str, name_of("The agent's name.")],
        **filters: Unpack[HandoffFilters],
    ) -> Pages[HandoffSummary]:
        """List the handoffs from and to an agent, newest first."""
        ...

    @endpoint(
        "GET",
        "/sessions/{session_id}/handoffs",
        scope="read",
        problems=(404,),
        cursor=r"^[0-9]{1,9}$",
    )
    def of_session(
        self,
        session_id: SessionId,
        *,
        views: Annotated[
            bool,
            Param(
                "Include what each target saw. A page then has at most 50 handoffs, and the call "
                "is slower."
            ),
        ] = True,
    ) -> Pages[HandoffView]:
        """List the handoffs of a session, oldest first, each with the part of the conversation that
        the target saw.

        Refused, failed and rolled-back handoffs are included. The last page ends with handoff
        requests that wait for the process that runs the session. These requests do not count
        towards the limit. The content of runs with `trace_include_sensitive_data=False` is not
        shown.
        """
        ...

    @endpoint("GET", "/handoff/{handoff_id:path}", scope="read", problems=(404,))
    async def get(self, handoff_id: HandoffId) -> HandoffDetails:
        """Get all details of a handoff: status changes, origin, reason, and the part of the
        conversation that the target saw.

        The content of runs with `trace_include_sensitive_data=False` is not shown.
        """
        ...

    @endpoint(
        "POST",
        "/handoff/{handoff_id:path}/cancel",
        scope="run",
        problems=(404, 409),
        body="NewCancel",
        pending="The process that runs the session was asked to roll back the handoff.",
    )
    async def cancel(
        self,
        handoff_id: HandoffId,
        *,
        reason: Annotated[str, Param("The reason, for the record.", max_length=20_000)] = "",
        wait_s: _Wait = 10.0,
    ) -> CancelledHandoff:
        """Roll back a handoff that is not completed, or withdraw a handoff request.

        The HTTP status is 200 if the handoff is rolled back, now or earlier. The HTTP status is 202
        if the process that runs the session has not rolled back the handoff yet. In this case, call
        again. The HTTP status is 409 (`handoff.settled`) if the handoff was confirmed, refused, or
        rolled back for another reason.
        """
        ...

    @endpoint(
        "POST",
        "/sessions/{session_id}/handoff",
        scope="run",
        problems=(404, 413),
        body="NewSessionHandoff",
    )
    async def start(
        self,
        session_id: SessionId,
        to: Annotated[str, name_of("The agent that gets the session.", examples=("billing",))],
        *,
        reason: Annotated[
            str, Param("The reason for the handoff. The target agent sees it.", max_length=20_000)
        ] = "",
        summary: Annotated[
            str, Param("A summary of the work so far, for the target agent.", max_length=20_000)
        ] = "",
        context: Annotated[Any, Param("Further information for the target agent, as JSON.")] = None,
        policy: Annotated[
            PolicyName | None,
            Param(
                "When to hand off: at once (`immediate`), after the current step (`graceful`), or "
                "if the handoff's condition is true (`conditional`)."
            ),
        ] = None,
        timeout_s: _Timeout = None,
        priority: _Priority = 0,
        metadata: _Metadata = _NOTHING,
        wait_s: _Wait = 10.0,
        **limits: Unpack[LimitOptions],
    ) -> HandoffEnd:
        """Hand off a session to another agent, and run the session until that agent answers.

        If a process is running the session, that process makes the handoff after its current step.
        With the policy `immediate`, that process makes the handoff at once. The limits of that run
        apply. As with `POST /handoff/initiate`, the HTTP status is 200 with `error` if the handoff
        is refused, and 404 for an unknown agent. `output` is set after the agent has answered.
        """
        ...

    @endpoint(
        "POST",
        "/sessions/{session_id}/answer",
        scope="answer",
        problems=(404, 409, 413),
        body="PersonAnswer",
        pending="The answer is stored, and the run continues.",
    )
    async def answer(
        self,
        session_id: SessionId,
        text: Annotated[
            str,
            Param("", min_length=1, max_length=100_000, pattern=SAID, examples=("We replace it.",)),
        ],
        *,
        back: Annotated[
            bool, Param("Return the session, with this answer, to the agent that handed it off.")
        ] = False,
        by: Annotated[
            str | None,
            Param(
                "The person who answers, if it is not the caller. This needs the scope `admin`.",
                min_length=1,
                max_length=200,
                pattern=PERSON,
            ),
        ] = None,
        wait_s: _Wait = 10.0,
        **limits: Unpack[LimitOptions],
    ) -> Run:
        """Answer a session that was handed off to a person.

        The text becomes the answer of the session's run. With `back`, the text and the session go
        back to the agent that handed off the session. The run continues within its own limits and
        the given limits. The HTTP status is 409 if another person answered first, or if the session
        does not wait for a person.
        """
        ...


class CalledHandoffs(Called):
    """`HandoffsApi` for synchronous code."""

    initiate = calls(HandoffsApi.initiate)
    list = lists(HandoffsApi.list)
    history = lists(HandoffsApi.history)
    of_session = lists(HandoffsApi.of_session)
    get = calls(HandoffsApi.get)
    cancel = calls(HandoffsApi.cancel)
    start = calls(HandoffsApi.start)
    answer = calls(HandoffsApi.answer)
