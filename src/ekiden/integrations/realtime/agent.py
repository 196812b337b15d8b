"""Agents of live sessions, their handoffs, and the tools and handoffs that the model gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, TypeAlias, TypeVar, overload

from ekiden.core.agent import Agent, Instructions
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.errors import UserError
from ekiden.core.guardrails import HandoffGuardrail
from ekiden.core.handoffs import DEFAULT_TERMS, Handoff, HandoffRequest, PolicyName
from ekiden.core.profile import Capability, Confirmation
from ekiden.core.runs import AgentHooks, RunHooks
from ekiden.core.tools.tool import Enabled, FunctionTool, Tool
from ekiden.core.values import dumps, loads
from ekiden.handoff.offers import default_handoff, enabled_entries, resolve_tool_name_collisions
from ekiden.handoff.tool import OnHandoffWithInput, OnHandoffWithoutInput, handoff
from ekiden.integrations.realtime.model import RealtimeSetup

RealtimeAgentHooks: TypeAlias = AgentHooks[TContext]
RealtimeRunHooks: TypeAlias = RunHooks[TContext]

_FIELDS = (
    "name", "instructions", "handoff_description", "tools", "handoffs", "hooks", "prompt",
    "accepts", "available", "capabilities", "handoff_guardrails",
)  # fmt: skip
_UNSUPPORTED_TERMS = ("when", "trigger", "restrict_tools", "budget", "completes", "timeout_s")
"""Options of a handoff that live sessions do not support."""


class RealtimeAgent(Agent[TContext]):
    """An agent that talks to a person over a live connection.

    The model belongs to the session, not to the agent. After a handoff the connection stays open,
    and the conversation continues with the instructions and tools of the next agent::

        billing = RealtimeAgent("billing", instructions="You answer questions about invoices.")
        triage = RealtimeAgent("triage", instructions="Find out what it is.", handoffs=[billing])

    `accepts`, `available`, `capabilities` and `handoff_guardrails` work as in `Agent`. `prompt`
    refers to a prompt that is stored at the provider, in the format of the provider's API: ``{"id":
    …, "variables": …}``. Raises `UserError` for an invalid name, tool or handoff. Also raises
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
        """Return a copy with some fields changed. The copy shares all lists that you do not pass
        with the original."""
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
                f"the instructions of agent {self.name!r} returned {type(given).__name__}, not text"
            )
        return given


def check_edge(agent: RealtimeAgent[Any], edge: object) -> None:
    """Raise `UserError` for a handoff that a live session does not support."""
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
        name
        for name in _UNSUPPORTED_TERMS
        if getattr(edge.terms, name) != getattr(DEFAULT_TERMS, name)
    ]
    if edge.input_filter is not None:
        names.append("input_filter")
    if not edge.include_context:
        names.append("include_context")
    if names:
        raise UserError(
            f"the handoff of agent {agent.name!r} to {edge.agent_name!r} has `{names[0]}`, which "
            "live sessions do not support: leave it out"
        )


def check_tool(agent: RealtimeAgent[Any], tool: Tool) -> None:
    """Raise `UserError` for a tool that a live session does not support."""
    if tool.confirmation is not None:
        raise UserError(
            f"tool {tool.name!r} of agent {agent.name!r} needs human approval, which a live "
            "session does not ask for: leave the tool to a text agent, or remove its "
            "`confirmation`"
        )


_FIELD = "value"


TInput = TypeVar("TInput")


def is_bare(input_type: Any) -> bool:
    """Whether the JSON of `input_type` is not an object, as for ``int`` or ``list[str]``."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(input_type).json_schema()
    return "$ref" not in schema and schema.get("type") != "object"


def boxed_type(input_type: Any) -> Any:
    """A model with `input_type` as its only field."""
    from pydantic import create_model

    fields: dict[str, Any] = {_FIELD: (input_type, ...)}
    return create_model("Input", **fields)


def unboxing(on_handoff: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback that takes a model of `boxed_type`, and calls `on_handoff` with the field
    of this model."""

    @wraps(on_handoff)
    def call(context: Any, box: Any) -> Any:
        return on_handoff(context, getattr(box, _FIELD))

    return call


def boxed(arguments: str) -> str:
    """Return the arguments as an object with the one field of `boxed_type`. If the model returned
    only the value of this field, the value is put into such an object."""
    try:
        given = loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments
    is_in = isinstance(given, dict) and given.keys() == {_FIELD}
    return arguments if is_in else dumps({_FIELD: given})


@overload
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    on_handoff: OnHandoffWithoutInput | None = None,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]: ...
@overload
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    on_handoff: OnHandoffWithInput[TInput],
    input_type: type[TInput],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]: ...
