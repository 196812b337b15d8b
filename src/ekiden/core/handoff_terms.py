"""The terms of a handoff, the request for one, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from ekiden.core.checks.fields import Checked, Count, Name, Positive, Seconds, check_fields
from ekiden.core.conversation.items import Item
from ekiden.core.errors import UserError
from ekiden.core.profile import Confirmation

PolicyName: TypeAlias = Literal["immediate", "graceful", "conditional"]
"""`immediate`: what the source is doing is cancelled. `graceful`: it finishes the step under way
first. `conditional`: graceful if the condition holds, else nothing is touched."""


class HandoffPolicy(StrEnum):
    """The values of `policy`, as names; each is equal to its text.

    For example::

        handoff(billing, policy=HandoffPolicy.IMMEDIATE)
    """

    IMMEDIATE = "immediate"
    GRACEFUL = "graceful"
    CONDITIONAL = "conditional"


HandoffWhen: TypeAlias = Literal["manual", "auto", "conditional"]
"""`manual`: the model is offered it. `auto`: a trigger makes it, and the model is not offered it.
`conditional`: the model is offered it while the condition holds. Without a trigger or a condition
both are `manual`: the model decides."""

TriggerType: TypeAlias = Literal["condition", "event", "explicit", "timeout", "error", "capability"]

Completion: TypeAlias = Literal["answer", "result"]
"""What confirms a handoff: the target's first answer, or the end of its work."""

DEFAULT_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffTrigger:
    """What makes a handoff happen without the model.

    For example::

        handoff(senior, trigger=HandoffTrigger(type="condition", expression="error_count > 3"))
        handoff(night, trigger=HandoffTrigger(type="event", event="shift.over"))
        handoff(helper, trigger=HandoffTrigger(type="timeout", seconds=60))
        handoff(doctor, trigger=HandoffTrigger(type="error", errors=("ModelError",)))
        handoff(coder, trigger=HandoffTrigger(type="capability", capabilities=("python",)))
    """

    type: TriggerType
    expression: Name | None = None
    """`condition`: when it holds."""
    event: Name | None = None
    """`event`: the name that somebody publishes with ``ctx.publish``."""
    seconds: Seconds | None = None
    """`timeout`: seconds of work of the agent that has the conversation."""
    errors: tuple[Name, ...] = ()
    """`error`: names of exceptions or codes of errors; none: any error."""
    capabilities: tuple[Name, ...] = ()
    """`capability`: fires when the agent that has the conversation lacks one of them."""
    priority: int = 0
    """Of several that fire the highest counts, then the first in `handoffs`."""

    def __post_init__(self) -> None:
        check_fields(self)
        needed = _NEEDED[self.type]
        if needed and not getattr(self, needed):
            raise UserError(f"a trigger of type {self.type!r} needs `{needed}`")
        for name, owner in _OWNER.items():
            if owner != self.type and getattr(self, name):
                raise UserError(
                    f"`{name}` belongs to triggers of type {owner!r}, not {self.type!r}"
                )

    def __str__(self) -> str:
        said = getattr(self, _SHOWN.get(self.type, ""), None)
        if isinstance(said, tuple):
            said = ", ".join(said)
        return f"{self.type}({said})" if said else self.type


