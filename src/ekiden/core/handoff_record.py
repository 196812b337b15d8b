"""What is asked for with a handoff, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ekiden.core.handoff_terms import HandoffPolicy
from ekiden.core.items import Item

HandoffStatus: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]

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
    timeout: float | None = None
    """Seconds for the target to confirm. `None`: those of the way between the two agents, which are
    300 unless it says otherwise."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """`timestamp`, `handoff_chain` (begins with ``user``), `chain_depth`, `correlation_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRequest:
    """A handoff as the target's `accepts` is shown it, and as a program may ask for it."""

    source: str
    target: str
    context: HandoffContext
    id: str = ""
    """The handoff's id; whoever asks for one leaves it out."""
    policy: HandoffPolicy = "graceful"
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
    status: HandoffStatus
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
