"""Handoffs: hand tasks and sessions from agent to agent, and see what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.runs import ITEM, LimitOptions
from ekiden.api.texts import EVENT_CURSOR, ONE_LINE, PERSON, PLAIN, SAID, SESSION_ID, Moment
from ekiden.core.handoff_terms import ActorKind, PolicyName, StatusName
from ekiden.core.runs import Run, RunError
from ekiden.core.values.documents import Value, left_out
from ekiden.handoff.records.records import was_made

SessionStanding: TypeAlias = Literal["running", "waiting", "ready", "idle"]
"""`running`: somebody works on it; `waiting`: for people, or for agents; `ready`: somebody will
take it up; `idle`: it waits for the next message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffActor(Value):
    """Who wanted it."""

    kind: ActorKind
    name: str | None = left_out()

    def __str__(self) -> str:
        return f"{self.kind} {self.name or ''}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRefusal(Value):
    """Why a handoff was not made, or was undone."""

    code: str
    """Such as `CIRCULAR_HANDOFF` or `TIMEOUT`."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffMove(Value):
    """One move of a handoff."""

    status: StatusName
    at: float
    """Seconds since 1970."""
    seq: int
    """The number of the event that made it true; 0 of what is only asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffSummary(Value):
    """A handoff; what is empty is left out."""

    id: str
    session_id: str
    source: str
    target: str
    status: StatusName
    by: HandoffActor
    policy: str
    started_at: float
    settled_at: float | None
    """`null` while it is under way."""
    moves: Sequence[HandoffMove]
    reason: str | None = left_out()
    code: str | None = left_out()
    """Why it was refused or undone, for programs."""
    error: str | None = left_out()
    trigger: Mapping[str, Any] | None = left_out()
    """Why a trigger fired."""
    request: str | None = left_out()
    """The id of the request, if a person or a program asked while somebody ran the session."""
    filter: str | None = left_out()
    """The step with what the target was shown, if that was not everything."""
    evaluation: Mapping[str, Any] | None = left_out()
    """How a condition came out that was not met."""
    priority: int | None = left_out()
    metadata: Mapping[str, Any] | None = left_out()
    """The own metadata of whoever asked for it."""
    compensated: Sequence[str] | None = left_out()
    not_compensated: Sequence[str] | None = left_out()

    @property
    def is_made(self) -> bool:
        """Whether the target ever had the conversation."""
        return was_made(self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDetails(HandoffSummary):
    """Everything that is known of one handoff."""

    task_id: str
    correlation_id: str
    call_id: str | None
    """The model's call that asked for it."""
    words: Mapping[str, Any]
    """What went along; empty if the run is not to be shown."""
    compensations_failed: int
    """Each try counted."""
    agent: str
    """Who has the session now."""
    view: Mapping[str, Any] | None
    """What a filter did with the conversation; `null` if there was none."""
    audit: Sequence[str]
    """The ids of its audit records, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem(Value):
    """One item of the conversation that was handed over, or that a filter put there."""

    text: str
    """The first 300 characters; empty if what is said there is not to be shown."""
    role: Literal["user", "assistant", "system", "tool", "call", "other"]
    agent: str | None
    """Who said or did it; `null`: a person, or unknown."""
    fate: Literal["kept", "summarised", "dropped", "added"]
    changed: bool
    """Kept, but cut or covered in part."""
    seq: int | None
    """The event that said it; `null` for what a filter made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownToTarget(Value):
    """What the target was shown of the conversation; of a handoff never made, nothing."""

    kept: int
    summarised: int
    dropped: int
    entries: Sequence[ShownItem]
    """The first 200, in order."""
    more: int
    """How many are not among `entries`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffView(HandoffSummary):
    """A handoff of a session, with what the target was shown."""

    duration_ms: float | None
    """Until it was settled; `null` before."""
    summary: str | None
    """What the source told the target of its work."""
    view: ShownToTarget | None
    """`null` if it was not asked for."""
    rewound: bool
    """The session was taken back to before it; then it is `rolled_back`, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatedHandoff(Value):
    """What became of a handoff that was asked for."""

    handoff_id: str
    """Of the handoff; while it only waits for whoever runs the task, of the request."""
    status: StatusName
    source_agent_id: str
    target_agent_id: str
    error: HandoffRefusal | None
    """Why it was refused or undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledHandoff(Value):
    """What became of a handoff that was to be cancelled."""

    id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None
    """Seconds since 1970; `null` while it is under way."""
    error: HandoffRefusal | None
    """Why it was refused or undone."""
    rollback_performed: bool

    @property
    def is_pending(self) -> bool:
        """Whether whoever runs the session did not undo it yet."""
        return self.completed_at is None and self.status != "rolled_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffEnd(Value):
    """A handoff that was asked for and where its session stands after it."""

    id: str
    session_id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None
    """Seconds since 1970; `null` while it is under way."""
    error: HandoffRefusal | None
    """Why it was refused or undone."""
    rollback_performed: bool
    agent: str
    """Who has the session now."""
    outcome: str | None
    speaker: str | None
    """Who said the answer."""
    output: str | None
    """What the agent answered."""
    standing: SessionStanding
    """How the session stands."""
    problem: RunError | None = field(default=None, metadata={"left_out": True})
    """Why the run that followed failed."""


HandoffId: TypeAlias = Annotated[
    str,
    Told(
        "The handoff's id, or that of a request.",
        min_length=1,
        max_length=160,
        pattern=r"^[A-Za-z0-9_\-.:@/]+$",
    ),
]
"""Those that earlier versions gave have a slash."""
SessionId: TypeAlias = Annotated[
    str, Told("The session's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
_Words: TypeAlias = Annotated[str, Told("", max_length=20_000)]
_Wait: TypeAlias = Annotated[
    float,
    Told(
        "How long to wait, in seconds, until it is known what came of it; then it is told as it "
        "stands.",
        ge=0,
        le=600,
    ),
]
_Priority: TypeAlias = Annotated[
    int,
    Told("How important it is to the caller; the target is told.", ge=-(2**53) + 1, le=2**53 - 1),
]
_Metadata: TypeAlias = Annotated[
    Mapping[str, Any],
    Told(
        "The caller's own, which the target is told. `handoff_chain` names agents that had the "
        "task before: it counts for depth and cycles.",
        max_length=1000,
        examples=({"handoff_chain": ["user", "triage"], "ticket": "T-7"},),
    ),
]
_Timeout: TypeAlias = Annotated[
    float | None,
    Told(
        "The target's time to confirm; without it, as the way between the two says.",
        gt=0,
        le=1e9,
    ),
]


class HandoffFilters(TypedDict, total=False):
    """Which handoffs are listed; what is not given, or `None`, does not matter."""

    session: Annotated[
        str | None, Told("Only those of this session.", max_length=128, pattern=PLAIN)
    ]
    source: Annotated[
        str | None, Told("Only those that this agent made.", max_length=200, pattern=PLAIN)
    ]
    target: Annotated[str | None, Told("Only those to this agent.", max_length=200, pattern=PLAIN)]
    status: Annotated[StatusName | None, Told("Only handoffs with this status.")]
    task: Annotated[str | None, Told("Only those of this task.", max_length=200, pattern=PLAIN)]
    correlation: Annotated[
        str | None, Told("Only those with this correlation id.", max_length=200, pattern=PLAIN)
    ]
    policy: Annotated[PolicyName | None, Told("Only those with this policy.")]
    by: Annotated[
        str | None,
        Told(
            "Only those that this one wanted: model, trigger, person, program, or a name.",
            max_length=200,
            pattern=PLAIN,
        ),
    ]
    since: Annotated[Moment | None, Told("From then on.")]
    until: Annotated[Moment | None, Told("Before then.")]


_CURSOR: Final = rf"^{EVENT_CURSOR}$"
_NOTHING: Final[Mapping[str, Any]] = {}


class Handoffs(Protocol):
    """Who hands what to whom."""

    @endpoint("POST", "/handoff/initiate", scope="run", problems=(404, 413), body="NewHandoff")
    async def initiate(
        self,
        source_agent_id: Annotated[
            str,
            Told(
                "Who has the task: an agent's name.",
                min_length=1,
                max_length=200,
                pattern=ONE_LINE,
                examples=("billing",),
            ),
        ],
        target_agent_id: Annotated[
            str,
            Told(
                "Who is to get it: an agent's name.",
                min_length=1,
                max_length=200,
                pattern=ONE_LINE,
                examples=("billing",),
            ),
        ],
        task_id: Annotated[
            str,
            Told(
                "The task's session; one that does not exist yet is made.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
                examples=("ticket-7",),
            ),
        ],
        *,
        task_state: Annotated[
            Mapping[str, Any],
            Told("Variables of the task that the handoff sets; undone with it.", max_length=1000),
        ] = _NOTHING,
        conversation_history: Annotated[
            Sequence[Mapping[str, Any]],
            Told(
                "What the handoff appends to the conversation of the task: items as the OpenAI "
                "Responses API has them; undone with it. Without the scope `history` only "
                "messages of the user are stored as such; the rest is quoted as data.",
                max_length=10_000,
                examples=([{"role": "user", "content": "I was charged twice."}],),
                schema={"items": ITEM},
            ),
        ] = (),
        policy: PolicyName = "graceful",
        reason: _Words = "",
        correlation_id: Annotated[
            str | None,
            Told(
                "Of a new task: what it belongs to; one that exists keeps its own.",
                min_length=1,
                max_length=200,
                pattern=ONE_LINE,
            ),
        ] = None,
        priority: _Priority = 0,
        timeout_s: _Timeout = None,
        capabilities: Annotated[
            Sequence[Annotated[str, Told("", min_length=1, max_length=200, pattern=PLAIN)]],
            Told(
                "What the target must be able to do; else it is refused.",
                max_length=100,
                examples=(["refunds"],),
            ),
        ] = (),
        condition: Annotated[
            str,
            Told(
                "What must hold, whatever the policy; else it is refused.",
                max_length=2000,
                examples=("error_count < 3",),
            ),
        ] = "",
        metadata: _Metadata = _NOTHING,
        wait_s: _Wait = 10.0,
    ) -> InitiatedHandoff:
        """Hand a task from one agent to another, which then works on it.

        The answer is 200 also when the handoff is refused, or undone: `status` is `failed` or
        `rolled_back` then, and `error` says why. An agent that the team does not have is 404, with
        `refusal` `AGENT_NOT_FOUND`. It is waited for the target's confirmation for `wait_s` seconds
        at most; a `status` that is not final by then can be followed with `GET /handoff/{id}`. A
        task that somebody is working on is handed over by them: until then it is `initiated`.
        """
        ...

    @endpoint("GET", "/handoff", scope="read", cursor=_CURSOR)
    def list(
        self,
        *,
        agent: Annotated[
            str | None, Told("Only those from or to this agent.", max_length=200, pattern=PLAIN)
        ] = None,
        **filters: Unpack[HandoffFilters],
    ) -> Pages[HandoffSummary]:
        """List handoffs, newest first; the first page has before all those that wait for whoever
        runs a session, beyond its limit."""
        ...

    @endpoint(
        "GET", "/handoff/history/{agent_id:path}", scope="read", problems=(404,), cursor=_CURSOR
    )
    def history(
        self,
        agent_id: Annotated[
            str, Told("The agent's name.", min_length=1, max_length=200, pattern=ONE_LINE)
        ],
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
            Told(
                "Tell what each target was shown; then a page has at most 50. Without it, it is "
                "quicker."
            ),
        ] = True,
    ) -> Pages[HandoffView]:
        """List the handoffs of a session, the oldest first, with what each target was shown.

        Those that were refused, failed or undone are there, too; after the last one, beyond the
        limit, those that wait for whoever runs the session. Of runs that are not to be shown
        (`trace_include_sensitive_data=False`) there are no words.
        """
        ...

    @endpoint("GET", "/handoff/{handoff_id:path}", scope="read", problems=(404,))
    async def get(self, handoff_id: HandoffId) -> HandoffDetails:
        """Everything about a handoff: its moves, who wanted it and why, and what the agent saw.

        Of runs that are not to be shown (`trace_include_sensitive_data=False`) there are no words.
        """
        ...

    @endpoint(
        "POST",
        "/handoff/{handoff_id:path}/cancel",
        scope="run",
        problems=(404, 409),
        body="NewCancel",
        pending="Whoever runs the session is asked for it.",
    )
    async def cancel(
        self,
        handoff_id: HandoffId,
        *,
        reason: Annotated[str, Told("Why; it is put on record.", max_length=20_000)] = "",
        wait_s: _Wait = 10.0,
    ) -> CancelledHandoff:
        """Undo a handoff that is not confirmed, or withdraw one that was only asked for.

        200: it is undone, now or before. 202: whoever runs the session did not undo it in time; ask
        again. 409 (`handoff.settled`): it was confirmed, refused or undone for another reason, and
        stays as it is.
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
        to: Annotated[
            str,
            Told(
                "The agent that is to get the session.",
                min_length=1,
                max_length=200,
                pattern=ONE_LINE,
                examples=("billing",),
            ),
        ],
        *,
        reason: Annotated[str, Told("Why; the agent is told.", max_length=20_000)] = "",
        summary: Annotated[str, Told("What was done so far.", max_length=20_000)] = "",
        context: Annotated[Any, Told("What else the agent has to know; JSON.")] = None,
        policy: Annotated[
            PolicyName | None,
            Told("When: at once, after the step under way, or if its condition holds."),
        ] = None,
        timeout_s: _Timeout = None,
        priority: _Priority = 0,
        metadata: _Metadata = _NOTHING,
        wait_s: _Wait = 10.0,
        **limits: Unpack[LimitOptions],
    ) -> HandoffEnd:
        """Hand a session to another agent, and let that work until it answers.

        A session that somebody runs is handed over by them, within the limits that it has: when
        the step is finished, or at once with the policy `immediate`. As with
        `POST /handoff/initiate`, a refusal is 200 with `error`, and an agent that does not exist
        404. `output` is there once the agent has answered.
        """
        ...

    @endpoint(
        "POST",
        "/sessions/{session_id}/answer",
        scope="answer",
        problems=(404, 409, 413),
        body="PersonAnswer",
        pending="The answer is stored; the run goes on.",
    )
    async def answer(
        self,
        session_id: SessionId,
        text: Annotated[
            str,
            Told(
                "",
                min_length=1,
                max_length=100_000,
                pattern=SAID,
                examples=("We replace it.",),
            ),
        ],
        *,
        back: Annotated[
            bool, Told("Give it back with this answer to the agent that handed it over.")
        ] = False,
        by: Annotated[
            str | None,
            Told(
                "Who answers, if it is not the caller; needs the scope `admin`.",
                min_length=1,
                max_length=200,
                pattern=PERSON,
            ),
        ] = None,
        wait_s: _Wait = 10.0,
        **limits: Unpack[LimitOptions],
    ) -> Run:
        """Answer, as a person, a session that was handed to people.

        The words are the answer of its run; with `back` they go to the agent that handed it over.
        The run goes on within the limits that are given, and those that it had.
        409 if somebody else was quicker, or it does not wait for a person.
        """
        ...


class CalledHandoffs(Called):
    """`Handoffs`, called."""

    initiate = calls(Handoffs.initiate)
    list = lists(Handoffs.list)
    history = lists(Handoffs.history)
    of_session = lists(Handoffs.of_session)
    get = calls(Handoffs.get)
    cancel = calls(Handoffs.cancel)
    start = calls(Handoffs.start)
    answer = calls(Handoffs.answer)
