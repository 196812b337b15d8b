"""The policy of a handoff, the request for one, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from ekiden.core.checks.fields import Name, Seconds, check_fields
from ekiden.core.conversation.model import Item
from ekiden.core.errors import UserError
from ekiden.core.profile import Budget, Confirmation

PolicyName: TypeAlias = Literal["immediate", "graceful", "conditional"]
"""`immediate`: the source's current work is cancelled. `graceful`: it finishes its current step
first. `conditional`: graceful if the condition holds, else nothing happens."""


class HandoffPolicy(StrEnum):
    """The values of `policy`, as names; each equals its text.

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
    """Makes a handoff happen without the model.

    For example::

        handoff(senior, trigger=HandoffTrigger(type="condition", expression="error_count > 3"))
        handoff(night, trigger=HandoffTrigger(type="event", event="shift.over"))
        handoff(helper, trigger=HandoffTrigger(type="timeout", seconds=60))
        handoff(doctor, trigger=HandoffTrigger(type="error", errors=("ModelError",)))
        handoff(coder, trigger=HandoffTrigger(type="capability", capabilities=("python",)))
    """

    type: TriggerType
    expression: Name | None = None
    """`condition`: the expression that must hold."""
    event: Name | None = None
    """`event`: the name of an event published with ``ctx.publish``."""
    seconds: Seconds | None = None
    """`timeout`: seconds of work of the agent that has the conversation."""
    errors: tuple[Name, ...] = ()
    """`error`: names of exceptions or codes of errors; none: any error."""
    capabilities: tuple[Name, ...] = ()
    """`capability`: fires when the agent that has the conversation lacks one of them."""
    priority: int = 0
    """The highest one wins, then the first in `handoffs`."""

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
class HandoffTerms:
    """The policy of one handoff connection, apart from its tool; `handoff` makes it."""

    policy: PolicyName = "graceful"
    condition: Name | None = None
    """For the policy `conditional`: the condition of the handoff. With ``when="conditional"``: the
    model is offered the handoff while it holds."""
    when: HandoffWhen = "manual"
    trigger: HandoffTrigger | None = None
    allow_return: bool | Literal["always"] = False
    """Whether it may lead back to an agent that had the task before, if something changed since;
    ``"always"``: even if nothing did, and only the depth limits it."""
    capabilities: tuple[Name, ...] = ()
    """Capabilities that the target must have."""
    confirm: Confirmation | None = None
    """It needs human approval (`RunConfig.approver`)."""
    timeout_s: Seconds = DEFAULT_TIMEOUT_S
    """The time for the source to finish, and then for the target to confirm."""
    restrict_tools: bool = False
    """The target may use only tools that the source may also use."""
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
        """Whether there is no trigger or condition, so that the model decides."""
        is_bare = self.when == "conditional" and not self.condition
        return is_bare or (self.when == "auto" and self.trigger is None)


DEFAULT_TERMS = HandoffTerms()


StatusName: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]


class HandoffStatus(StrEnum):
    """The values of a handoff's `status`, as names; each equals its text.

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
"""Why a handoff was refused or rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The origin of an action: the agent's model, a trigger, a person, a program, or the system."""

    kind: ActorKind
    name: str = ""

    def to_json(self) -> dict[str, str]:
        """As in events."""
        return {"kind": self.kind, "name": self.name} if self.name else {"kind": self.kind}


A_PROGRAM = Actor(kind="program")
A_PERSON = Actor(kind="person")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffContext:
    """The content of a handoff.

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
    """Further data from the requesting program; JSON."""
    priority: int = 0
    timeout: float = DEFAULT_TIMEOUT_S
    """Seconds for the target to confirm. By default the timeout of the handoff between the two
    agents applies."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """`timestamp`, `handoff_chain` (begins with ``user``), `chain_depth`, `correlation_id`."""

    @property
    def given_timeout(self) -> float | None:
        """The timeout, or `None` if the caller left it out."""
        # The very object of the default: a caller who writes 300 means it.
        return None if self.timeout is DEFAULT_TIMEOUT_S else self.timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRequest:
    """A handoff as the target's `accepts` sees it, and as a program may request it."""

    source: str
    target: str
    context: HandoffContext
    id: str = ""
    """The handoff's id; leave it out in a request."""
    policy: PolicyName = "graceful"
    reason: str = ""
    capabilities: Sequence[str] = ()
    """Capabilities that the target must have, in addition to those of the connection."""
    condition: str = ""
    """A condition that must hold, whatever the policy; otherwise it is refused."""
    created_at: float = 0.0
    """Seconds since 1970."""
    by: Actor = A_PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFailure:
    """Why it failed, for programs (`code`) and for people (`message`)."""

    code: RefusalCode
    message: str

    def to_json(self) -> dict[str, str]:
        """As JSON."""
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffResult:
    """The result of a handoff."""

    request_id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None = None
    """Seconds since 1970; `None` while it is in progress."""
    error: HandoffFailure | None = None
    rollback_performed: bool = False

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
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
    """Returned by an agent's `accepts` to refuse, with the reason.

    For example::

        def accepts(ctx: RunContextWrapper, request: HandoffRequest) -> bool | Decline:
            return Decline("closed on Sundays") if is_sunday() else True
    """

    reason: str = ""