_NEEDED: dict[str, str] = {
    "condition": "expression",
    "event": "event",
    "explicit": "",
    "timeout": "seconds",
    "error": "",
    "capability": "capabilities",
}
_OWNER = {
    "expression": "condition",
    "event": "event",
    "seconds": "timeout",
    "errors": "error",
    "capabilities": "capability",
}
_SHOWN = {owner: name for name, owner in _OWNER.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Checked):
    """What an agent, the target of a handoff, or a task may spend; it can only be less than what
    whoever passes the work on has left.

    For example::

        handoff(researcher, budget=Budget(tokens=20_000, seconds=120))
    """

    tokens: Count | None = None
    seconds: Seconds | None = None
    """Of work; waiting for people is not counted."""
    money: Positive | None = None
    """In the currency of `RunConfig.prices`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffTerms:
    """Everything about one way between two agents that is not its tool; `handoff` makes it."""

    policy: PolicyName = "graceful"
    condition: Name | None = None
    """For the policy `conditional`: what must hold. With ``when="conditional"``: while it holds,
    the model is offered the handoff."""
    when: HandoffWhen = "manual"
    trigger: HandoffTrigger | None = None
    allow_return: bool | Literal["always"] = False
    """Whether it may lead back to an agent that had the task before, if something changed since;
    ``"always"``: also if nothing did, and only the depth ends it."""
    capabilities: tuple[Name, ...] = ()
    """What the target must be able to do."""
    confirm: Confirmation | None = None
    """A person must agree to it (`RunConfig.approver`)."""
    timeout_s: Seconds = DEFAULT_TIMEOUT_S
    """How long the source may take to finish, and then the target to confirm."""
    restrict_tools: bool = False
    """The target may use only tools that the source may use, too."""
    budget: Budget | None = None
    completes: Completion = "answer"

    def __post_init__(self) -> None:
        check_fields(self, "a handoff")
        if self.policy == "conditional" and not self.condition:
            raise UserError("a handoff with the policy 'conditional' needs a `condition`")
        if type(self.policy) is not str:
            object.__setattr__(self, "policy", str(self.policy))
        if self.leaves_it_to_the_model:
            object.__setattr__(self, "when", "manual")

    @property
    def leaves_it_to_the_model(self) -> bool:
        """Whether nothing says when the handoff is made, so that the model decides."""
        is_bare = self.when == "conditional" and not self.condition
        return is_bare or (self.when == "auto" and self.trigger is None)


DEFAULT_TERMS = HandoffTerms()


StatusName: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]


class HandoffStatus(StrEnum):
    """The values of a handoff's `status`, as names; each is equal to its text.

    For example::

        if record.status == HandoffStatus.ROLLED_BACK: ...
    """

    INITIATED = "initiated"
    VALIDATING = "validating"
    TRANSFERRING = "transferring"
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


ActorKind: TypeAlias = Literal["model", "trigger", "person", "program", "system"]

RefusalCode: TypeAlias = Literal[
    "AGENT_NOT_FOUND",
    "AGENT_UNAVAILABLE",
    "PERMISSION_DENIED",
    "MAX_DEPTH_EXCEEDED",
    "CIRCULAR_HANDOFF",
    "CAPABILITY_MISSING",
    "CONDITIONS_NOT_MET",
    "BUDGET_EXCEEDED",
    "NOT_APPROVED",
    "GUARDRAIL",
    "DECLINED",
    "INVALID_INPUT",
    "SOURCE_FAILED",
    "TARGET_FAILED",
    "TIMEOUT",
    "CANCELLED",
]
"""Why a handoff was not made, or was undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who wanted something: the agent's model, a trigger, a person, a program, or the system."""

    kind: ActorKind
    name: str = ""

    def to_json(self) -> dict[str, str]:
        """As events have it."""
        return {"kind": self.kind, "name": self.name} if self.name else {"kind": self.kind}


A_PROGRAM = Actor(kind="program")
A_PERSON = Actor(kind="person")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffContext:
    """What goes along with a handoff.

    For example::

        HandoffContext(task_id="ticket-7", task_state={"plan": "pro"}, reason="needs a refund")
    """

    task_id: str
    task_state: Mapping[str, Any] = field(default_factory=dict)
    """The session's variables."""
    conversation_history: Sequence[Item] = ()
    reason: str = ""
    context: Any = None
    summary: str = ""
    payload: Any = None
    """What else the program that asked passes along; JSON."""
    priority: int = 0
    timeout: float = DEFAULT_TIMEOUT_S
    """Seconds for the target to confirm. If you leave it out, a time-out that the handoff between
    the two agents declares applies instead."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """`timestamp`, `handoff_chain` (begins with ``user``), `chain_depth`, `correlation_id`."""

    @property
    def given_timeout(self) -> float | None:
        """The time-out, or `None` if the caller left it out."""
        # The very object of the default: a caller who writes 300 means it.
        return None if self.timeout is DEFAULT_TIMEOUT_S else self.timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRequest:
    """A handoff as the target's `accepts` is shown it, and as a program may ask for it."""

    source: str
    target: str
    context: HandoffContext
    id: str = ""
    """The handoff's id; whoever asks for one leaves it out."""
    policy: PolicyName = "graceful"
    reason: str = ""
    capabilities: Sequence[str] = ()
    """What the target must be able to do, beyond what the way between the two requires."""
    condition: str = ""
    """What must hold, whatever the policy; else it is refused."""
    created_at: float = 0.0
    """Seconds since 1970."""
    by: Actor = A_PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFailure:
    """Why it did not work, for programs (`code`) and for people (`message`)."""

    code: RefusalCode
    message: str

    def to_json(self) -> dict[str, str]:
        """As programs read it."""
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffResult:
    """What became of a handoff."""

    request_id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None = None
    """Seconds since 1970; `None` while it is under way."""
    error: HandoffFailure | None = None
    rollback_performed: bool = False

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            "request_id": self.request_id,
            "status": self.status,
            "source": self.source,
            "target": self.target,
            "completed_at": self.completed_at,
            "error": None if self.error is None else self.error.to_json(),
            "rollback_performed": self.rollback_performed,
        }


@dataclass(frozen=True, slots=True)
class Decline:
    """What an agent's `accepts` returns to say no, with the reason.

    For example::

        def accepts(ctx: RunContextWrapper, request: HandoffRequest) -> bool | Decline:
            return Decline("closed on Sundays") if is_sunday() else True
    """

    reason: str = ""
