"""An agent: who it is, what it may do, and whom it may hand work to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeAlias

from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import UserError
from ekiden.core.handoff import Handoff
from ekiden.core.hooks import AgentHooks
from ekiden.core.model import Model, ModelSettings
from ekiden.core.tool import Tool

Instructions: TypeAlias = (
    str | Callable[[RunContextWrapper[Any], Any], str | Awaitable[str | None] | None] | None
)
"""A text, or a function of the context and the agent that gives it."""


@dataclass(eq=False, repr=False)
class Agent(Generic[TContext]):
    """A member of a team.

    An agent answers with a model (`model`, `instructions`, `tools`) or with code (`run`); both
    kinds route, hand off and are recorded alike::

        billing = Agent("billing", instructions="You answer questions about invoices.")
        triage = Agent("triage", instructions="Find out what it is about.", handoffs=[billing])
    """

    name: str
    instructions: Instructions = None
    handoff_description: str | None = None
    """What a model that chooses whom to hand to is told of this agent."""
    model: str | Model | None = None
    """``provider:model``, or an object; `None` takes the run's."""
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    tools: list[Tool] = field(default_factory=list)
    handoffs: list[Agent[Any] | Handoff[Any, Any]] = field(default_factory=list)
    output_type: Any = None
    """A type for structured answers; `None` or `str` for text."""
    hooks: AgentHooks[Any] | None = None
    run: Callable[[Any], Awaitable[Any]] | None = None
    """An async function of a `CodeContext`: the agent is that code and needs no model."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise UserError("an agent needs a name that is not empty")
        if self.run is None:
            return
        if self.model is not None:
            raise UserError(f"agent {self.name!r} has both `run` and `model`: give it one of them")
        if not iscoroutinefunction(self.run) and not iscoroutinefunction(
            getattr(self.run, "__call__", None)  # noqa: B004
        ):
            raise UserError(f"`run` of agent {self.name!r} must be an async function")

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    def clone(self, **changes: Any) -> Agent[TContext]:
        """A copy with some fields changed; lists that are not given are shared."""
        return replace(self, **changes)
