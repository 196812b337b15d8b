"""Descriptions of a project's agents."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ekiden.api.agents import AgentDetails, AgentSummary
from ekiden.core.handoff import Handoff
from ekiden.handoff import default_handoff
from ekiden.project.agent_files.edges import is_mcp_name

if TYPE_CHECKING:
    from ekiden.agents.definition import AgentDefinition, HandoffDefinition
    from ekiden.core.agent import Agent
    from ekiden.core.handoff_terms import HandoffTerms, HandoffTrigger
    from ekiden.core.tool import FunctionTool
    from ekiden.project.project import Project


def summary_of(project: Project, agent: Agent[Any]) -> AgentSummary:
    """A short description of an agent."""
    definition = _definition_of(project, agent.name)
    return AgentSummary(
        **_facts(agent, definition),
        tools=[*(tool.name for tool in agent.tools), *_served(definition)],
        handoffs=list(dict.fromkeys(each["to"] for each in _handoffs(agent, definition))),
    )


def details_of(project: Project, agent: Agent[Any]) -> AgentDetails:
    """Everything about an agent."""
    definition = _definition_of(project, agent.name)
    instructions = agent.instructions
    return AgentDetails(
        **_facts(agent, definition),
        tools=[*map(_tool, agent.tools), *({"name": name} for name in _served(definition))],
        handoffs=_handoffs(agent, definition),
        handoff_description=agent.handoff_description or agent.description,
        guardrails=_guardrails(definition),
        memory=_memory(agent, definition),
        supervisor=_supervisor(agent),
        runs_on=sorted(agent.runs_on),
        durability=getattr(agent.implementation, "durability", None),
        instructions=instructions if isinstance(instructions, str | None) else "(a function)",
    )


def _facts(agent: Agent[Any], definition: AgentDefinition | None) -> dict[str, Any]:
    return {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description or agent.handoff_description,
        "scope": agent.scope,
        "model": _model(agent),
        "origin": _origin(agent, definition),
        "path": None if definition is None else str(definition.path),
        "can_ask": agent.can_ask,
        "can_tell": agent.can_tell,
        "can_ask_people": agent.can_ask_people,
        "kind": agent.traits.name,
        "triggers": agent.triggers,
        "capabilities": agent.capabilities,
        "available": None if callable(agent.available) else agent.available,
        "max_sessions": agent.max_sessions,
    }


def _origin(agent: Agent[Any], definition: AgentDefinition | None) -> str:
    if definition is not None:
        return definition.origin
    return "people" if agent.traits.is_human else "python"


def _definition_of(project: Project, name: str) -> AgentDefinition | None:
    return next((each for each in project.definitions if each.name == name), None)


def _model(agent: Agent[Any]) -> str | None:
    model = agent.model
    return model if isinstance(model, str | None) else type(model).__name__


def _served(definition: AgentDefinition | None) -> list[str]:
    """Tools of MCP servers, which are not contacted."""
    return [] if definition is None else [name for name in definition.tools if is_mcp_name(name)]


def _tool(tool: FunctionTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        # What a function that was not imported says of itself is not known.
        "asks_first": tool.confirmation is not None or (None if ":" in tool.name else False),
    }


def _handoffs(agent: Agent[Any], definition: AgentDefinition | None) -> list[dict[str, Any]]:
    declared = [] if definition is None else list(definition.handoffs)
    records = []
    for edge in agent.handoffs:
        offer = edge if isinstance(edge, Handoff) else default_handoff(edge)
        said = next((each for each in declared if _is_of(offer, each)), None)
        if said is not None:
            declared.remove(said)
        records.append(
            {
                "to": offer.agent_name,
                "tool": None if offer.terms.when == "auto" else offer.tool_name,
                "description": None if said is None else said.description,
                "include_context": offer.include_context,
                "filters": [] if said is None else list(said.filters),
                **_terms(offer.terms),
            }
        )
    return records


def _is_of(offer: Handoff[Any, Any], declared: HandoffDefinition) -> bool:
    terms = offer.terms
    return (offer.agent_name, terms.when, terms.trigger, terms.capabilities) == (
        declared.to,
        declared.when,
        declared.trigger,
        declared.capabilities,
    )


def _terms(terms: HandoffTerms) -> dict[str, Any]:
    """Under the names that agent files use."""
    confirm, budget = terms.confirm, terms.budget
    return {
        "when": terms.when,
        "policy": terms.policy,
        "condition": terms.condition,
        "trigger": _trigger(terms.trigger),
        "allow_return": terms.allow_return,
        "capabilities": list(terms.capabilities),
        "confirm": None
        if confirm is None
        else {"prompt_template": confirm.prompt_template, "timeout": confirm.timeout_s},
        "timeout": terms.timeout_s,
        "restrict_tools": terms.restrict_tools,
        "budget": None if budget is None else asdict(budget),
        "completes": terms.completes,
    }


def _trigger(trigger: HandoffTrigger | None) -> dict[str, Any] | None:
    """The type, the key that belongs to it, and the priority."""
    if trigger is None:
        return None
    told = {name: value for name, value in asdict(trigger).items() if value not in (None, ())}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in told.items()
    }


def _supervisor(agent: Agent[Any]) -> dict[str, Any] | None:
    """Under the names that agent files use."""
    plan = agent.plan
    if plan is None:
        return None
    return {
        "agents": [member.name for member in plan.members],
        "fallback": plan.fallback_name,
        "concurrency": plan.concurrency,
        "timeout": plan.timeout_s,
        "retries": plan.retries,
        "backoff": plan.backoff_s,
        "max_tasks": plan.max_tasks,
        "budget": None if plan.budget is None else asdict(plan.budget),
    }


def _guardrails(definition: AgentDefinition | None) -> dict[str, Any] | None:
    found = None if definition is None else definition.guardrails
    if found is None:
        return None
    schema = found.output_schema
    return {
        "output_schema": None if schema is None else dict(schema),
        "custom_validator": found.custom_validator,
        "on_failure": found.on_failure,
        "input_validator": found.input_validator,
        "handoff_validator": found.handoff_validator,
        "tool_input_validator": found.tool_input_validator,
        "tool_output_validator": found.tool_output_validator,
    }


def _memory(agent: Agent[Any], definition: AgentDefinition | None) -> dict[str, Any] | None:
    said = None if definition is None else definition.memory
    found = agent.memory or said
    if found is None:
        return None
    return {
        "enabled": agent.memory is not None,
        "type": found.type,
        "backend": found.backend,
        "scope": found.scope,
        "top_k": found.top_k,
        "threshold": found.threshold,
    }
