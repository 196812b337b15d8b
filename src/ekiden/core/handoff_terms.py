"""The terms of a handoff: when it is made, how, and what the target may do and spend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.field_checks import Checked, Count, Name, Positive, Seconds, check_fields
from ekiden.core.profile import Confirmation

HandoffPolicy: TypeAlias = Literal["immediate", "graceful", "conditional"]
"""`immediate`: what the source is doing is cancelled. `graceful`: it finishes the step under way
first. `conditional`: graceful if the condition holds, else nothing is touched."""

HandoffWhen: TypeAlias = Literal["manual", "auto", "conditional"]
"""`manual`: the model is offered it. `auto`: a trigger makes it, and the model is not offered it.
`conditional`: the model is offered it while the condition holds."""

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

    policy: HandoffPolicy = "graceful"
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
        if self.when == "conditional" and not self.condition:
            raise UserError("a handoff with when='conditional' needs a `condition`")
        if self.when == "auto" and self.trigger is None:
            raise UserError("a handoff with when='auto' needs a `trigger`")


DEFAULT_TERMS = HandoffTerms()
