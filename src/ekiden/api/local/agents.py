"""The agents of a project: descriptions, current work, and routing of requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from ekiden.api import agents as api
from ekiden.api.agents import AgentDetails, AgentSummary
from ekiden.api.local.context import LocalPart
from ekiden.api.methods.values import Page, Pages
from ekiden.bus.deadlocks import Deadlock, deadlocks
from ekiden.bus.waits import blocked
from ekiden.capabilities.declared import Match
from ekiden.core.agent import Agent
from ekiden.core.conversation.messages import BlockingContext
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.handoffs import Handoff
from ekiden.handoff import default_handoff
from ekiden.project.agent_files.edges import is_mcp_name
from ekiden.project.project import Project
from ekiden.project.routing import AUTO, capable, decide, parse_address, parse_names
from ekiden.routing.analysis import analysis
from ekiden.routing.decision import Strategy
from ekiden.storage.base import SessionFilter, SessionRow, SessionStatus, Store

if TYPE_CHECKING:
    from ekiden.agents.definition import AgentDefinition, HandoffDefinition
    from ekiden.core.handoffs import HandoffTerms, HandoffTrigger
    from ekiden.core.tools.tool import FunctionTool


def summary_of(project: Project, agent: Agent[Any]) -> AgentSummary:
    """A short description of an agent."""
    definition = _definition_of(project, agent.name)
    return AgentSummary(
        **_facts(agent, definition),
        tools=[*(tool.name for tool in agent.tools), *_mcp_tools(definition)],
        handoffs=list(dict.fromkeys(each["to"] for each in _handoffs(agent, definition))),
    )


def details_of(project: Project, agent: Agent[Any]) -> AgentDetails:
    """All details of an agent."""
    definition = _definition_of(project, agent.name)
    instructions = agent.instructions
    return AgentDetails(
        **_facts(agent, definition),
        tools=[*map(_tool, agent.tools), *({"name": name} for name in _mcp_tools(definition))],
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


def _mcp_tools(definition: AgentDefinition | None) -> list[str]:
    """The names of MCP tools in the agent's file; no server is contacted."""
    return [] if definition is None else [name for name in definition.tools if is_mcp_name(name)]


def _tool(tool: FunctionTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        # It is unknown for a function that was not imported, whose name is `module:function`.
        "asks_first": tool.confirmation is not None or (None if ":" in tool.name else False),
    }


def _handoffs(agent: Agent[Any], definition: AgentDefinition | None) -> list[dict[str, Any]]:
    declared = [] if definition is None else list(definition.handoffs)
    records = []
    for edge in agent.handoffs:
        offer = edge if isinstance(edge, Handoff) else default_handoff(edge)
        written = next((each for each in declared if _is_of(offer, each)), None)
        if written is not None:
            declared.remove(written)
        records.append(
            {
                "to": offer.agent_name,
                "tool": None if offer.terms.when == "auto" else offer.tool_name,
                "description": None if written is None else written.description,
                "include_context": offer.include_context,
                "filters": [] if written is None else list(written.filters),
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
    """The policy of a handoff, with the key names of agent files."""
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
    """The type of a trigger, its own field, and its priority."""
    if trigger is None:
        return None
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(trigger).items()
        if value not in (None, ())
    }


def _supervisor(agent: Agent[Any]) -> dict[str, Any] | None:
    """The settings of a supervisor, with the key names of agent files."""
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
    found = agent.memory or (None if definition is None else definition.memory)
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


_PAGE: Final = 500
_NOT_IDLE: Final[tuple[SessionStatus, ...]] = ("ready", "waiting")


class LocalAgents(LocalPart, api.AgentsApi):
    """`AgentsApi` of the local team. Without a team, all methods except `deadlocks` raise an
    error."""

    def list(self) -> Pages[api.AgentSummary]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.AgentSummary]:
            project = self._context.needed_project()
            found = sorted(project.agents.values(), key=lambda agent: agent.name)
            return Page(items=[summary_of(project, agent) for agent in found])

        return Pages(fetch)

    def ps(self, *, idle: bool = True) -> Pages[api.AgentPresence]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.AgentPresence]:
            project, store = self._context.needed_project(), self._store
            found = await presences(
                store,
                sorted(project.agents),
                router=project.router.agent.name,
                waits=await blocked(store),
                idle=idle,
            )
            return Page(items=found)

        return Pages(fetch)

    def deadlocks(self) -> Pages[Deadlock]:
        async def fetch(limit: int, cursor: str | None) -> Page[Deadlock]:
            found = await deadlocks(self._store, limit=limit + 1, after=cursor or "")
            shown = found[:limit]
            more = shown[-1].id if len(found) > limit else ""
            return Page(items=shown, next_cursor=more or None)

        return Pages(fetch)

    async def get(self, name: str) -> api.AgentDetails:
        project = self._context.needed_project()
        return details_of(project, project.team[name.removeprefix("@")])

    def match(
        self,
        capabilities: Sequence[str],
        *,
        exclude: Sequence[str] = (),
        min_score: float = 0.5,
    ) -> Pages[Match]:
        async def fetch(limit: int, cursor: str | None) -> Page[Match]:
            found = await asyncio.to_thread(
                capable,
                self._context.needed_project(),
                parse_names(capabilities),
                exclude=parse_names(exclude),
            )
            return Page(items=[_rounded(each) for each in found if each.score >= min_score])

        return Pages(fetch)

    async def route(self, text: str, *, strategy: Strategy | None = None) -> api.RouteAnalysis:
        project = self._context.needed_project()
        address = parse_address(text)
        if not address.text.strip():
            raise RequestInvalid("text: it is empty")
        if address.strategy is None and address.to in (None, AUTO):
            address = replace(address, strategy=strategy)
        decision = await decide(project, address, limit=max(len(project.agents), 1))
        return analysis(project.agents, project.settings.agents.routing, decision)


