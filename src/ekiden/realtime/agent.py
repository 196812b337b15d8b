"""An agent that speaks in a live session."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias

from ekiden.core.agent import Agent, Instructions
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import UserError
from ekiden.core.handoff import Handoff
from ekiden.core.hooks import AgentHooks, RunHooks
from ekiden.core.tool import Tool

RealtimeAgentHooks: TypeAlias = AgentHooks[TContext]
RealtimeRunHooks: TypeAlias = RunHooks[TContext]


@dataclass(eq=False, repr=False)
class RealtimeAgent(Generic[TContext]):
    """A member of a team that talks to a person over a live connection.

    The model belongs to the session, not to the agent: when the conversation is handed over, the
    same connection goes on with the next agent's instructions and tools::

        billing = RealtimeAgent("billing", instructions="You answer questions about invoices.")
        triage = RealtimeAgent("triage", instructions="Find out what it is.", handoffs=[billing])

    `UserError` for a name, a tool or a handoff that cannot be used, and for a tool that needs a
    person's confirmation: there is nobody to ask in a live session.
    """

    name: str
    instructions: Instructions = None
    handoff_description: str | None = None
    """What a model that chooses whom to hand to is told of this agent."""
    tools: list[Tool] = field(default_factory=list)
    handoffs: list[RealtimeAgent[Any] | Handoff[Any, Any]] = field(default_factory=list)
    hooks: AgentHooks[Any] | None = None
    prompt: Mapping[str, Any] | None = None
    """A prompt that the provider keeps, as its API wants it: ``{"id": …, "variables": …}``."""

    def __post_init__(self) -> None:
        self.stand_in()
        if not isinstance(self.handoffs, list):
            raise UserError(f"`handoffs` of agent {self.name!r} must be a list")
        for edge in self.handoffs:
            check_edge(self, edge)
        for tool in self.tools:
            check_tool(self, tool)

    def __repr__(self) -> str:
        return f"<RealtimeAgent {self.name!r}>"

    def clone(self, **changes: Any) -> RealtimeAgent[TContext]:
        """A copy with some fields changed; lists that are not given are shared."""
        return replace(self, **changes)

    def stand_in(self) -> Agent[TContext]:
        """A text agent with the same name, tools and description, whose rules hold here too."""
        return Agent(self.name, handoff_description=self.handoff_description, tools=self.tools)

    async def get_system_prompt(self, run_context: RunContextWrapper[Any]) -> str | None:
        """The instructions as they are now; `UserError` if a function gives anything but text."""
        given: Any = self.instructions
        if callable(given):
            given = given(run_context, self)
            if inspect.isawaitable(given):
                given = await given
        if given is not None and not isinstance(given, str):
            raise UserError(
                f"the instructions of agent {self.name!r} gave {type(given).__name__}, not text"
            )
        return given


def check_edge(agent: RealtimeAgent[Any], edge: object) -> None:
    """`UserError` unless `edge` leads to a realtime agent."""
    if isinstance(edge, RealtimeAgent):
        return
    if isinstance(edge, Handoff) and (edge.agent is None or isinstance(edge.agent, RealtimeAgent)):
        return
    raise UserError(
        f"`handoffs` of agent {agent.name!r} has {edge!r:.80} of type {type(edge).__name__}: give "
        "RealtimeAgent objects, or what realtime_handoff(agent) makes"
    )


def check_tool(agent: RealtimeAgent[Any], tool: Tool) -> None:
    """`UserError` for a tool that a live session must not run."""
    if tool.confirmation is not None:
        raise UserError(
            f"tool {tool.name!r} of agent {agent.name!r} needs a person's confirmation, which a "
            "live session cannot ask for: leave the tool to a text agent, or take its "
            "`confirmation` away"
        )
