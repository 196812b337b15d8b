"""Agents as the JSON that the command prints: a contract with programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.app.mcp_names import is_mcp_name
from ekiden.core.handoff import Handoff
from ekiden.handoff import default_handoff

if TYPE_CHECKING:
    from ekiden.agents.definition import AgentDefinition
    from ekiden.app.project import Project
    from ekiden.core.agent import Agent
    from ekiden.core.tool import FunctionTool


def agent_record(project: Project, agent: Agent[Any]) -> dict[str, Any]:
    """An agent in short."""
    definition = definition_of(project, agent.name)
    return {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description or agent.handoff_description,
        "scope": agent.scope,
        "model": _model(agent),
        "origin": "python" if definition is None else definition.origin,
        "path": None if definition is None else str(definition.path),
        "tools": [*(tool.name for tool in agent.tools), *_served(definition)],
        "handoffs": [handoff["to"] for handoff in _handoffs(agent, definition)],
    }


def agent_details(project: Project, agent: Agent[Any]) -> dict[str, Any]:
    """Everything about an agent."""
    definition = definition_of(project, agent.name)
    instructions = agent.instructions
    return {
        **agent_record(project, agent),
        "handoff_description": agent.handoff_description or agent.description,
        "tools": [*map(_tool, agent.tools), *({"name": name} for name in _served(definition))],
        "handoffs": _handoffs(agent, definition),
        "triggers": {
            "keywords": list(agent.triggers.keywords),
            "patterns": list(agent.triggers.patterns),
            "priority": agent.triggers.priority,
            "examples": list(agent.triggers.examples),
        },
        "capabilities": [
            {
                "name": each.name,
                "description": each.description,
                "proficiency": each.proficiency,
                "tags": list(each.tags),
            }
            for each in agent.capabilities
        ],
        "guardrails": _guardrails(definition),
        "memory": _memory(definition),
        "kind": "router" if agent.router else "code" if agent.run else "model",
        "instructions": instructions if isinstance(instructions, str | None) else "(a function)",
    }


def definition_of(project: Project, name: str) -> AgentDefinition | None:
    """The file that an agent comes from, if it does."""
    return next((each for each in project.definitions if each.name == name), None)


def _model(agent: Agent[Any]) -> str | None:
    model = agent.model
    return model if isinstance(model, str | None) else type(model).__name__


def _served(definition: AgentDefinition | None) -> list[str]:
    """Tools of MCP servers, which are not asked."""
    return [] if definition is None else [name for name in definition.tools if is_mcp_name(name)]


def _tool(tool: FunctionTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        # What a function that was not imported says of itself is not known.
        "asks_first": tool.confirmation is not None or (None if ":" in tool.name else False),
    }


def _handoffs(agent: Agent[Any], definition: AgentDefinition | None) -> list[dict[str, Any]]:
    declared = {} if definition is None else {each.to: each for each in definition.handoffs}
    made: dict[str, dict[str, Any]] = {}
    for edge in agent.handoffs:
        offer = edge if isinstance(edge, Handoff) else default_handoff(edge)
        made[offer.agent_name] = {
            "to": offer.agent_name,
            "tool": offer.tool_name,
            "include_context": offer.include_context,
        }
    for name, each in declared.items():
        made[name] = {
            "tool": None,
            **made.get(name, {"to": name}),
            "when": each.when,
            "description": each.description,
            "include_context": each.include_context,
            "policy": each.policy,
            "allow_return": each.allow_return,
            "filters": list(each.filters),
        }
    return list(made.values())


def _guardrails(definition: AgentDefinition | None) -> dict[str, Any] | None:
    found = None if definition is None else definition.guardrails
    if found is None:
        return None
    schema = found.output_schema
    return {
        "output_schema": None if schema is None else dict(schema),
        "on_failure": found.on_failure,
        "custom_validator": found.custom_validator,
    }


def _memory(definition: AgentDefinition | None) -> dict[str, Any] | None:
    found = None if definition is None else definition.memory
    if found is None:
        return None
    return {"enabled": found.enabled, "type": found.type, "backend": found.backend}
