"""Handoff requests: status, actor, context and result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.handoffs.handoff import DEFAULT_TIMEOUT_S, PolicyName

StatusName: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]


class HandoffStatus(StrEnum):
    """The status of a handoff. You can also compare with plain texts, such as ``"rolled_back"``.

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
    """The origin of an action: an agent's model, a trigger, a person, a program, or the system."""

    kind: ActorKind
    name: str = ""

    def to_json(self) -> dict[str, str]:
        """The actor as JSON, as in events."""
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
    """Further JSON from the requesting program."""
    priority: int = 0
    timeout: float = DEFAULT_TIMEOUT_S
    """The target must confirm the handoff within this number of seconds. The default is the timeout
    in the policy of the handoff."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the handoff, with the keys `timestamp`, `handoff_chain` (begins with ``user``),
    `chain_depth` and `correlation_id`."""

    @property
    def given_timeout(self) -> float | None:
        """The timeout that the caller passed; `None` if the caller passed no timeout."""
        # Compare by identity with the default object: a caller who passes 300.0 means it.
        return None if self.timeout is DEFAULT_TIMEOUT_S else self.timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRequest:
    """A requested handoff. The `accepts` function of the target gets this object. A program can
    create the object to request a handoff."""

    source: str
    target: str
    context: HandoffContext
    id: str = ""
    """The id of the handoff. Omit it when you create a request."""
    policy: PolicyName = "graceful"
    reason: str = ""
    capabilities: Sequence[str] = ()
    """Capabilities that the target must have, in addition to the capabilities in `HandoffTerms`."""
    condition: str = ""
    """If set, the handoff is refused when this condition is false. This applies to every policy."""
    created_at: float = 0.0
    """Seconds since 1970."""
    by: Actor = A_PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFailure(Value):
    """The reason of a failed handoff: `code` for programs, and `message` for people."""

    code: RefusalCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffResult(Value):
    """The result of a handoff."""

    request_id: str
    status: StatusName
    source: str
    target: str
    completed_at: float | None = None
    """When the handoff ended, in seconds since 1970; `None` while it is in progress."""
    error: HandoffFailure | None = None
    rollback_performed: bool = False


@dataclass(frozen=True, slots=True)
class Decline:
    """A refusal with its reason. The `accepts` function of an agent returns it.

    For example::

        def accepts(ctx: RunContextWrapper, request: HandoffRequest) -> bool | Decline:
            return Decline("closed on Sundays") if is_sunday() else True
    """

    reason: str = ""
