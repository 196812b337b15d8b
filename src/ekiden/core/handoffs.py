"""Handoffs between agents: their policies and tools, and handoff requests with status, actor and
result."""

from __future__ import annotations

import logging
import unicodedata
from binascii import crc32
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from ekiden.core.checks.fields import Name, Seconds, check_fields
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.conversation.model import Item, ToolSpec
from ekiden.core.conversation.run_items import RunItem
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.errors import UserError
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.text.wording import lazy_pattern
from ekiden.core.tools.tool import (
    ApprovalFunction,
    Enabled,
    check_approval_function,
    check_tool_name,
)
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TAgent = TypeVar("TAgent", default=Any)
else:
    from typing import TypeVar

    TAgent = TypeVar("TAgent")


PolicyName: TypeAlias = Literal["immediate", "graceful", "conditional"]
"""`immediate`: the current work of the source agent is cancelled. `graceful`: the source agent
finishes its current step first. `conditional`: like `graceful` if the condition is true; otherwise
the handoff is refused."""


class HandoffPolicy(StrEnum):
    """Names for the values of `policy`. You can also pass a value as text, such as ``"immediate"``.

    For example::

        handoff(billing, policy=HandoffPolicy.IMMEDIATE)
    """

    IMMEDIATE = "immediate"
    GRACEFUL = "graceful"
    CONDITIONAL = "conditional"


HandoffWhen: TypeAlias = Literal["manual", "auto", "conditional"]
"""`manual`: the model gets the handoff as a tool. `auto`: only a trigger starts the handoff.
`conditional`: the model gets the tool only while the condition is true. `auto` without a trigger,
and `conditional` without a condition, mean `manual`."""

TriggerType: TypeAlias = Literal["condition", "event", "explicit", "timeout", "error", "capability"]

Completion: TypeAlias = Literal["answer", "result"]
"""What confirms a handoff: the target's first answer, or the end of its work."""

DEFAULT_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffTrigger:
    """Starts a handoff without the model.

    For example::

        handoff(senior, trigger=HandoffTrigger(type="condition", expression="error_count > 3"))
        handoff(night, trigger=HandoffTrigger(type="event", event="shift.over"))
        handoff(helper, trigger=HandoffTrigger(type="timeout", seconds=60))
        handoff(doctor, trigger=HandoffTrigger(type="error", errors=("ModelError",)))
        handoff(coder, trigger=HandoffTrigger(type="capability", capabilities=("python",)))
    """

    type: TriggerType
    expression: Name | None = None
    """For the type `condition`: an expression over the session's variables and facts of the run,
    such as ``error_count``. The handoff starts when the expression is true."""
    event: Name | None = None
    """For the type `event`: the name of an event that code publishes with ``ctx.publish``."""
    seconds: Seconds | None = None
    """For the type `timeout`: the handoff starts after the active agent has worked this many
    seconds."""
    errors: tuple[Name, ...] = ()
    """For the type `error`: names of exceptions, or error codes. An empty tuple means any error."""
    capabilities: tuple[Name, ...] = ()
    """For the type `capability`: the handoff starts when the active agent lacks one of these
    capabilities."""
    priority: int = 0
    """If several triggers fire, the one with the highest priority wins. At equal priority, the
    first handoff in `handoffs` wins."""

    def __post_init__(self) -> None:
        check_fields(self)
        for owner, name in _TRIGGER_FIELDS.items():
            if owner == self.type and not getattr(self, name) and name != "errors":
                raise UserError(f"a trigger of type {owner!r} needs `{name}`")
            if owner != self.type and getattr(self, name):
                raise UserError(
                    f"`{name}` belongs to triggers of type {owner!r}, not {self.type!r}"
                )

    def __str__(self) -> str:
        shown = getattr(self, _TRIGGER_FIELDS.get(self.type, ""), None)
        if isinstance(shown, tuple):
            shown = ", ".join(shown)
        return f"{self.type}({shown})" if shown else self.type


