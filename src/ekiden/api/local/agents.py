"""The agents of a project, and their work in its store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ekiden.api import agents as api
from ekiden.api.local.agent_facts import details_of, summary_of
from ekiden.api.local.place import Here
from ekiden.api.values import Page, Pages
from ekiden.bus.waits.deadlocks import Deadlock, deadlocks
from ekiden.bus.waits.stored import blocked
from ekiden.capabilities.declared import Match
from ekiden.core.agent import Agent
from ekiden.core.conversation.messages import BlockingContext
from ekiden.core.documents import from_json
from ekiden.core.errors.server import RequestInvalid
from ekiden.project.project import Project
from ekiden.project.routing import AUTO, capable, decide, parse_address, parse_names
from ekiden.routing.decision import RouteDecision, Score, Strategy
from ekiden.routing.rules import keyword_points, pattern_points
from ekiden.storage.base import SessionFilter, SessionRow, SessionStatus, Store

_PAGE: Final = 500
_AT_WORK: Final[tuple[SessionStatus, ...]] = ("ready", "waiting")


class LocalAgents(api.Agents):
    """See `Agents`; without a team all methods except `deadlocks` raise `UserError`."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def list(self) -> Pages[api.AgentSummary]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.AgentSummary]:
            project = self._here.needed_project()
            found = sorted(project.agents.values(), key=lambda agent: agent.name)
            return Page(items=[summary_of(project, agent) for agent in found])

        return Pages(fetch)

    def ps(self, *, idle: bool = True) -> Pages[api.AgentPresence]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.AgentPresence]:
            project, store = self._here.needed_project(), self._here.store
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
            found = await deadlocks(self._here.store, limit=limit + 1, after=cursor or "")
            shown = found[:limit]
            more = shown[-1].id if len(found) > limit else ""
            return Page(items=shown, next_cursor=more or None)

        return Pages(fetch)

    async def get(self, name: str) -> api.AgentDetails:
        project = self._here.needed_project()
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
                self._here.needed_project(),
                parse_names(capabilities),
                exclude=parse_names(exclude),
            )
            return Page(items=[_told(each) for each in found if each.score >= min_score])

        return Pages(fetch)

    async def route(self, text: str, *, strategy: Strategy | None = None) -> api.RouteAnalysis:
        project = self._here.needed_project()
        address = parse_address(text)
        if not address.text.strip():
            raise RequestInvalid("text: it is empty")
        if address.strategy is None and address.to in (None, AUTO):
            address = replace(address, strategy=strategy)
        return _route(project, await decide(project, address, limit=max(len(project.agents), 1)))


def _told(match: Match) -> Match:
    """A match with numbers rounded to six places."""
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
    """One for each of `names`, then one for every other agent with a session or a wait.

    Sessions of the `router` are marked. Without `idle` only sessions with work are read: they are
    few, even in a large store.
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
    everybody = [*known, *sorted(rows.keys() - set(known))]
    return [_presence(name, name in known, name == router, **rows[name]) for name in everybody]


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
    filters = [SessionFilter()] if idle else [SessionFilter(status=each) for each in _AT_WORK]
    for where in filters:
        cursor: str | None = None
        while True:
            page = await store.list(where, limit=_PAGE, cursor=cursor)
            for row in page.sessions:
                yield row
            cursor = page.next_cursor
            if cursor is None:
                break


def _route(project: Project, decision: RouteDecision) -> api.RouteAnalysis:
    """A decision for callers: agents without evidence come last."""
    known = {score.agent for score in decision.candidates}
    agents = project.agents
    rest = [
        Score(agent=name, score=0, confidence=0, method="none")
        for name, agent in sorted(agents.items())
        if agent.scope != "system" and name not in known
    ]
    told = {
        **decision.to_json(),
        "candidates": [
            {**score.to_json(), "matches": [*_matches(agents, decision, score)]}
            for score in (*decision.candidates, *rest)
        ],
        "stages": [
            {**stage.to_json(), "candidates": [score.to_json() for score in stage.candidates]}
            for stage in decision.stages
        ],
        "fallback": _fallback(project, decision) if decision.agent is None else None,
    }
    route: api.RouteAnalysis = from_json(api.RouteAnalysis, told)
    return route


def _matches(
    agents: Mapping[str, Agent[Any]], decision: RouteDecision, score: Score
) -> Iterator[dict[str, Any]]:
    """The evidence for an agent, with its weight."""
    agent = agents.get(score.agent)
    priority = 0 if agent is None else agent.triggers.priority
    for text in score.keywords:
        yield {"kind": "keyword", "text": text, "points": keyword_points(priority)}
    for text in score.patterns:
        yield {"kind": "pattern", "text": text, "points": pattern_points(priority)}
    for stage in decision.stages:
        for each in stage.candidates:
            if stage.method == "semantic" and each.agent == score.agent:
                yield {"kind": "semantic", "text": "", "points": each.score}


_NAMED = 5
"""How many agents are named where a person must choose."""


def _fallback(project: Project, decision: RouteDecision) -> str:
    routing = project.settings.agents.routing
    match routing.fallback:
        case "default_agent" if routing.default_agent is not None:
            return f"the fallback gives such a request to {routing.default_agent}"
        case "prompt_user":
            found = {score.agent for score in decision.candidates}
            likeliest = [*(score.agent for score in decision.candidates)]
            others = sorted(name for name in project.agents if name not in found)
            names = ", ".join(f"@{name}" for name in [*likeliest, *others][:_NAMED])
            more = len(project.agents) - _NAMED
            rest = f" or one of {more} more" if more > 0 else ""
            return f"the fallback asks the person to name an agent: {names}{rest}"
        case _:
            return "there is no fallback: such a request ends with the error route.none"
