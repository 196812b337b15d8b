"""A handoff: a connection from one agent to another, its policy, and its tool for the model."""

from __future__ import annotations

import logging
import re
import unicodedata
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from ekiden.core.checks.fields import Name, Seconds, check_fields
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.conversation.model import Item, ToolSpec
from ekiden.core.conversation.run_items import RunItem
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.tool import ApprovalFunction, Enabled, check_approval_function, check_tool_name
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TAgent = TypeVar("TAgent", default=Any)
else:
    from typing import TypeVar

    TAgent = TypeVar("TAgent")


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


_log = logging.getLogger("ekiden.handoff")

_PREFIX = "transfer_to_"
_MAX_NAME = 64
"""The longest tool name that every provider accepts."""


@dataclass(frozen=True, slots=True)
class HandoffInputData:
    """What the target of a handoff will see; a filter returns a changed copy.

    For example::

        def only_the_question(data: HandoffInputData) -> HandoffInputData:
            return data.clone(input_history=data.input_history[-1:], pre_handoff_items=())
    """

    input_history: str | tuple[Item, ...]
    """The conversation before this run."""
    pre_handoff_items: tuple[RunItem, ...]
    """The run's items before the turn that requested the handoff."""
    new_items: tuple[RunItem, ...]
    """The items of that turn, including the handoff's own call and output."""
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[RunItem, ...] | None = None
    """If set, the target sees these instead of `new_items`, which stay the run's output."""

    def clone(self, **changes: Any) -> HandoffInputData:
        """A copy with some fields changed."""
        return replace(self, **changes)


HandoffInputFilter: TypeAlias = Callable[
    [HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]
]


@dataclass(eq=False)
class Handoff(Generic[TContext, TAgent]):
    """A connection to another agent; `ekiden.handoff` makes one.

    For example::

        triage = Agent("triage", handoffs=[handoff(billing, tool_name_override="to_billing")])
    """

    tool_name: str
    tool_description: str
    input_json_schema: dict[str, Any]
    on_invoke_handoff: Callable[[RunContextWrapper[Any], str], Awaitable[TAgent]]
    """Called with the context and the JSON text of the arguments; returns the target.

    Raises `ModelBehaviorError` when the arguments are invalid."""
    agent_name: str
    input_filter: HandoffInputFilter | None = None
    """Changes what the target sees; overrides the run's own filter."""
    strict_json_schema: bool = True
    is_enabled: Enabled = True
    """Evaluated each turn; a disabled handoff is not shown to the model."""
    agent: TAgent | None = None
    """The target, if it is known before the handoff is invoked."""
    include_context: bool = True
    """Whether the target sees the conversation, or only the handoff's message."""
    has_callback: bool = True
    """Whether `on_invoke_handoff` does more than return `agent`: then it must be awaited."""
    terms: HandoffTerms = DEFAULT_TERMS
    """The handoff's policy: when and how it is made, and the target's limits."""
    needs_approval: ApprovalFunction | None = None
    """Decides which handoffs need the approval that the policy asks for; without it, all do."""
    spec: ToolSpec = field(init=False, repr=False)
    """As the model sees it; created once."""

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
        """What the model reads after the transfer."""
        return dumps({"assistant": agent.name})

    @staticmethod
    def default_tool_name(agent: Any) -> str:
        """``transfer_to_<name>`` for an agent; warns if the name loses punctuation."""
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
        """Names the target, and its description if it has one."""
        base = f"Hand the conversation over to the agent {agent.name}, who then handles it."
        described = agent.handoff_description or agent.description
        return f"{base} {described}" if described else base


_ODD_ASCII = re.compile(r"[!-,./:-@\[-^`{-~\x00-\x08\x0e-\x1b\x7f]")
_NOT_WORD = re.compile(r"[^a-z0-9_]")


def transfer_tool_name(agent_name: str) -> str:
    """``transfer_to_<name>`` in letters, digits and ``_``, at most 64 characters.

    Spaces and ASCII punctuation become ``_``. Characters that a tool name cannot hold (other
    scripts, a very long name) are replaced by a short hash of the whole name, so that two Chinese
    names stay different; the hash is the same on every machine.
    """
    plain = unicodedata.normalize("NFKD", agent_name).encode("ascii", "ignore").decode().lower()
    slug = _NOT_WORD.sub("_", plain)
    room = _MAX_NAME - len(_PREFIX)
    if agent_name.isascii() and len(slug) <= room and slug.strip("_"):
        return _PREFIX + slug
    digest = f"{zlib.crc32(agent_name.encode('utf-8', 'surrogatepass')):08x}"
    head = slug.strip("_")[: room - len(digest) - 1].rstrip("_")
    return f"{_PREFIX}{head}_{digest}" if head else _PREFIX + digest
