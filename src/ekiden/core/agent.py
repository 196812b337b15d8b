"""Defines `Agent` and `Team`."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from ekiden.core.checks.fields import (
    Count,
    ModelName,
    Name,
    Seconds,
    check_fields,
    checked_arguments,
    either,
)
from ekiden.core.context import Parameterized, RunContextWrapper, TContext, ToolContext, TOutput
from ekiden.core.conversation.model import Model, ModelSettings
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError, UnknownAgent, UserError
from ekiden.core.handoffs import Handoff, HandoffRequest, transfer_tool_name
from ekiden.core.profile import (
    BY_FIELD,
    MODEL,
    NO_TRIGGERS,
    Budget,
    Capability,
    Confirmation,
    KindTraits,
    MemorySettings,
    Scope,
    Triggers,
    check_labels,
    traits_named,
)
from ekiden.core.roles import AgentRunner, Assigner
from ekiden.core.runs import AgentHooks
from ekiden.core.text.wording import MAX_NAME, RESERVED, TAKEN
from ekiden.core.tools.tool import (
    ApprovalFunction,
    Enabled,
    FunctionTool,
    ToolErrorFunction,
    ensure_strict_json_schema,
)
from ekiden.core.values import check_line, loads

if TYPE_CHECKING:
    from ekiden.core.guardrails import HandoffGuardrail, InputGuardrail, OutputGuardrail
    from ekiden.core.plan import PlanSettings


Instructions: TypeAlias = (
    str | Callable[[RunContextWrapper[TContext], Any], str | Awaitable[str | None] | None] | None
)
"""The instructions of an agent: a text, or a function that gets the context and the agent and
returns the text."""

_ANSWERED_BY = ("run", "model", "router", "runner", "person")
"""The fields that define how an agent answers; at most one is set."""
_NOT_WITH_KIND = ("run", "router", "runner", "person")
_GUARDRAILS = ("input_guardrails", "output_guardrails", "handoff_guardrails")


@dataclass(eq=False, repr=False)
class Agent(Parameterized, Generic[TContext, TOutput]):
    """A member of a team.

    An agent answers with a model (`model`, `instructions`, `tools`) or with code (`run`). Routing,
    handoffs and records work in the same way for model agents and code agents::

        billing = Agent("billing", instructions="You answer questions about invoices.")
        triage = Agent("triage", instructions="Find out what it is about.", handoffs=[billing])
    """

    name: str
    instructions: Instructions[TContext] = None
    handoff_description: str | None = None
    """A description of this agent, which the models of other agents read to choose a handoff
    target."""
    model: ModelName | Model | None = None
    """``provider:model``, or a `Model` object. `None` means the model of the run."""
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    tools: list[FunctionTool[TContext, Any]] = field(default_factory=list)
    handoffs: list[Agent[Any] | Handoff[Any, Any]] = field(default_factory=list)
    output_type: type[TOutput] | None = None
    """The type of structured answers. `None` or `str` means that answers are text."""
    hooks: AgentHooks[TContext] | None = None
    run: Callable[[Any], Awaitable[Any]] | None = None
    """An async function with a `CodeContext` parameter. The agent runs this function instead of a
    model."""
    title: str | None = None
    """The display name of the agent."""
    description: str | None = None
    """The purpose of the agent in one sentence. People see it, and `semantic` routing uses it."""
    scope: Scope = "project"
    triggers: Triggers = NO_TRIGGERS
    capabilities: tuple[Capability, ...] = ()
    router: Assigner | None = None
    """If set, the agent is a router: it routes every conversation to another agent."""
    accepts: Callable[[Any, HandoffRequest], Any] | None = None
    """A sync or async function that gets the context and the `HandoffRequest` before a handoff to
    this agent. The function returns `True` to accept the handoff, and `False` or a `Decline` to
    refuse it. If `None`, the agent accepts every handoff."""
    available: Enabled = True
    """Whether the agent accepts handoffs now: a fixed value, or a function of the context and the
    agent."""
    max_sessions: Count | None = None
    """The maximum number of sessions that the agent handles at the same time. At this limit the
    agent refuses handoffs. `None` means no limit."""
    runner: AgentRunner | None = None
    """If set, this `AgentRunner` does the work of the agent, for example on a remote system."""
    person: Name | None = None
    """If set, the agent represents the people with this role. A handoff to the agent waits for one
    of these people."""
    can_ask: Sequence[Name] = ()
    """Agents that the model may query with the tool ``ask_agent``. This agent gets the answer and
    keeps the conversation."""
    can_tell: Sequence[Name] = ()
    """Agents that the model may notify with the tool ``tell_agent``."""
    can_ask_people: Sequence[Name] = ()
    """Roles of people that the model may ask with the tool ``ask_person``."""
    input_guardrails: list[InputGuardrail[Any]] = field(default_factory=list)
    """Guardrails that check the input whenever the agent gets the conversation."""
    output_guardrails: list[OutputGuardrail[Any]] = field(default_factory=list)
    """Guardrails that check the answer of the agent before it is delivered."""
    handoff_guardrails: list[HandoffGuardrail[Any]] = field(default_factory=list)
    """Guardrails that check the data of handoffs from this agent."""
    memory: MemorySettings | None = None
    """The settings of the agent's long-term memory. If set, the model gets the tools ``remember``
    and ``recall``. `None` means no memory."""
    budget: Budget | None = None
    """The limits of this agent in each run, such as tokens and money. The spending of other agents
    does not count."""
    plan: PlanSettings | None = None
    """If set, the agent is a supervisor: it splits its input into tasks for other agents.
    `Supervisor` sets this field."""
    runs_on: frozenset[str] = frozenset()
    """Labels that a worker must have to run the agent, such as ``gpu``."""
    adapt_tool: Callable[[FunctionTool], FunctionTool] | None = None
    """A function that wraps each tool that Ekiden adds to the agent, such as ``ask_agent`` and
    ``remember``. Agent files use it to add guardrails and approval to these tools."""
    kind: Name | None = None
    """The name of an agent kind that you registered with `register_agent_kind`, for example for
    agents of another framework. If `None`, the agent has a built-in kind, which depends on fields
    such as `run`, `runner` and `person`."""
    implementation: Any = None
    """For a registered `kind`: the object that does the work of the agent, such as a graph of
    another framework."""

    def __post_init__(self) -> None:
        self._check_name()
        if not isinstance(self.tools, list) or not isinstance(self.handoffs, list):
            raise UserError(f"`tools` and `handoffs` of agent {self.name!r} must be lists")
        for tool in self.tools:
            if not isinstance(tool, FunctionTool):
                raise UserError(_not_a_tool(self.name, tool))
        for edge in self.handoffs:
            if not isinstance(edge, Agent | Handoff):
                raise UserError(not_an_edge(self.name, edge))
        kinds = [name for name in _ANSWERED_BY if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise UserError(
                f"agent {self.name!r} has both `{kinds[0]}` and `{kinds[1]}`: give it one of them"
            )
        if self.plan is not None:
            self._check_alone("plan", (*_NOT_WITH_KIND, "kind"))
        if self.kind is not None:
            self._check_alone("kind", _NOT_WITH_KIND)
        elif self.implementation is not None:
            raise UserError(f"agent {self.name!r} has an `implementation` and no `kind` to read it")
        for name in _GUARDRAILS:
            if getattr(self, name):
                self._check_guardrails(name)
        if not isinstance(self.runs_on, frozenset) or self.runs_on:
            self.runs_on = check_labels(self.runs_on, f"`runs_on` of agent {self.name!r}")
        check_fields(self, f"agent {self.name!r}")
        if self.kind is not None:
            traits_named(self.kind)
        if self.run is None:
            return
        if not iscoroutinefunction(self.run) and not iscoroutinefunction(
            getattr(self.run, "__call__", None)  # noqa: B004
        ):
            raise UserError(f"`run` of agent {self.name!r} must be an async function")

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    @property
    def traits(self) -> KindTraits:
        """The properties of the agent's kind, for example whether a model or a person answers."""
        # Written out for speed: every step of a run asks, and nearly all agents are models.
        if (
            self.router is None
            and self.plan is None
            and self.run is None
            and self.person is None
            and self.runner is None
            and self.kind is None
        ):
            return MODEL
        if self.kind is not None:
            return traits_named(self.kind)
        return next(traits for name, traits in BY_FIELD if getattr(self, name) is not None)

    def _check_name(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise UserError(f"an agent needs a name that is not empty, not {_shown(self.name)}")
        check_line(self.name, what="the name of an agent", longest=2 * MAX_NAME)
        if self.name.casefold() in RESERVED and self.person is None:
            raise UserError(f"the agent name {self.name!r} cannot be used: {TAKEN}")

    def _check_alone(self, field: str, others: Sequence[str]) -> None:
        for name in others:
            if getattr(self, name) is not None:
                raise UserError(f"agent {self.name!r} has both `{field}` and `{name}`")

    def _check_guardrails(self, name: str) -> None:
        from ekiden.core import guardrails

        kind = {
            "input_guardrails": guardrails.InputGuardrail,
            "output_guardrails": guardrails.OutputGuardrail,
            "handoff_guardrails": guardrails.HandoffGuardrail,
        }[name]
        for each in getattr(self, name):
            if not isinstance(each, kind):
                raise UserError(
                    f"`{name}` of agent {self.name!r} has {_shown(each)}: give what "
                    f"@{name.removesuffix('s')} makes"
                )

    @checked_arguments
    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        *,
        custom_output_extractor: Callable[[Any], Any] | None = None,
        parameters: type[Any] | None = None,
        is_enabled: Enabled = True,
        max_turns: Count | None = None,
        budget: Budget | None = None,
        timeout_s: Seconds = 300.0,
        confirmation: Confirmation | None = None,
        needs_approval: bool | Confirmation | ApprovalFunction = False,
        failure_error_function: ToolErrorFunction | Literal["default"] | None = "default",
    ) -> FunctionTool:
        """Return a tool with which another agent can call this agent. This agent answers the call,
        and the calling agent continues.

        This agent works in its own session, and does not see the conversation of the calling agent.
        The model of the calling agent writes the input, which is a text. If `parameters` is a
        pydantic model, the input has the fields of that model instead. If this agent asks people,
        the calling agent is suspended until they answer. The spending of this agent counts as
        spending of the calling agent, and `budget` limits it::

            Agent("desk", tools=[translator.as_tool("translate", "Translate a text.")])

        With `confirmation`, or with ``needs_approval=True``, every call needs human approval. If
        `needs_approval` is a function, this function decides which calls need approval.
        """
        if not callable(needs_approval):
            asked = Confirmation() if needs_approval is True else needs_approval or None
            confirmation = either("confirmation", confirmation, "needs_approval", asked)
            needs_approval = False
        name = tool_name or transfer_tool_name(self.name).removeprefix("transfer_to_")
        parse, schema = _argument_parser(name, parameters)
        use_default = failure_error_function == "default"
        return FunctionTool(
            name=name,
            description=tool_description or self.handoff_description or self.description or "",
            params_json_schema=schema,
            on_invoke_tool=_tool_function(
                self,
                parse,
                custom_output_extractor,
                timeout_s=timeout_s,
                budget=budget,
                max_turns=max_turns,
            ),
            is_enabled=is_enabled,
            confirmation=confirmation,
            needs_approval=needs_approval,
            failure_error_function=_error_text if use_default else failure_error_function,  # type: ignore[arg-type]
            agent=self,
        )

    def clone(self, **changes: Any) -> Agent[TContext, TOutput]:
        """Return a copy of the agent with the fields in `changes` replaced. The copy and the
        original share the list objects of all other fields, such as `tools`."""
        return replace(self, **changes)


