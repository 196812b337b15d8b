"""An agent that speaks in a live session."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ekiden.core.agent import Agent, Instructions
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import UserError
from ekiden.core.guardrails import HandoffGuardrail
from ekiden.core.handoffs.handoff import DEFAULT_TERMS, Handoff
from ekiden.core.handoffs.request import HandoffRequest
from ekiden.core.hooks import AgentHooks, RunHooks
from ekiden.core.profile import Capability
from ekiden.core.tools.tool import Enabled, Tool

RealtimeAgentHooks: TypeAlias = AgentHooks[TContext]
RealtimeRunHooks: TypeAlias = RunHooks[TContext]

_FIELDS = (
    "name", "instructions", "handoff_description", "tools", "handoffs", "hooks", "prompt",
    "accepts", "available", "capabilities", "handoff_guardrails",
)  # fmt: skip
_TEXT_TERMS = ("when", "trigger", "restrict_tools", "budget", "completes", "timeout_s")
"""Terms of a handoff that only runs of text can keep."""


class RealtimeAgent(Agent[TContext]):
    """A member of a team that talks to a person over a live connection.

    The model belongs to the session, not to the agent: after a handoff, the same connection
    continues with the next agent's instructions and tools::

        billing = RealtimeAgent("billing", instructions="You answer questions about invoices.")
        triage = RealtimeAgent("triage", instructions="Find out what it is.", handoffs=[billing])

    `accepts`, `available`, `capabilities` and `handoff_guardrails` work as for `Agent`. `prompt`
    names a prompt that the provider stores, in the format of the provider's API: ``{"id": …,
    "variables": …}``. Raises `UserError` for an invalid name, tool or handoff. Also raises
    `UserError` for a tool that needs human approval, because live sessions do not support approval
    of tools.
    """

    def __init__(
        self,
        name: str,
        instructions: Instructions = None,
        handoff_description: str | None = None,
        tools: list[Tool] | None = None,
        handoffs: list[Agent[Any] | Handoff[Any, Any]] | None = None,
        hooks: AgentHooks[Any] | None = None,
        prompt: Mapping[str, Any] | None = None,
        *,
        accepts: Callable[[Any, HandoffRequest], Any] | None = None,
        available: Enabled = True,
        capabilities: tuple[Capability, ...] = (),
        handoff_guardrails: list[HandoffGuardrail[Any]] | None = None,
    ) -> None:
        self.name = name
        self.prompt = prompt
        edges = [] if handoffs is None else handoffs
        if not isinstance(edges, list):
            raise UserError(f"`handoffs` of agent {name!r} must be a list")
        for edge in edges:
            check_edge(self, edge)
        super().__init__(
            name,
            instructions=instructions,
            handoff_description=handoff_description,
            tools=[] if tools is None else tools,
            handoffs=edges,
            hooks=hooks,
            accepts=accepts,
            available=available,
            capabilities=capabilities,
            handoff_guardrails=[] if handoff_guardrails is None else handoff_guardrails,
        )
        for tool in self.tools:
            check_tool(self, tool)

    def __repr__(self) -> str:
        return f"<RealtimeAgent {self.name!r}>"

    def clone(self, **changes: Any) -> RealtimeAgent[TContext]:
        """A copy with some fields changed. Lists that you do not pass are shared with the
        original."""
        return RealtimeAgent(**{**{name: getattr(self, name) for name in _FIELDS}, **changes})

    async def get_system_prompt(self, run_context: RunContextWrapper[Any]) -> str | None:
        """The current instructions. Raises `UserError` if a function does not return a text."""
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
    """`UserError` unless `edge` leads to a realtime agent, on terms that a live session keeps."""
    if isinstance(edge, RealtimeAgent):
        return
    if isinstance(edge, Handoff) and (edge.agent is None or isinstance(edge.agent, RealtimeAgent)):
        _check_terms(agent, edge)
        return
    raise UserError(
        f"`handoffs` of agent {agent.name!r} has {edge!r:.80} of type {type(edge).__name__}: give "
        "RealtimeAgent objects, or what realtime_handoff(agent) makes"
    )


def _check_terms(agent: RealtimeAgent[Any], edge: Handoff[Any, Any]) -> None:
    names = [
        name for name in _TEXT_TERMS if getattr(edge.terms, name) != getattr(DEFAULT_TERMS, name)
    ]
    if edge.input_filter is not None:
        names.append("input_filter")
    if not edge.include_context:
        names.append("include_context")
    if names:
        raise UserError(
            f"the handoff of agent {agent.name!r} to {edge.agent_name!r} has `{names[0]}`, which "
            "only runs of text can keep: leave it out in a live session"
        )


def check_tool(agent: RealtimeAgent[Any], tool: Tool) -> None:
    """`UserError` for a tool that a live session must not run."""
    if tool.confirmation is not None:
        raise UserError(
            f"tool {tool.name!r} of agent {agent.name!r} needs human approval, which a live "
            "session does not ask for: leave the tool to a text agent, or take its "
            "`confirmation` away"
        )
