"""Creates the handoffs and guardrails of agent files, and checks them against the team."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ekiden.agents.definition import (
    AgentDefinition,
    AgentFileProblem,
    GuardrailDefinition,
    HandoffDefinition,
    Place,
    printable,
    shown,
)
from ekiden.agents.team_checks import ROUTER
from ekiden.capabilities import missing_capabilities
from ekiden.core.agent import Agent
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ConditionError, EkidenError, UserError
from ekiden.core.guardrails import HandoffGuardrail, InputGuardrail, OutputGuardrail
from ekiden.core.handoffs import Handoff
from ekiden.core.profile import Capability, Confirmation
from ekiden.core.tools.guardrails import ToolInputGuardrail, ToolOutputGuardrail
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import BEST, PERSON, declared_handoff, make_terms, parse_filter, person
from ekiden.handoff.tool import CONFIRM_HANDOFF

_MCP = ("mcp:", "mcp__")


def is_mcp_name(name: str) -> bool:
    """Whether a name in `tools.allow` is the name of an MCP tool."""
    return name.startswith(_MCP)


_Fault: TypeAlias = tuple[str, str]
"""Code and message."""


@dataclass(slots=True, kw_only=True, eq=False)
class Edges:
    """Gives agents the handoffs that their files declare, and collects the problems of these
    handoffs.

    A handoff with an error is left out.
    """

    definitions: Sequence[AgentDefinition]
    """The definitions of all agents, including those in files with other errors."""
    agents: Mapping[str, Agent[Any]]
    problems: list[AgentFileProblem]
    to_router: dict[str, list[HandoffDefinition]] = field(default_factory=dict)
    """The handoffs of each agent to the router, by the agent's name. The router is created after
    the agents."""
    _by_name: dict[str, AgentDefinition] = field(init=False)
    _people: dict[str, Agent[Any]] = field(default_factory=dict)
    _unreadable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._by_name = {each.name: each for each in self.definitions}

    def connect(self) -> None:
        """Create all valid handoffs of the team."""
        for source in self.definitions:
            self._check_conditions(source)
        for source in self.definitions:
            for edge in source.handoffs:
                self._connect(source, edge)

    def _check_conditions(self, source: AgentDefinition) -> None:
        for written in source.conditions:
            from ekiden.conditions import compile_condition

            try:
                compile_condition(written.text)
            except ConditionError as exc:
                self._unreadable.add(written.text)
                line, column = written.place(exc.position)
                message = f"`{written.at}` is {shown(written.text)}: {exc.problem}"
                self.problems.append(
                    AgentFileProblem(
                        path=source.path,
                        line=line,
                        column=column,
                        code="agent.bad_condition",
                        message=printable(message),
                    )
                )

    def _connect(self, source: AgentDefinition, edge: HandoffDefinition) -> None:
        faults = [*_filter_faults(edge), *self._capability_faults(source, edge)]
        for code, message in faults:
            self.problems.append(_problem(source, edge, code, message))
        agent = self.agents.get(source.name)
        if faults or agent is None or not self._unreadable.isdisjoint(_conditions(edge)):
            return
        for fault in (_never_fires(source, edge), self._no_common_tools(source, edge)):
            if fault is not None:
                self.problems.append(_problem(source, edge, *fault, severity="warning"))
        if edge.to == ROUTER:
            known = self.to_router.setdefault(source.name, [])
            # The model gets one tool for the router; the checks of the files report a second one.
            if edge.when == "auto" or all(each.when == "auto" for each in known):
                known.append(edge)
            return
        target = self._target(edge.to)
        if target is None:  # The checks of the files have reported it.
            return
        new = declared_edge(edge, target)
        other = _same_tool(agent, new)
        if other is None:
            agent.handoffs.append(new)
        elif (fault := _clash(new, other)) is not None:
            self.problems.append(_problem(source, edge, *fault))

    def _target(self, name: str) -> Agent[Any] | Literal["*"] | None:
        if name == BEST:
            return "*"
        if not name.startswith(PERSON):
            return self.agents.get(name)
        if name not in self._people:
            self._people[name] = person(name.removeprefix(PERSON))
        return self._people[name]

    def _capability_faults(
        self, source: AgentDefinition, edge: HandoffDefinition
    ) -> Iterator[_Fault]:
        try:
            if edge.trigger is not None:
                missing_capabilities(edge.trigger.capabilities, ())
            fault = self._missing(source, edge)
        except UserError as exc:
            yield "bad_value", str(exc)
        else:
            if fault is not None:
                yield fault

    def _missing(self, source: AgentDefinition, edge: HandoffDefinition) -> _Fault | None:
        required = edge.capabilities
        if not required:
            return None
        if edge.to == BEST:
            if any(_is_able(each, required) for each in self._others(source)):
                return None
            return (
                "capability_missing",
                f"no other agent of the team has all of {', '.join(required)}; give one of them "
                "these `capabilities`, or ask for less",
            )
        has = self._capabilities(edge.to)
        if has is None or not (missing := missing_capabilities(required, has)):
            return None
        listed = ", ".join(each.name for each in has) or "none"
        return (
            "capability_missing",
            f"{edge.to!r} lacks {', '.join(missing)} (it has: {listed}), so that this handoff "
            "could never be made; add the capability there, or leave it out here",
        )

    def _others(self, source: AgentDefinition) -> Iterable[AgentDefinition]:
        return (
            each for each in self.definitions if each.name != source.name and each.scope != "system"
        )

    def _capabilities(self, name: str) -> Sequence[Capability] | None:
        """The capabilities of the target; `None` for an unknown agent."""
        if name == ROUTER or name.startswith(PERSON):
            return ()
        found = self._by_name.get(name)
        return None if found is None else found.capabilities

    def _no_common_tools(self, source: AgentDefinition, edge: HandoffDefinition) -> _Fault | None:
        target = self._by_name.get(edge.to)
        if not edge.restrict_tools or target is None or not target.tools:
            return None
        if any(map(is_mcp_name, source.tools)) and any(map(is_mcp_name, target.tools)):
            return None  # The tools of a server are known only after it is connected.
        if not set(source.tools).isdisjoint(target.tools):
            return None
        return (
            "no_common_tools",
            f"{edge.to!r} has no tool that {source.name!r} has, so that after this handoff it "
            "could use none; leave `restrict_tools` out, or give both a tool",
        )


def declared_edge(
    edge: HandoffDefinition, target: Agent[Any] | Literal["*"]
) -> Handoff[Any, Agent[Any]]:
    """The handoff that a file declares. Raises `ConditionError` for an invalid condition."""
    terms = make_terms(
        when=edge.when,
        policy=edge.policy,
        condition=edge.condition,
        trigger=edge.trigger,
        allow_return=edge.allow_return,
        capabilities=edge.capabilities,
        confirm=_approval(edge.confirm),
        timeout_s=edge.timeout_s,
        restrict_tools=edge.restrict_tools,
        budget=edge.budget,
        completes=edge.completes,
    )
    return declared_handoff(
        target,
        description=edge.description,
        include_context=edge.include_context,
        filters=edge.filters,
        terms=terms,
    )


def _approval(written: Confirmation | None) -> bool | Confirmation:
    """The approval of a handoff, with the default question for handoffs."""
    if written is None:
        return False
    if written.prompt_template != Confirmation().prompt_template:
        return written
    return replace(written, prompt_template=CONFIRM_HANDOFF.prompt_template)


def _conditions(edge: HandoffDefinition) -> Iterator[str]:
    if edge.condition is not None:
        yield edge.condition
    if edge.trigger is not None and edge.trigger.expression is not None:
        yield edge.trigger.expression


def _filter_faults(edge: HandoffDefinition) -> Iterator[_Fault]:
    for text in edge.filters:
        try:
            parse_filter(text)
        except UserError as exc:
            yield "bad_filter", str(exc)


def _is_able(definition: AgentDefinition, required: Sequence[str]) -> bool:
    return not missing_capabilities(required, definition.capabilities)


def _never_fires(source: AgentDefinition, edge: HandoffDefinition) -> _Fault | None:
    trigger = edge.trigger
    if trigger is None or trigger.type != "capability":
        return None
    if missing_capabilities(trigger.capabilities, source.capabilities):
        return None
    return (
        "trigger_never_fires",
        f"{source.name!r} has {', '.join(trigger.capabilities)} itself, so that this trigger never "
        "fires; name what it lacks",
    )


def _same_tool(agent: Agent[Any], new: Handoff[Any, Agent[Any]]) -> Handoff[Any, Agent[Any]] | None:
    """Another handoff of the agent with the same tool name."""
    if new.terms.when == "auto":
        return None
    offered = (each for each in agent.handoffs if isinstance(each, Handoff))
    return next(
        (each for each in offered if each.terms.when != "auto" and each.tool_name == new.tool_name),
        None,
    )


def _clash(new: Handoff[Any, Any], other: Handoff[Any, Any]) -> _Fault | None:
    if new.agent_name == other.agent_name != BEST:
        return None  # The checks of the files have reported it.
    if new.agent_name == other.agent_name:
        return (
            "repeated_handoff",
            f"there is already a handoff to the best at {', '.join(other.terms.capabilities)}; "
            "write one, with one description",
        )
    return (
        "same_tool_name",
        f"{new.agent_name!r} and {other.agent_name!r} would both be reached by the tool "
        f"{new.tool_name}; rename one of them",
    )


def _problem(
    source: AgentDefinition,
    edge: HandoffDefinition,
    code: str,
    message: str,
    *,
    severity: Literal["error", "warning"] = "error",
) -> AgentFileProblem:
    return AgentFileProblem(
        path=source.path,
        line=edge.line,
        column=edge.column,
        code=f"agent.{code}",
        message=printable(message),
        severity=severity,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGuardrails:
    """The guardrails of an agent file."""

    inputs: list[InputGuardrail[Any]] = field(default_factory=list)
    outputs: list[OutputGuardrail[Any]] = field(default_factory=list)
    """The guardrails of answers: first the schema, then the validator."""
    handoffs: list[HandoffGuardrail[Any]] = field(default_factory=list)
    tool_inputs: list[ToolInputGuardrail[Any]] = field(default_factory=list)
    tool_outputs: list[ToolOutputGuardrail[Any]] = field(default_factory=list)

    def guard_tools(self, agent: Agent[Any]) -> None:
        """Add the guardrails to all current tools of the agent."""
        for at, tool in enumerate(agent.tools):
            agent.tools[at] = self.guarded(tool)

    def guarded(self, tool: FunctionTool) -> FunctionTool:
        """Return the tool with the guardrails of the file. Each guardrail is added only once."""
        if not (self.tool_inputs or self.tool_outputs):
            return tool
        inputs, outputs = tool.tool_input_guardrails or [], tool.tool_output_guardrails or []
        return replace(
            tool,
            tool_input_guardrails=inputs + [one for one in self.tool_inputs if one not in inputs],
            tool_output_guardrails=outputs
            + [one for one in self.tool_outputs if one not in outputs],
        )


def file_guardrails(
    definition: AgentDefinition,
    *,
    root: Path | None,
    inert: bool,
    problems: list[AgentFileProblem],
) -> FileGuardrails:
    """Create the guardrails of a file. An invalid guardrail is left out, and its error is added to
    `problems`.

    Functions are searched first in the folder `root`. With `inert`, no function is imported, and a
    guardrail that refuses everything replaces each function.
    """
    declared, found = definition.guardrails, FileGuardrails()
    if declared is None:
        return found
    builder = _Builder(
        definition=definition, declared=declared, root=root, inert=inert, problems=problems
    )
    builder.add_schema(found.outputs)
    from ekiden.guardrails import (
        handoff_validator_guardrail,
        input_validator_guardrail,
        tool_input_validator_guardrail,
        tool_output_validator_guardrail,
        validator_guardrail,
    )

    builder.add("custom_validator", validator_guardrail, found.outputs)
    builder.add("input_validator", input_validator_guardrail, found.inputs)
    builder.add("handoff_validator", handoff_validator_guardrail, found.handoffs)
    builder.add("tool_input_validator", tool_input_validator_guardrail, found.tool_inputs)
    builder.add("tool_output_validator", tool_output_validator_guardrail, found.tool_outputs)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    definition: AgentDefinition
    declared: GuardrailDefinition
    root: Path | None
    inert: bool
    problems: list[AgentFileProblem]

    def add_schema(self, to: list[OutputGuardrail[Any]]) -> None:
        if self.declared.output_schema is None:
            return
        from ekiden.guardrails import SchemaUnusable, schema_guardrail

        try:
            to.append(
                schema_guardrail(self.declared.output_schema, on_failure=self.declared.on_failure)
            )
        except EkidenError as exc:
            path = exc.path if isinstance(exc, SchemaUnusable) else ""
            self._problem(f"/output_schema{path}", "agent.bad_schema", f"`output_schema`: {exc}")

    def add(self, key: str, make: Callable[..., Any], to: list[Any]) -> None:
        name: str | None = getattr(self.declared, key)
        if name is None:
            return
        function = _not_imported(name) if self.inert else name
        try:
            guardrail = make(
                function, on_failure=self.declared.on_failure, name=name, root=self.root
            )
        except EkidenError as exc:
            self._problem(f"/{key}", "agent.bad_function", f"`{key}`: {exc}")
        else:
            to.append(guardrail)

    def _problem(self, at: str, code: str, message: str) -> None:
        line, column = self._place(at)
        self.problems.append(
            AgentFileProblem(
                path=self.definition.path, line=line, column=column, code=code, message=message
            )
        )

    def _place(self, at: str) -> Place:
        """The position of the value, or of the nearest enclosing value with a position."""
        while at and at not in self.declared.places:
            at = at.rpartition("/")[0]
        return self.declared.places.get(at, (self.definition.line, self.definition.column))


def _not_imported(name: str) -> Callable[..., Any]:
    """A validator that refuses everything, instead of one that is not imported."""

    def refuse(*args: Any) -> Any:
        raise UserError(f"{name} was not imported, because the project was only inspected")

    return refuse