_INPUT_SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The full input for the answer."}},
    "required": ["input"],
    "additionalProperties": False,
}
_MAX_ERROR = 2_000
"""The longest error text that the calling model reads, in characters."""


def _tool_function(
    agent: Agent[Any],
    parse: Callable[[str], Any],
    extractor: Callable[[Any], Any] | None,
    **limits: Any,
) -> Callable[[ToolContext[Any], str], Awaitable[Any]]:
    """The function of an agent's tool: call the agent, then apply the output extractor."""

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        answer = await ctx.call_agent(agent.name, parse(arguments), **limits)
        if extractor is None:
            return answer
        extracted = extractor(answer)
        return await extracted if inspect.isawaitable(extracted) else extracted

    return invoke


def _argument_parser(
    name: str, parameters: type[Any] | None
) -> tuple[Callable[[str], Any], dict[str, Any]]:
    """A parser for the arguments of the tool `name`, and their schema for the model."""
    if parameters is None:
        return lambda arguments: _parse_input(name, arguments), _INPUT_SCHEMA
    from pydantic import PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(parameters)
        schema = ensure_strict_json_schema(adapter.json_schema())
    except PydanticUserError as exc:
        raise UserError(f"`parameters` of an agent's tool has no JSON schema: {exc}") from exc

    def parse(arguments: str) -> Any:
        try:
            return adapter.dump_python(adapter.validate_json(arguments or "{}"), mode="json")
        except ValueError as exc:
            raise ModelBehaviorError(f"the arguments of {name!r} are not valid: {exc}") from exc

    return parse, schema