_TRIGGER_FIELDS: dict[str, str] = {
    "condition": "expression",
    "event": "event",
    "timeout": "seconds",
    "error": "errors",
    "capability": "capabilities",
}
"""By type of trigger, the field that only this type has; `explicit` has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffTerms:
    """The policy of one handoff. The function `ekiden.handoff` creates this object from its
    arguments."""

    policy: PolicyName = "graceful"
    condition: Name | None = None
    """An expression such as ``error_count > 3``. With ``policy="conditional"``, Ekiden refuses the
    handoff if the expression is false. With ``when="conditional"``, the model sees the handoff only
    while the expression is true."""
    when: HandoffWhen = "manual"
    trigger: HandoffTrigger | None = None
    allow_return: bool | Literal["always"] = False
    """If `True`, the handoff may return the task to an agent that had the task before. This
    requires new information, such as a message or a tool result. If ``"always"``, no new
    information is required, and only `Limits.depth` ends a loop."""
    capabilities: tuple[Name, ...] = ()
    """Capabilities that the target must have."""
    confirm: Confirmation | None = None
    """If set, the handoff needs human approval (see `RunConfig.approver`)."""
    timeout_s: Seconds = DEFAULT_TIMEOUT_S
    """A timeout in seconds, which applies to two steps one after the other. First the source agent
    must finish its work within this time, and then the target must confirm the handoff within this
    time."""
    restrict_tools: bool = False
    """If true, the target may use only those of its tools that the source agent also has."""
    budget: Budget | None = None
    """The budget of the target for its work after the handoff. `None` means no separate budget."""
    completes: Completion = "answer"

    def __post_init__(self) -> None:
        check_fields(self, "a handoff")
        if self.policy == "conditional" and not self.condition:
            raise UserError("a handoff with the policy 'conditional' needs a `condition`")
        if type(self.policy) is not str:
            object.__setattr__(self, "policy", str(self.policy))
        if self.is_decided_by_model:
            object.__setattr__(self, "when", "manual")

    @property
    def is_decided_by_model(self) -> bool:
        """Whether only the model decides when to make the handoff. This is true if the `trigger` or
        the `condition` that `when` requires is missing."""
        if self.when == "auto":
            return self.trigger is None
        return self.when == "conditional" and not self.condition


DEFAULT_TERMS = HandoffTerms()


_log = logging.getLogger("ekiden.handoff")

_PREFIX = "transfer_to_"
_MAX_NAME = 64
"""The longest tool name that every provider accepts."""


@dataclass(frozen=True, slots=True)
class HandoffInputData:
    """The data that the target of a handoff sees. A filter gets this object and returns a changed
    copy.

    For example::

        def only_the_question(data: HandoffInputData) -> HandoffInputData:
            return data.clone(input_history=data.input_history[-1:], pre_handoff_items=())
    """

    input_history: str | tuple[Item, ...]
    """The conversation before this run, followed by the user message that started the run."""
    pre_handoff_items: tuple[RunItem, ...]
    """The items that this run added before the turn that requested the handoff."""
    new_items: tuple[RunItem, ...]
    """The items of the turn that requested the handoff, including the call and the output of the
    handoff's tool."""
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[RunItem, ...] | None = None
    """If set, the target sees these items instead of `new_items`. The output of the run always
    contains `new_items`."""

    def clone(self, **changes: Any) -> HandoffInputData:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


HandoffInputFilter: TypeAlias = Callable[
    [HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]
]


