"""Agents of live sessions, with the SDK's fields."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ekiden.compat.agents.agent import AgentBase
from ekiden.compat.agents.lifecycle import AgentHooksBase, RunHooksBase
from ekiden.core.context import TContext

RealtimeAgentHooks: TypeAlias = AgentHooksBase[TContext]
RealtimeRunHooks: TypeAlias = RunHooksBase[TContext]


@dataclass(eq=False)
class RealtimeAgent(AgentBase[TContext]):
    """An agent for live sessions. The model belongs to the session, not to the agent."""

    instructions: str | Callable[[Any, Any], Any] | None = None
    prompt: Any = None
    handoffs: list[Any] = field(default_factory=list)
    output_guardrails: list[Any] = field(default_factory=list)
    hooks: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a RealtimeAgent is a text, not {self.name!r:.80}")
        for name in ("tools", "handoffs"):
            if not isinstance(getattr(self, name), list):
                raise TypeError(f"`{name}` of RealtimeAgent {self.name!r} must be a list")
        given = self.instructions
        if given is not None and not isinstance(given, str) and not callable(given):
            raise TypeError(
                f"`instructions` of RealtimeAgent {self.name!r} are a text or a function"
            )

    def clone(self, **kwargs: Any) -> RealtimeAgent[TContext]:
        """A copy with some fields changed. Lists that you do not pass are shared."""
        return dataclasses.replace(self, **kwargs)

    async def get_system_prompt(self, run_context: Any) -> str | None:
        """The current instructions."""
        found: Any = self.instructions
        if callable(found):
            found = found(run_context, self)
        return await found if inspect.isawaitable(found) else found  # type: ignore[no-any-return]
