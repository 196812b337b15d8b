"""What an agent says of itself, for those who choose whom to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden.core.documents import Value

Scope: TypeAlias = Literal["project", "user", "system"]
"""`system` agents, such as the router itself, are never chosen by routing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers(Value):
    """What in a request speaks for an agent.

    For example::

        Agent("debugger", triggers=Triggers(keywords=("error", "报错"), priority=80))
    """

    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Regular expressions in RE2's syntax, matched without regard to case."""
    priority: int = 50
    """0 to 100: how much of the score counts."""
    examples: tuple[str, ...] = ()
    """Requests that this agent should get; `semantic` routing learns from them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability(Value):
    """Something that an agent can do.

    For example::

        Agent("debugger", capabilities=(Capability(name="debugging", tags=("python",)),))
    """

    name: str
    description: str = ""
    proficiency: float = 1.0
    """0 to 1."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A tool with this runs only after a person's yes.

    For example::

        FunctionTool("pay", "Pay a bill.", schema, pay, confirmation=Confirmation(timeout_s=120))
    """

    prompt_template: str = "Run {tool_name} with {tool_args}?"
    """What the person is asked; ``{tool_name}`` and ``{tool_args}`` are filled in."""
    timeout_s: float | None = None
    """The question expires after this time, and the tool is not run. `None`: 30 seconds for an
    approver that asks a person directly; a question in the inbox has no deadline."""


MemoryKind: TypeAlias = Literal["key_value", "vector"]
"""`key_value`: found by words. `vector`: found by meaning, too."""
MemoryScope: TypeAlias = Literal["user", "app"]
"""Whose it is: that of the session's user, or of everybody who uses the app."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """What an agent remembers beyond the session, and how it is found again.

    For example::

        Agent("concierge", memory=MemorySettings(type="vector", top_k=3))
    """

    type: MemoryKind = "key_value"
    scope: MemoryScope = "user"
    """With `user` a session without a user remembers nothing, and its agent is told so."""
    backend: str | None = None
    """`None`: in the store of the session; else the name of another one, such as ``pinecone``."""
    top_k: int = 5
    """How many memories `recall` gives at most."""
    threshold: float | None = None
    """How near they must be, 0 to 1; `None`: as the kind of memory has it."""
