"""The terms of a handoff: when it is made, how, and what the target may do and spend."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from ekiden.core.errors import UserError
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
    expression: str | None = None
    """`condition`: when it holds."""
    event: str | None = None
    """`event`: the name that somebody publishes with ``ctx.publish``."""
    seconds: float | None = None
    """`timeout`: seconds of work of the agent that has the conversation."""
    errors: tuple[str, ...] = ()
    """`error`: names of exceptions or codes of errors; none: any error."""
    capabilities: tuple[str, ...] = ()
    """`capability`: fires when the agent that has the conversation lacks one of them."""
    priority: int = 0
    """Of several that fire the highest counts, then the first in `handoffs`."""

    def __post_init__(self) -> None:
        needed = _NEEDED.get(self.type, _UNKNOWN)
        if needed is _UNKNOWN:
            raise UserError(
                f"a trigger's type is one of {', '.join(_NEEDED)}, not {str(self.type)[:40]!r}"
            )
        if needed and not getattr(self, needed):
            raise UserError(f"a trigger of type {self.type!r} needs `{needed}`")
        for name, owner in _OWNER.items():
            if owner != self.type and getattr(self, name):
                raise UserError(
                    f"`{name}` belongs to triggers of type {owner!r}, not {self.type!r}"
                )
        if self.seconds is not None:
            _check_above_zero("a trigger's `seconds`", self.seconds)

    def __str__(self) -> str:
        said = getattr(self, _SHOWN.get(self.type, ""), None)
        if isinstance(said, tuple):
            said = ", ".join(said)
        return f"{self.type}({said})" if said else self.type


_UNKNOWN = "?"
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
class Budget:
    """What an agent, the target of a handoff, or a task may spend; it can only be less than what
    whoever passes the work on has left.

    For example::

        handoff(researcher, budget=Budget(tokens=20_000, seconds=120))
    """

    tokens: int | None = None
    seconds: float | None = None
    """Of work; waiting for people is not counted."""
    money: float | None = None
    """In the currency of `RunConfig.prices`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                _check_above_zero(f"a budget's `{each.name}`", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffTerms:
    """Everything about one way between two agents that is not its tool; `handoff` makes it."""

    policy: HandoffPolicy = "graceful"
    condition: str | None = None
    """For the policy `conditional`: what must hold. With ``when="conditional"``: while it holds,
    the model is offered the handoff."""
    when: HandoffWhen = "manual"
    trigger: HandoffTrigger | None = None
    allow_return: bool | Literal["always"] = False
    """Whether it may lead back to an agent that had the task before, if something changed since;
    ``"always"``: also if nothing did, and only the depth ends it."""
    capabilities: tuple[str, ...] = ()
    """What the target must be able to do."""
    confirm: Confirmation | None = None
    """A person must agree to it (`RunConfig.approver`)."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long the source may take to finish, and then the target to confirm."""
    restrict_tools: bool = False
    """The target may use only tools that the source may use, too."""
    budget: Budget | None = None
    completes: Completion = "answer"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise UserError(
                    f"a handoff's `{name}` is one of {', '.join(map(str, known))}, "
                    f"not {str(getattr(self, name))[:40]!r}"
                )
        _check_above_zero("a handoff's `timeout_s`", self.timeout_s)
        if self.policy == "conditional" and not self.condition:
            raise UserError("a handoff with the policy 'conditional' needs a `condition`")
        if self.when == "conditional" and not self.condition:
            raise UserError("a handoff with when='conditional' needs a `condition`")
        if self.when == "auto" and self.trigger is None:
            raise UserError("a handoff with when='auto' needs a `trigger`")


_CHOICES: dict[str, tuple[object, ...]] = {
    "policy": ("immediate", "graceful", "conditional"),
    "when": ("manual", "auto", "conditional"),
    "completes": ("answer", "result"),
    "allow_return": (False, True, "always"),
}


def _check_above_zero(what: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (math.isfinite(value) and value > 0):  # type: ignore[arg-type,operator]
        raise UserError(f"{what} must be a number above 0, not {value!r:.40}")


def check_not_below_zero(what: str, value: object, *, whole: bool = False) -> None:
    """`UserError` unless `value` is 0 or a number above it; with `whole` an integer."""
    kind = int if whole else int | float
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not (math.isfinite(value) and value >= 0):  # type: ignore[arg-type,operator]
        wanted = "a whole number" if whole else "a number"
        raise UserError(f"{what} must be {wanted} of 0 or more, not {value!r:.40}")


DEFAULT_TERMS = HandoffTerms()