def _rounded(match: Match) -> Match:
    """The match with numbers rounded to six places."""
    fits = [
        fit if fit.similarity is None else replace(fit, similarity=round(fit.similarity, 6))
        for fit in match.fits
    ]
    return replace(match, score=round(match.score, 6), fits=tuple(fits))


async def presences(
    store: Store,
    names: Iterable[str],
    *,
    router: str | None = None,
    waits: Iterable[BlockingContext] = (),
    idle: bool = True,
) -> Sequence[api.AgentPresence]:
    """Return the sessions and waits of the agents `names`, followed by the sessions and waits of
    all other agents.

    Sessions of the `router` are marked. Without `idle`, idle sessions are not read, which is much
    faster in a large store.
    """
    known = list(names)
    rows: dict[str, dict[str, Any]] = {name: _nothing() for name in known}
    for wait in waits:
        rows.setdefault(wait.agent, _nothing())["waits"].append(wait)
    async for row in _sessions(store, idle=idle):
        counted = rows.setdefault(row.agent, _nothing())
        counted[row.status] += 1
        if row.owner is not None:
            counted["running"].append(api.RunningSession(session_id=row.id, owner=row.owner))
    everyone = [*known, *sorted(rows.keys() - set(known))]
    return [_presence(name, name in known, name == router, **rows[name]) for name in everyone]


def _nothing() -> dict[str, Any]:
    return {"idle": 0, "ready": 0, "waiting": 0, "running": [], "waits": []}


def _presence(
    agent: str,
    is_known: bool,
    is_router: bool,
    *,
    idle: int,
    ready: int,
    waiting: int,
    running: Sequence[api.RunningSession],
    waits: Sequence[BlockingContext],
) -> api.AgentPresence:
    statuses = {wait.status for wait in waits}
    return api.AgentPresence(
        agent=agent,
        known=is_known or is_router,
        router=is_router and not is_known,
        sessions=idle + ready + waiting,
        idle=idle,
        ready=ready,
        waiting=waiting,
        running=sorted(running, key=lambda each: each.session_id),
        status="internal" if "internal" in statuses else "user" if statuses else "none",
        waits=waits,
    )


async def _sessions(store: Store, *, idle: bool) -> AsyncIterator[SessionRow]:
    filters = [SessionFilter()] if idle else [SessionFilter(status=each) for each in _NOT_IDLE]
    for where in filters:
        cursor: str | None = None
        while True:
            page = await store.list(where, limit=_PAGE, cursor=cursor)
            for row in page.sessions:
                yield row
            cursor = page.next_cursor
            if cursor is None:
                break
