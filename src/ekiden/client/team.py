"""The team at the server: its agents, who would get a request, and how it would be split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.api.texts import Moment
from ekiden.client.modes import M, Resource, answers, given, lists, moment_text
from ekiden.client.paths import part
from ekiden.client.runs import Strategy
from ekiden.client.streams import Listing
from ekiden.client.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary(Value):
    """An agent in short."""

    name: str
    title: str | None = None
    description: str | None = None
    scope: str = ""
    model: str | None = None
    origin: str = ""
    path: str | None = None
    tools: tuple[Any, ...] = ()
    handoffs: tuple[Any, ...] = ()
    """Whom it may hand to."""

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(raw.get(name) or ()) for name in ("tools", "handoffs")}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPresence(Value):
    """The sessions that an agent has, and its waits."""

    agent: str
    known: bool = True
    """Whether the team has such an agent."""
    sessions: int = 0
    idle: int = 0
    ready: int = 0
    waiting: int = 0
    running: tuple[Mapping[str, str], ...] = ()
    status: str = "none"
    waits: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(raw.get(name) or ()) for name in ("running", "waits")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityMatch(Value):
    """How good an agent is for what is required."""

    agent: str
    score: float = 0.0
    matched: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    available: bool = True
    load: float = 0.0

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(raw.get(name) or ()) for name in ("matched", "missing")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView(Value):
    """Who would get a request, and why."""

    agent: str | None
    """`None`: nobody fits."""
    method: str = ""
    confidence: float = 0.0
    reason: str = ""
    candidates: tuple[Mapping[str, Any], ...] = ()
    elapsed_ms: float = 0.0

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"candidates": tuple(raw.get("candidates") or ())}


class Agents(Resource[M]):
    """Who is there, what they can do, and what they do now."""

    @lists
    def list(self) -> Listing[AgentSummary]:
        """All agents, by name."""
        return Listing(path="/agents", params={}, parse=AgentSummary.of)

    @answers
    async def get(self, name: str) -> AgentSummary:
        """Everything about an agent, in `raw`; `UnknownAgent`."""
        return AgentSummary.of(await self._wire.ask("GET", f"/agents/{part(f'@{name}')}"))

    @lists
    def ps(self) -> Listing[AgentPresence]:
        """How many sessions each has, who runs them, and who waits for whom."""
        return Listing(path="/agents/ps", params={}, parse=AgentPresence.of)

    @lists
    def deadlocks(self) -> Listing[Mapping[str, Any]]:
        """Agents that wait, or waited, for each other in a circle, the newest first."""
        return Listing(path="/agents/deadlocks", params={}, parse=dict)

    @lists
    def match(
        self, capabilities: Sequence[str], *, exclude: Sequence[str] = (), min_score: float = 0.5
    ) -> Listing[CapabilityMatch]:
        """Those that have these capabilities, the best first; there is one page."""
        params = {
            "capabilities": ",".join(capabilities),
            "exclude": ",".join(exclude),
            "min_score": min_score,
        }
        return Listing(path="/handoff/capability-match", params=params, parse=CapabilityMatch.of)

    @answers
    async def route(self, text: str, *, strategy: Strategy | None = None) -> RouteView:
        """Who would get this request, and why; nothing is run or stored."""
        body = given(text=text, strategy=strategy)
        return RouteView.of(await self._wire.ask("POST", "/route", body=body))


class Plans(Resource[M]):
    """How supervisors split requests."""

    @answers
    async def preview(self, text: str, *, agent: str | None = None) -> Mapping[str, Any]:
        """How a request would be split, and for whom; nothing is run or stored."""
        body = given(text=text, agent=agent)
        plan: Mapping[str, Any] = await self._wire.ask("POST", "/plans/preview", body=body)
        return plan

    @answers
    async def get(self, session_id: str) -> Mapping[str, Any]:
        """The plan of a session's last run, as far as it came."""
        plan: Mapping[str, Any] = await self._wire.ask("GET", f"/sessions/{part(session_id)}/plan")
        return plan

    @lists
    def tasks(
        self,
        *,
        session_id: str | None = None,
        agent: str | None = None,
        status: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Listing[Mapping[str, Any]]:
        """The tasks of plans, those of the newest plan first."""
        params = given(
            session_id=session_id,
            agent=agent,
            status=status,
            since=moment_text(since),
            until=moment_text(until),
        )
        return Listing(path="/tasks", params=params, parse=dict)