def _parse_input(name: str, arguments: str) -> str:
    try:
        parsed = loads(arguments or "{}")
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError(f"the arguments of {name!r} are not JSON") from exc
    if not isinstance(parsed, dict) or not isinstance(parsed.get("input"), str):
        raise ModelBehaviorError(f"{name!r} takes an object with the text `input`")
    return str(parsed["input"])


def _error_text(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """The text that the calling model reads when the agent fails."""
    text = str(error) if isinstance(error, ModelBehaviorError) else f"It failed: {error}"
    return text if len(text) <= _MAX_ERROR else text[:_MAX_ERROR] + " …"


def not_an_edge(agent: str, found: object) -> str:
    """The error message for an entry of `Agent.handoffs` that is not a handoff."""
    return (
        f"`handoffs` of agent {agent!r} has {_shown(found)}: give Agent objects, "
        "or what handoff(agent) makes"
    )


def _not_a_tool(agent: str, found: object) -> str:
    start = f"`tools` of agent {agent!r} has {_shown(found)}"
    if isinstance(found, Agent | Handoff):
        return f"{start}: what hands the conversation on belongs in `handoffs`"
    if callable(found):
        return f"{start}, which is not a tool: wrap it with @function_tool"
    return f"{start}, which is not a tool: give what @function_tool makes"


def _shown(value: object) -> str:
    return f"{value!r:.80} of type {type(value).__name__}"


class Team:
    """A set of agents: the given `agents`, and all agents that they can reach through handoffs, as
    tools, or as members of a supervisor.

    The agent `entry` gets new conversations. The default of `entry` is the first of `agents`::

        team = Team(triage, name="desk")
        await Runner.run(team, "Where is my parcel?")
    """

    @checked_arguments
    def __init__(self, *agents: Agent[Any], entry: str | None = None, name: str = "team") -> None:
        if not agents:
            raise UserError("a team needs at least one agent")
        self.name = name
        self._agents = {agent.name: agent for agent in reachable(agents)}
        self.entry = self[entry] if entry is not None else agents[0]
        self.router = next((agent for agent in self if agent.router is not None), None)
        """The member that routes, if there is one."""

    def __getitem__(self, name: str) -> Agent[Any]:
        try:
            return self._agents[name]
        except KeyError:
            raise UnknownAgent(name, known=self._agents) from None

    def __contains__(self, name: object) -> bool:
        return name in self._agents

    def __iter__(self) -> Iterator[Agent[Any]]:
        return iter(self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)


def reachable(agents: Iterable[Agent[Any]]) -> Iterator[Agent[Any]]:
    """Return the agents and all their handoff targets, agent tools and plan members, without
    duplicates.

    Raises `UserError` for two agents with the same name, and for objects that are not agents.
    """
    found: dict[str, Agent[Any]] = {}
    todo = deque(agents)
    while todo:
        agent = todo.popleft()
        if not isinstance(agent, Agent):
            raise UserError(
                f"a team needs Agent objects, not {agent!r:.80} ({type(agent).__name__})"
            )
        known = found.get(agent.name)
        if known is agent:
            continue
        if known is not None:
            raise UserError(
                f"two different agents of the team are called {agent.name!r}: use one and the same "
                "Agent object in every `handoffs`, or give one of them another name, "
                "as in agent.clone(name=…)"
            )
        found[agent.name] = agent
        yield agent
        for edge in agent.handoffs:
            if isinstance(edge, Agent):
                todo.append(edge)
            elif not isinstance(edge, Handoff):
                raise UserError(not_an_edge(agent.name, edge))
            elif edge.agent is not None:
                todo.append(edge.agent)
        todo.extend(tool.agent for tool in agent.tools if tool.agent is not None)
        if agent.plan is not None:
            todo.extend(agent.plan.members)