def realtime_handoff(
    agent: RealtimeAgent[TContext],
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: Callable[..., Any] | None = None,
    input_type: Any = None,
    is_enabled: Enabled = True,
    policy: PolicyName = "graceful",
    condition: str | None = None,
    allow_return: bool | Literal["always"] = False,
    capabilities: Iterable[str] = (),
    confirm: bool | Confirmation = False,
) -> Handoff[TContext, RealtimeAgent[TContext]]:
    """Create a handoff to `agent` in a live session. The arguments are the same as in `handoff`.

    An input filter is not possible, because the model keeps the whole conversation.
    ``confirm=True`` requires human approval. See `RealtimeRunConfig.approver`. An `input_type` that
    is not an object, such as ``int``, becomes an object with the field ``value``::

        async def note(ctx: RunContextWrapper[Desk], why: Reason) -> None:
            await ctx.context.log(why.text)

        triage = RealtimeAgent(
            "triage", handoffs=[realtime_handoff(billing, on_handoff=note, input_type=Reason)]
        )

    Raises `UserError` for an invalid agent, an `on_handoff` with a wrong signature, an `input_type`
    without a strict JSON schema, and contradictory arguments. Raises `ConditionError` for an
    invalid condition.
    """
    if not isinstance(agent, RealtimeAgent):
        raise UserError(
            f"realtime_handoff() needs a RealtimeAgent, not {agent!r:.80} ({type(agent).__name__})"
        )
    options: dict[str, Any] = {"on_handoff": on_handoff, "input_type": input_type}
    is_boxed = input_type is not None and callable(on_handoff) and is_bare(input_type)
    if is_boxed and on_handoff is not None:
        options = {"on_handoff": unboxing(on_handoff), "input_type": boxed_type(input_type)}
    made: Any = handoff(
        agent,
        tool_name_override=tool_name_override,
        tool_description_override=tool_description_override,
        is_enabled=is_enabled,
        policy=policy,
        condition=condition,
        allow_return=allow_return,
        capabilities=capabilities,
        confirm=confirm,
        **options,
    )
    leads_here: Handoff[TContext, RealtimeAgent[TContext]] = made
    if not is_boxed:
        return leads_here

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> RealtimeAgent[TContext]:
        return await leads_here.on_invoke_handoff(context, boxed(arguments))

    return replace(leads_here, on_invoke_handoff=invoke)


def edges_of(agent: RealtimeAgent[Any]) -> list[Handoff[Any, RealtimeAgent[Any]]]:
    """Return all handoffs of `agent`, whether they are enabled or not. Raises `UserError` for an
    unsupported handoff."""
    edges = []
    for edge in agent.handoffs:
        check_edge(agent, edge)
        edges.append(edge if isinstance(edge, Handoff) else default_handoff(edge))
    return edges


async def collect_enabled_handoffs(
    agent: RealtimeAgent[Any], context: RunContextWrapper[Any]
) -> list[Handoff[Any, RealtimeAgent[Any]]]:
    """Return the enabled handoffs of `agent`, in order.

    Async checks run concurrently. If a check raises an exception, the other checks are cancelled,
    and the exception is raised.
    """
    return await enabled_entries(edges_of(agent), agent, context)


Entry: TypeAlias = FunctionTool | Handoff[Any, RealtimeAgent[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentOffer:
    """The instructions, tools and handoffs of the active agent, in the form that the model gets."""

    agent: RealtimeAgent[Any]
    setup: RealtimeSetup
    entries: Mapping[str, Entry]
    """The tools and handoffs in `setup`, by name."""


async def make_offer(
    agent: RealtimeAgent[Any], context: RunContextWrapper[Any], received: str | None = None
) -> AgentOffer:
    """Create the current offer. `received`, the prompt block of a handoff, follows the
    instructions.

    Raises `UserError` for a duplicate name or an unsupported tool, and the exceptions of the
    agent's own functions.
    """
    for tool in agent.tools:
        check_tool(agent, tool)
    entries: list[Entry] = await enabled_entries([*agent.tools, *edges_of(agent)], agent, context)
    by_name = {entry.spec.name: entry for entry in entries}
    if len(by_name) != len(entries):
        tools = [entry for entry in entries if isinstance(entry, FunctionTool)]
        resolve_tool_name_collisions(tools, [e for e in entries if isinstance(e, Handoff)])
    instructions = await agent.get_system_prompt(context)
    if received is not None:
        instructions = f"{instructions}\n\n{received}" if instructions else received
    setup = RealtimeSetup(
        instructions=instructions, tools=tuple(entry.spec for entry in entries), prompt=agent.prompt
    )
    return AgentOffer(agent=agent, setup=setup, entries=by_name)
