"""From `guardrails` of an agent file to guardrails of the agent and of its tools."""

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
    """What a file wants to be checked, ready to be asked."""

    inputs: list[InputGuardrail[Any]] = field(default_factory=list)
    outputs: list[OutputGuardrail[Any]] = field(default_factory=list)
    """The schema first, then the validator."""
    handoffs: list[HandoffGuardrail[Any]] = field(default_factory=list)
    tool_inputs: list[ToolInputGuardrail[Any]] = field(default_factory=list)
    tool_outputs: list[ToolOutputGuardrail[Any]] = field(default_factory=list)

    def guard_tools(self, agent: Agent[Any]) -> None:
        """Have every tool that the agent has by now checked, each once."""
        for at, tool in enumerate(agent.tools):
            agent.tools[at] = self.guarded(tool)

    def guarded(self, tool: FunctionTool) -> FunctionTool:
        """The tool with the file's guardrails, each once."""
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
    """The guardrails of a file; what cannot be one is left out and listed as a problem.

    Functions are looked for in the folder `root` first. With `inert` none is imported: what stands
    for it lets nothing through.
    """
    said, made = definition.guardrails, FileGuardrails()
    if said is None:
        return made
    maker = _Maker(definition=definition, said=said, root=root, inert=inert, problems=problems)
    maker.add_schema(made.outputs)
    from ekiden.guardrails import (
        handoff_validator_guardrail,
        input_validator_guardrail,
        tool_input_validator_guardrail,
        tool_output_validator_guardrail,
        validator_guardrail,
    )

    maker.add("custom_validator", validator_guardrail, made.outputs)
    maker.add("input_validator", input_validator_guardrail, made.inputs)
    maker.add("handoff_validator", handoff_validator_guardrail, made.handoffs)
    maker.add("tool_input_validator", tool_input_validator_guardrail, made.tool_inputs)
    maker.add("tool_output_validator", tool_output_validator_guardrail, made.tool_outputs)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    definition: AgentDefinition
    said: GuardrailDefinition
    root: Path | None
    inert: bool
    problems: list[AgentFileProblem]

    def add_schema(self, to: list[OutputGuardrail[Any]]) -> None:
        if self.said.output_schema is None:
            return
        from ekiden.guardrails import SchemaUnusable, schema_guardrail

        try:
            to.append(schema_guardrail(self.said.output_schema, on_failure=self.said.on_failure))
        except EkidenError as exc:
            path = exc.path if isinstance(exc, SchemaUnusable) else ""
            self._problem(f"/output_schema{path}", "agent.bad_schema", f"`output_schema`: {exc}")

    def add(self, key: str, make: Callable[..., Any], to: list[Any]) -> None:
        name: str | None = getattr(self.said, key)
        if name is None:
            return
        function = _stand_in(name) if self.inert else name
        try:
            guardrail = make(function, on_failure=self.said.on_failure, name=name, root=self.root)
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
        """Where the value stands, or the nearest one around it that has a place."""
        while at and at not in self.said.places:
            at = at.rpartition("/")[0]
        return self.said.places.get(at, (self.definition.line, self.definition.column))


def _stand_in(name: str) -> Callable[..., Any]:
    """A validator that is not imported."""

    def refuse(*given: Any) -> Any:
        raise UserError(f"{name} was not imported, because the project was only inspected")

    return refuse
