"""The router, which chooses the agent for a request and decides whether a conversation changes
agents."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent, Team
from ekiden.core.checks.fields import ModelName, check_argument
from ekiden.core.conversation.model import Model
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.core.roles import Assignment, RouteCause
from ekiden.core.text.wording import plain_line, suggestion
from ekiden.embeddings.base import Embedder
from ekiden.routing.decision import (
    ROUTER_NAME,
    STRATEGIES,
    RouteDecision,
    RoutingVerdict,
    Stage,
    StageResult,
    Strategy,
    agreement,
    by_stage,
    candidates,
    clearly_another,
    combined,
    ranking,
    verdict,
)
from ekiden.routing.rules import RuleStage
from ekiden.routing.settings import RoutingSettings

if TYPE_CHECKING:
    from ekiden.routing.llm import LlmStage

LEARNING: ContextVar[Callable[[int, int], None] | None] = ContextVar("learning", default=None)
"""A function that shows the progress while a large team is learnt. It is called with the number of
learnt texts and the number of all texts."""

_MAX_REASON = 300

_SHORT = 4_000
"""Rules take well under a millisecond for this many characters. Longer texts are checked in a
thread."""

MAX_LISTED = 5
"""The maximum number of agents in the question to the person. The most likely agents come first."""
_DESCRIPTION_CHARS = 100


def check_default_agent(
    settings: RoutingSettings, agents: Mapping[str, Agent[Any]], system: Collection[str]
) -> None:
    """Raise `UserError` if the fallback is `default_agent` and the default agent is invalid."""
    if settings.fallback != "default_agent":
        return
    name = settings.default_agent
    known = ", ".join(sorted(agents)[:MAX_LISTED]) or "none"
    if name is None:
        raise UserError(
            "the fallback of routing is 'default_agent', but agents.routing.default_agent names "
            f"none; known: {known}"
        )
    if name in system:
        raise UserError(
            f"agents.routing.default_agent is {name!r}, a system agent, which gets no requests; "
            f"known: {known}"
        )
    if name not in agents:
        raise UserError(
            f"agents.routing.default_agent is {name!r}, but no agent has this name"
            f"{suggestion(name, agents)}; known: {known}"
        )


def question(agents: Sequence[Agent[Any]], *, why: str) -> str:
    """The question to the person: the reason, the agents, and how to name an agent. `agents` are
    sorted by likelihood, most likely first."""
    if not agents:
        return "No agent can take this request."
    lines = [
        f"{why} Name one at the beginning of a message, as in `@{agents[0].name} …`:",
        *(_line(agent) for agent in agents[:MAX_LISTED]),
    ]
    if len(agents) > MAX_LISTED:
        lines.append(f"… and {len(agents) - MAX_LISTED} more")
    return "\n".join(lines)


def _line(agent: Agent[Any]) -> str:
    about = agent.description or agent.title or agent.handoff_description or ""
    described = plain_line(about, _DESCRIPTION_CHARS)
    return f"- @{agent.name}: {described}" if described else f"- @{agent.name}"


class Router:
    """Chooses the agent for a request by rules, by meaning, by asking a model, or by all three
    methods in turn.

    A router reads the agents only when it is created. If the agents change, create a new router.
    Several tasks can use one router at the same time::

        router = Router([debugger, writer], model="openai:gpt-5-mini")
        decision = await router.route("the build fails with error TS2304")
        print(decision.agent, decision.method, decision.confidence, decision.reason)

    Add `router.agent` to a team to route every new conversation to the chosen agent::

        team = Team(router.agent, debugger, writer)
    """

    def __init__(
        self,
        agents: Iterable[Agent[Any]] | Team,
        *,
        settings: RoutingSettings | None = None,
        model: str | Model | None = None,
        embedder: Embedder | None = None,
        semantic: Stage | None = None,
    ) -> None:
        """Agents with the scope `system`, and routers, are never chosen.

        The router uses `model` if `settings.llm.model` is not set. `semantic` replaces the built-in
        semantic stage. `embedder` replaces the embedder of that stage. Raises `UserError` for two
        agents with the same name, for invalid patterns and priorities, and if the default agent is
        not one of `agents`.
        """
        check_argument("`settings` of a router", RoutingSettings | None, settings)
        check_argument("`model` of a router", ModelName | Model | None, model)
        self.settings = settings or RoutingSettings()
        everybody = _by_name(agents)
        self._agents = {name: agent for name, agent in everybody.items() if _is_target(agent)}
        check_default_agent(self.settings, self._agents, everybody.keys() - self._agents.keys())
        targets = list(self._agents.values())
        self._rules = RuleStage(targets, threshold=self.settings.rule.confidence_threshold)
        self._meaning = SemanticLoader(targets, self.settings, embedder=embedder, stage=semantic)
        llm = self.settings.llm
        used = llm.model or model
        self._llm: LlmStage | None = None
        if used is not None:
            from ekiden.routing.llm import LlmStage

            self._llm = LlmStage(targets, used, llm.timeout, prompt=llm.prompt)
        self.agent: Agent[Any] = Agent(
            ROUTER_NAME,
            description="Gives each request to the agent who should take it.",
            scope="system",
            router=self,
        )
        """The system agent that represents this router in a team."""

    @property
    def targets(self) -> Mapping[str, Agent[Any]]:
        """The agents that can be chosen, by name."""
        return self._agents

    @property
    def has_model(self) -> bool:
        """Whether the router has a model that it can ask."""
        return self._llm is not None

    async def prepare(self) -> str | None:
        """Load the model for semantic routing now instead of at the first request.

        Returns `None` if semantic routing is ready, otherwise the reason why it is unavailable.
        """
        return await self._meaning.prepare()

    async def route(
        self,
        text: str,
        *,
        strategy: Strategy | None = None,
        exclude: Collection[str] = (),
        cause: RouteCause = "new",
        limit: int = 20,
    ) -> RouteDecision:
        """Choose an agent for `text`. The agents in `exclude` are never chosen.

        The default of `strategy` is the strategy in the settings. `limit` is the maximum number of
        candidates in the decision. If no agent matches, the decision has the agent `None`. With the
        setting ``fallback="default_agent"``, it has the default agent instead. Raises `UserError`
        for an unknown strategy. A failure of the model raises no exception, and the decision
        contains the reason.
        """
        began = perf_counter()
        chosen = _strategy(strategy or self.settings.strategy)
        excluded = frozenset(exclude)
        if self.settings.enabled:
            stages, taken = await self._run_stages(text, chosen, excluded)
            taken = self._or_default(taken, excluded)
        else:
            stages, taken = [], self._switched_off(cause, excluded)
        return _decision(taken, stages, chosen, cause, began, limit=limit)

    def named(self, name: str) -> RouteDecision:
        """Return the decision for a message that begins with ``@name``. Raises `UnknownAgent` if no
        agent has this name."""
        if name not in self._agents:
            raise UnknownAgent(name, known=self._agents)
        taken = RoutingVerdict(
            agent=name, method="named", confidence=100, reason="the person named it"
        )
        return _decision(taken, (), self.settings.strategy, "named", perf_counter())

    async def assign(
        self,
        text: str,
        *,
        cause: RouteCause,
        excluded: Collection[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Assignment:
        """Choose an agent for the request `text` of a session. The runtime calls this method.
        `options` may contain only ``strategy``.

        If no agent is chosen, the reply asks the person which agent should get the request. With
        the setting ``fallback="none"`` there is no reply.
        """
        decision = await self.route(
            text, strategy=(options or {}).get("strategy"), exclude=excluded, cause=cause
        )
        reply = None
        if decision.agent is None and self.settings.fallback != "none":
            reply = self.question(decision, exclude=excluded)
        return Assignment(
            agent=decision.agent, details=decision.to_json(), reply=reply, usage=decision.usage
        )

    async def keep(self, text: str, *, agent: str) -> Assignment:
        """Decide whether the next message `text` of a conversation goes to the current `agent` or
        to another agent.

        The agent stays the same unless `settings.sticky.switch` is on and the message clearly fits
        another agent. The check uses rules and semantic similarity, never a model.
        """
        began = perf_counter()
        stages: list[StageResult] = []
        other = None
        if self.settings.sticky.switch and text.strip():
            stages = [await self._by_rules(text), await self._meaning.decide(text)]
            other = clearly_another(agent, *stages)
        taken = replace(_KEPT, agent=agent) if other is None else by_stage(other)
        cause: RouteCause = "kept" if other is None else "switched"
        decision = _decision(taken, stages, self.settings.strategy, cause, began)
        return Assignment(agent=decision.agent, details=decision.to_json())

    def question(self, decision: RouteDecision, *, exclude: Collection[str] = ()) -> str:
        """Return a question that asks the person which agent should get the request. Use it if
        `decision` has no agent."""
        likeliest = [score.agent for score in decision.candidates]
        names = dict.fromkeys([*likeliest, *sorted(self._agents)])
        agents = [
            self._agents[name] for name in names if name in self._agents and name not in exclude
        ]
        why = "No agent clearly matches this request." if self.settings.enabled else f"R{OFF[1:]}."
        return question(agents, why=why)

    async def _run_stages(
        self, text: str, strategy: Strategy, exclude: frozenset[str]
    ) -> tuple[list[StageResult], RoutingVerdict]:
        if not isinstance(text, str):
            raise UserError(f"a request to route must be text, not {type(text).__name__}")
        if not text.strip():
            return [], _nobody("the request is empty")
        if not self._agents.keys() - exclude:
            return [], _nobody("there are no agents to choose from")
        stages = await self._stages(text, strategy, exclude)
        return stages, verdict(strategy, stages)

    async def _stages(
        self, text: str, strategy: Strategy, exclude: frozenset[str]
    ) -> list[StageResult]:
        """The results of the stages of `strategy`. After a stage that is sure, no further stage
        runs."""
        stages: list[StageResult] = []
        many = strategy == "llm" and self._are_many(exclude)
        if strategy in ("rule", "hybrid") or many:
            stages.append(await self._by_rules(text, exclude))
            if strategy == "rule" or (strategy == "hybrid" and stages[-1].sure):
                return stages
        if strategy in ("semantic", "hybrid") or many:
            stages.append(await self._meaning.decide(text, excluded=exclude))
            if strategy == "semantic" or (strategy == "hybrid" and self._is_settled(stages)):
                return stages
        stages.append(await self._by_model(text, exclude, stages))
        return stages

    def _are_many(self, exclude: Collection[str]) -> bool:
        """Whether a model cannot choose among all agents at once."""
        from ekiden.routing.llm import MAX_CANDIDATES

        return len(self._agents.keys() - exclude) > MAX_CANDIDATES

    def _is_settled(self, stages: Sequence[StageResult]) -> bool:
        """Whether semantic is sure, alone or together with rules that name the same agent."""
        agreed = agreement(stages)
        least = self.settings.rule.confidence_threshold
        return stages[-1].sure or (agreed is not None and agreed.confidence >= least)

    async def _by_rules(self, text: str, exclude: Collection[str] = ()) -> StageResult:
        if len(text) <= _SHORT:
            return self._rules.decide(text, excluded=exclude)
        result: StageResult = await _beside(self._rules.decide, text, excluded=exclude)
        return result

    async def _by_model(
        self, text: str, exclude: Collection[str], before: list[StageResult]
    ) -> StageResult:
        if self._llm is not None:
            result = await self._llm.decide(text, excluded=exclude, ranking=ranking(before))
            least = self.settings.rule.confidence_threshold
            return combined(result, before, sure_at=least)
        return StageResult(
            method="llm",
            agent=None,
            confidence=0,
            sure=False,
            reason="there is no model to ask: set agents.routing.llm.model, or the team's model",
        )

    def _switched_off(self, cause: RouteCause, exclude: Collection[str]) -> RoutingVerdict:
        """The verdict while routing is disabled: the default agent, but no agent if the person
        asked for routing."""
        default = self.settings.default_agent
        if cause == "asked" or default not in self._agents or default in exclude:
            return _nobody(f"{OFF}: name an agent, as in `@{min(self._agents, default='name')} …`")
        return RoutingVerdict(agent=default, method="default", confidence=0, reason=OFF)

    def _or_default(self, taken: RoutingVerdict, exclude: Collection[str]) -> RoutingVerdict:
        default = self.settings.default_agent
        if taken.agent is not None or self.settings.fallback != "default_agent":
            return taken
        if default is None or default in exclude:
            return taken
        reason = f"{taken.reason}; so the default agent takes it"
        return RoutingVerdict(agent=default, method="default", confidence=0, reason=reason)


async def _beside(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function that may block: in a thread, so that an event loop is not blocked.

    Without an event loop there is nothing to block, and `asyncio` need not be imported.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return func(*args, **kwargs)
    from ekiden.tools.under_way import in_thread

    return await in_thread(func, *args, **kwargs)


OFF = "routing is switched off (agents.routing.enabled is false)"

_KEPT = RoutingVerdict(
    agent=None, method="sticky", confidence=100, reason="it has the conversation"
)


def _decision(
    taken: RoutingVerdict,
    stages: Sequence[StageResult],
    strategy: Strategy,
    cause: RouteCause,
    began: float,
    *,
    limit: int = 20,
) -> RouteDecision:
    listed = candidates(taken, stages, limit=max(limit, 1))
    matched = next((score for score in listed if score.agent == taken.agent), None)
    return RouteDecision(
        agent=taken.agent,
        method=taken.method,
        confidence=taken.confidence,
        reason=taken.reason,
        strategy=strategy,
        cause=cause,
        matched_keywords=matched.keywords if matched else (),
        matched_patterns=matched.patterns if matched else (),
        candidates=listed,
        stages=tuple(stages),
        elapsed_ms=(perf_counter() - began) * 1e3,
        context=taken.context,
    )


def _by_name(agents: Iterable[Agent[Any]]) -> dict[str, Agent[Any]]:
    found: dict[str, Agent[Any]] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise UserError(
                f"a router needs Agent objects, not {agent!r:.80} ({type(agent).__name__})"
            )
        if found.setdefault(agent.name, agent) is not agent:
            raise UserError(f"two different agents are called {agent.name!r}: rename one of them")
        if agent.name == ROUTER_NAME and _is_target(agent):
            raise UserError(
                f"{ROUTER_NAME!r} is the name of the router itself: give the agent another one"
            )
    return found


def _is_target(agent: Agent[Any]) -> bool:
    traits = agent.traits
    return agent.scope != "system" and not traits.is_router and not traits.is_human


def _strategy(name: str) -> Strategy:
    for each in STRATEGIES:
        if each == name:
            return each
    raise UserError(
        f"no routing strategy is called {name!r}{suggestion(str(name), STRATEGIES)}; "
        f"there are: {', '.join(STRATEGIES)}"
    )


def _nobody(reason: str) -> RoutingVerdict:
    return RoutingVerdict(agent=None, method="none", confidence=0, reason=reason)


class SemanticLoader:
    """Creates the semantic stage once, at the first request, in a thread."""

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        settings: RoutingSettings,
        *,
        embedder: Embedder | None = None,
        stage: Stage | None = None,
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._embedder = embedder
        self._made: Stage | str | None = stage
        """The stage, or the reason why there is none. `None`: not created yet."""
        self._making = threading.Lock()

    async def prepare(self) -> str | None:
        """Create the stage if necessary. Returns the reason if it is unavailable."""
        made = self._made if self._made is not None else await _beside(self._make)
        return made if isinstance(made, str) else None

    async def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """Return the result of the stage. If the stage is unavailable or fails, the result has no
        agent."""
        if isinstance(self._made, str):
            return _no_result(self._made)
        result: StageResult = await _beside(self._decide, text, excluded)
        return result

    def _decide(self, text: str, excluded: Collection[str]) -> StageResult:
        made = self._make()
        if isinstance(made, str):
            return _no_result(made)
        try:
            return made.decide(text, excluded=excluded)
        except Exception as exc:
            return _no_result(f"semantic routing failed: {_shown(exc)}")

    def _make(self) -> Stage | str:
        with self._making:
            if self._made is None:
                try:
                    self._made = self._new()
                except ModuleNotFoundError as exc:
                    self._made = f"semantic routing needs {exc.name}: pip install 'ekiden[local]'"
                except Exception as exc:
                    self._made = f"semantic routing cannot be set up: {_shown(exc)}"
            return self._made

    def _new(self) -> Stage | str:
        from ekiden.routing.semantic import SemanticStage, semantic_stage

        semantic, sure_at = self._settings.semantic, self._settings.rule.confidence_threshold
        if self._embedder is None:
            return semantic_stage(
                self._agents, semantic, sure_at=sure_at, on_learning=LEARNING.get()
            )
        return SemanticStage(
            self._agents, self._embedder, threshold=semantic.threshold, sure_at=sure_at
        )


def _no_result(reason: str) -> StageResult:
    return StageResult(method="semantic", agent=None, confidence=0, sure=False, reason=reason)


def _shown(exc: Exception) -> str:
    return plain_line(f"{type(exc).__name__}: {exc}", _MAX_REASON)
