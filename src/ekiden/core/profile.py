"""What an agent says of itself, for those who choose whom to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Annotated, Any, Literal, TypeAlias

from ekiden.core.documents import Value
from ekiden.core.errors import UserError
from ekiden.core.field_checks import Checked, Name, Seconds, Text, check_fields
from ekiden.core.kinds import Allowed
from ekiden.core.patterns import pattern_fault

Scope: TypeAlias = Literal["project", "user", "system"]
"""`system` agents, such as the router itself, are never chosen by routing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers(Value):
    """What in a request speaks for an agent.

    For example::

        Agent("debugger", triggers=Triggers(keywords=("error", "报错"), priority=80))
    """

    keywords: tuple[Text, ...] = ()
    patterns: tuple[Text, ...] = ()
    """Regular expressions in RE2's syntax, matched without regard to case."""
    priority: Annotated[int, Allowed(high=100)] = 50
    """0 to 100: how much of the score counts."""
    examples: tuple[Text, ...] = ()
    """Requests that this agent should get; `semantic` routing learns from them."""

    def __post_init__(self) -> None:
        check_fields(self)
        for pattern in self.patterns:
            fault = pattern_fault(pattern)
            if fault is not None:
                raise UserError(f"Triggers.patterns has {pattern!r:.80}: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability(Checked, Value):
    """Something that an agent can do.

    For example::

        Agent("debugger", capabilities=(Capability(name="debugging", tags=("python",)),))
    """

    name: Name
    description: str = ""
    proficiency: Annotated[float, Allowed(high=1)] = 1.0
    """0 to 1."""
    tags: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A tool with this runs only after a person approved the call.

    For example::

        FunctionTool("pay", "Pay a bill.", schema, pay, confirmation=Confirmation(timeout_s=120))
    """

    prompt_template: str = "Run {tool_name} with {tool_args}?"
    """What the person is asked; ``{tool_name}`` and ``{tool_args}`` are filled in."""
    timeout_s: Seconds | None = None
    """The question expires after this time, and the tool is not run. `None`: 30 seconds for an
    approver that asks a person directly; a question in the inbox has no deadline."""
    title: Text | None = None
    """The title of the question in the inbox, such as ``Refund {amount} {currency}``: each name in
    braces is an argument of the tool. `None`: it names the agent and the tool."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.title is not None:
            title_arguments(self.title)


def title_arguments(title: str) -> list[str]:
    """The arguments that a title names; `UserError` for one that cannot be filled in."""
    try:
        parts = list(Formatter().parse(title))
    except ValueError as exc:
        raise UserError(f"the title {title!r:.80} cannot be read: {exc}") from None
    names = [name for _, name, _, _ in parts if name is not None]
    if any(form or how for _, _, form, how in parts) or not all(map(str.isidentifier, names)):
        raise UserError(
            f"the title {title!r:.80} has more than names of arguments in braces: write {{amount}}"
        )
    return names


def check_title(title: str, schema: Mapping[str, Any], tool: str) -> None:
    """`UserError` if the title names an argument that the tool does not have."""
    known: Any = schema.get("properties")
    is_open = not isinstance(known, Mapping) or schema.get("additionalProperties")
    for name in () if is_open else title_arguments(title):
        if name not in known:
            raise UserError(
                f"the title {title!r:.80} names {name!r}, which is no argument of tool {tool!r}; "
                f"it has: {', '.join(known) or 'none'}"
            )


MemoryKind: TypeAlias = Literal["key_value", "vector"]
"""`key_value`: found by words. `vector`: found by meaning, too."""
MemoryScope: TypeAlias = Literal["user", "app"]
"""Whose it is: that of the session's user, or of everybody who uses the app."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(Checked):
    """What an agent remembers beyond the session, and how it is found again.

    For example::

        Agent("concierge", memory=MemorySettings(type="vector", top_k=3))
    """

    type: MemoryKind = "key_value"
    scope: MemoryScope = "user"
    """With `user` a session without a user remembers nothing, and its agent is told so."""
    backend: Name | None = None
    """`None`: in the store of the session; else the name of another one, such as ``pinecone``."""
    top_k: Annotated[int, Allowed(low=1, high=100)] = 5
    """How many memories `recall` gives at most."""
    threshold: Annotated[float | None, Allowed(high=1)] = None
    """How near they must be, 0 to 1; `None`: as the kind of memory has it."""