@dataclass(eq=False)
class Handoff(Generic[TContext, TAgent]):
    """A handoff that an agent may make to another agent. The function `ekiden.handoff` creates this
    object.

    For example::

        triage = Agent("triage", handoffs=[handoff(billing, tool_name_override="to_billing")])
    """

    tool_name: str
    tool_description: str
    input_json_schema: dict[str, Any]
    on_invoke_handoff: Callable[[RunContextWrapper[Any], str], Awaitable[TAgent]]
    """An async function that gets the context and the arguments of the model as JSON text, and
    returns the target agent.

    The function raises `ModelBehaviorError` when the arguments are invalid.
    """
    agent_name: str
    input_filter: HandoffInputFilter | None = None
    """A function that changes the conversation that the target sees. This function replaces the
    filter in `RunConfig.handoff_input_filter`."""
    strict_json_schema: bool = True
    is_enabled: Enabled = True
    """Whether the handoff is enabled: a bool, or a function that is called in each turn. The model
    does not see a disabled handoff."""
    agent: TAgent | None = None
    """The target agent, if it is known before the handoff."""
    include_context: bool = True
    """If true, the target sees the conversation. If false, the target sees only the user's last
    message and the handoff. An input filter overrides this field."""
    has_callback: bool = True
    """Whether `on_invoke_handoff` runs code of yours, such as the `on_handoff` function of
    `ekiden.handoff`. If false, Ekiden does not call `on_invoke_handoff` and uses `agent` as the
    target."""
    terms: HandoffTerms = DEFAULT_TERMS
    """The policy of the handoff: when it is made, what it requires, and the limits of the
    target."""
    needs_approval: ApprovalFunction | None = None
    """If `terms.confirm` is set: a function that decides which handoffs need human approval. If
    `None`, all of them need approval."""
    spec: ToolSpec = field(init=False, repr=False)
    """The tool definition that the model sees."""

    def __post_init__(self) -> None:
        check_tool_name(self.tool_name, "the tool name of a handoff")
        check_fields(self)
        if self.needs_approval is not None:
            check_approval_function(self.needs_approval, self.tool_name)
        self.spec = ToolSpec(
            name=self.tool_name,
            description=self.tool_description,
            parameters=self.input_json_schema,
            strict=self.strict_json_schema,
        )

    def get_transfer_message(self, agent: Any) -> str:
        """Return the output of the handoff's tool call. The model of the target reads this text."""
        return dumps({"assistant": agent.name})

    @staticmethod
    def default_tool_name(agent: Any) -> str:
        """Return ``transfer_to_<name>``, with the name of `agent`. Logs a warning if this name has
        characters that tool names must not have."""
        tool_name = transfer_tool_name(agent.name)
        is_person = getattr(agent, "person", None) is not None
        if not is_person and _ODD_ASCII.search(agent.name):
            _log.warning(
                "the name %r contains invalid characters for function calling; its handoff is "
                "called %r: pass tool_name_override to choose another name",
                agent.name,
                tool_name,
            )
        return tool_name

    @staticmethod
    def default_tool_description(agent: Any) -> str:
        """Return a sentence that names the target, followed by the description of the target if it
        has one."""
        base = f"Hand the conversation over to the agent {agent.name}, who then handles it."
        described = agent.handoff_description or agent.description
        return f"{base} {described}" if described else base


_ODD_ASCII = lazy_pattern(r"[!-,./:-@\[-^`{-~\x00-\x08\x0e-\x1b\x7f]")
_NOT_WORD = lazy_pattern(r"[^a-z0-9_]")


def no_input() -> dict[str, Any]:
    """The schema of a handoff tool without arguments."""
    return {"type": "object", "properties": {}, "additionalProperties": False, "required": []}


def transfer_tool_name(agent_name: str) -> str:
    """Return ``transfer_to_<name>`` in letters, digits and ``_``, with at most 64 characters.

    Spaces and ASCII punctuation become ``_``. A short hash of the whole name replaces non-Latin
    characters and the end of a very long name, so that two Chinese names stay different. The hash
    is the same on every machine.
    """
    plain = unicodedata.normalize("NFKD", agent_name).encode("ascii", "ignore").decode().lower()
    slug = _NOT_WORD.sub("_", plain)
    room = _MAX_NAME - len(_PREFIX)
    if agent_name.isascii() and len(slug) <= room and slug.strip("_"):
        return _PREFIX + slug
    digest = f"{crc32(agent_name.encode('utf-8', 'surrogatepass')):08x}"
    head = slug.strip("_")[: room - len(digest) - 1].rstrip("_")
    return f"{_PREFIX}{head}_{digest}" if head else _PREFIX + digest


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
    "AGENT_NOT_FOUND", "AGENT_UNAVAILABLE", "PERMISSION_DENIED", "MAX_DEPTH_EXCEEDED",
    "CIRCULAR_HANDOFF", "CAPABILITY_MISSING", "CONDITIONS_NOT_MET", "BUDGET_EXCEEDED",
    "NOT_APPROVED", "GUARDRAIL", "DECLINED", "INVALID_INPUT", "SOURCE_FAILED", "TARGET_FAILED",
    "TIMEOUT", "CANCELLED",
]  # fmt: skip
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
    """Capabilities that the target must have, in addition to `HandoffTerms.capabilities`."""
    condition: str = ""
    """If set, an expression such as ``error_count > 3``. Ekiden refuses the handoff if the
    expression is false, whatever the `policy` is."""
    created_at: float = 0.0
    """When the request was created, in seconds since 1970."""
    by: Actor = A_PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFailure(Value):
    """The reason why a handoff failed: `code` for programs, and `message` for people."""

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
