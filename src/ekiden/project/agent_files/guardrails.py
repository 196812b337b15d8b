"""Creates the guardrails that an agent file declares, for the agent and for its tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ekiden.agents.definition import AgentDefinition, AgentFileProblem, GuardrailDefinition, Place
from ekiden.core.agent import Agent
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.guardrails import HandoffGuardrail, InputGuardrail, OutputGuardrail
from ekiden.core.tools.guardrails import ToolInputGuardrail, ToolOutputGuardrail
from ekiden.core.tools.tool import FunctionTool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGuardrails:
    """The guardrails of an agent file."""

    inputs: list[InputGuardrail[Any]] = field(default_factory=list)
    outputs: list[OutputGuardrail[Any]] = field(default_factory=list)
    """The schema first, then the validator."""
    handoffs: list[HandoffGuardrail[Any]] = field(default_factory=list)
    tool_inputs: list[ToolInputGuardrail[Any]] = field(default_factory=list)
    tool_outputs: list[ToolOutputGuardrail[Any]] = field(default_factory=list)

    def guard_tools(self, agent: Agent[Any]) -> None:
        """Add the guardrails to all current tools of the agent."""
        for at, tool in enumerate(agent.tools):
            agent.tools[at] = self.guarded(tool)

    def guarded(self, tool: FunctionTool) -> FunctionTool:
        """The tool with the guardrails of the file; each guardrail is added only once."""
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
    """The guardrails of a file; an invalid one is left out and added to `problems`.

    Functions are searched in the folder `root` first. With `inert` no function is imported; a
    guardrail that refuses everything replaces it.
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
