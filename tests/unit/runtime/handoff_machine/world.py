"""The agents of a team as real ones, and everything around them that plays a part."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Item, ModelRequest, Usage
from ekiden.core.handoffs import Decline, HandoffRequest, HandoffTrigger
from ekiden.core.profile import Budget, Capability
from ekiden.core.roles import AgentReply, Approval, ConfirmationRequest, RemoteTask
from ekiden.handoff import handoff, remove_all_tools
from ekiden.runtime import Limits, RunConfig
from ekiden.runtime.kinds.code_agent import CodeContext
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from tests.unit.runtime.handoff_machine.teams import (
    BEST,
    NOBODY,
    TOOLS,
    AgentSpec,
    EdgeSpec,
    TeamSpec,
)
from tests.unit.runtime.handoff_machine.tools import BY_NAME, Ledger, arguments_of, call_of

TOKENS = 10
"""What every answer of a model costs."""


@dataclass(frozen=True, slots=True)
class Move:
    """What an agent does in one of its turns, whoever it is."""

    kind: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a model was asked."""

    agent: str
    tools: frozenset[str]
    input: list[Item]


@dataclass(slots=True, kw_only=True)
class Request:
    """What a program asks for."""

    to: str
    context: str = ""
    policy: Any = None
    capabilities: tuple[str, ...] = ()


class ModelAway(ConnectionError):
    """A model that cannot be reached."""


@dataclass(slots=True, kw_only=True)
class World:
    """One team at work: its doubles, what they do, and what they saw."""

    spec: TeamSpec
    script: list[Move] = field(default_factory=list)
    away: set[str] = field(default_factory=set)
    declining: set[str] = field(default_factory=set)
    approving: bool = True
    named: set[str] = field(default_factory=set)
    """Whom the person names just now."""
    interrupt: Callable[[], Awaitable[None]] | None = None
    """Done while a model is asked, once."""
    interrupt_in: int = 0
    """After so many answers."""
    asking: Request | None = None
    """What a program asks for just now."""
    left: dict[str, Request] = field(default_factory=dict)
    """By id, what programs asked for that somebody else was to do."""
    asked: dict[str, Question] = field(default_factory=dict)
    """By step, the question that was last asked for it."""
    failed: set[tuple[str, str]] = field(default_factory=set)
    ledger: Ledger = field(default_factory=Ledger)
    troubles: list[str] = field(default_factory=list)
    """What doubles noticed: an exception of theirs would pass for an agent's failure."""
    agents: dict[str, Agent[Any]] = field(default_factory=dict)
    team: Team = field(init=False)
    config: RunConfig = field(init=False)

    def __post_init__(self) -> None:
        model = ScriptedModel(
            respond=self._answer,
            usage=Usage(requests=1, input_tokens=TOKENS // 2, output_tokens=TOKENS // 2),
            record=False,
        )
        for spec in self.spec.agents:
            self.agents[spec.name] = self._agent(spec, model)
        for spec in self.spec.agents:
            self.agents[spec.name].handoffs = [self._edge(edge) for edge in spec.edges]
        self.team = Team(*self.agents.values())
        self.config = RunConfig(
            limits=Limits(turns=40, depth=self.spec.depth),
            compensation_backoff_s=0,
            approver=_Approver(self),
            on_busy="refuse",
        )

    def _agent(self, spec: AgentSpec, model: ScriptedModel) -> Agent[Any]:
        name = spec.name
        ways: dict[str, Any] = {
            "model": {"model": model},
            "code": {"run": self._run_code},
            "runner": {"runner": _Elsewhere(self)},
            "person": {"person": name.removeprefix("person:")},
        }
        return Agent(
            name,
            tools=[BY_NAME[tool] for tool in spec.tools],
            capabilities=tuple(
                Capability(name=skill, proficiency=score) for skill, score in spec.skills
            ),
            available=self._is_there if spec.available == "asked" else spec.available == "yes",
            accepts=self._accepts if spec.accepts == "asked" else None,
            **ways[spec.kind],
        )

    def _edge(self, edge: EdgeSpec) -> Any:
        options: dict[str, Any] = {
            "allow_return": edge.allow_return,
            "policy": edge.policy,
            "condition": None if edge.above is None else f"level > {edge.above}",
            "capabilities": edge.capabilities,
            "completes": edge.completes,
            "restrict_tools": edge.restrict_tools,
            "budget": None if edge.tokens is None else Budget(tokens=edge.tokens),
            "confirm": edge.confirm,
            "tool_name_override": edge.tool_name,
            "trigger": _trigger(edge),
        }
        if edge.target == BEST:
            return handoff("*", **options)
        if edge.view == "last":
            options["include_context"] = False
        elif edge.view == "no tools":
            options["input_filter"] = remove_all_tools
        return handoff(self.agents[edge.target], **options)

    def _is_there(self, ctx: RunContextWrapper[Any], agent: Any) -> bool:
        return agent.name not in self.away

    def _accepts(self, ctx: RunContextWrapper[Any], request: HandoffRequest) -> bool | Decline:
        return Decline("busy") if request.target in self.declining else True

    def move(self, turn: int) -> Move:
        """What the script says for a turn; after its end agents answer."""
        return self.script[turn] if turn < len(self.script) else Move("say", 0, 0)

    def target(self, source: str, number: int) -> str:
        """Whom an agent wants to hand to: mostly one of those it may, else anybody or nobody."""
        ways = [edge.target for edge in self.spec[source].edges if edge.trigger is None]
        names = (*ways, *ways, *ways, *self.spec.names, NOBODY)
        return names[number % len(names)]

    def fails_now(self, move: Move, key: str) -> bool:
        """Whether this turn fails: always, or only when it is tried first."""
        if move.kind == "fail once" and ("", key) not in self.failed:
            self.failed.add(("", key))
            return True
        return move.kind == "fail"

    def _answer(self, request: ModelRequest) -> Any:
        shown = list(request.input)
        self._check_input(request, shown)
        tools = frozenset(tool.name for tool in request.tools)
        self.asked[request.step] = Question(agent=request.agent, tools=tools, input=shown)
        answer = self._planned(request)
        self.interrupt_in -= 1
        if self.interrupt is not None and self.interrupt_in < 0:
            interrupt, self.interrupt = self.interrupt, None
            return _after(interrupt, answer)
        return answer

    def _planned(self, request: ModelRequest) -> Any:
        move = self.move(int(request.step.split(".")[1]) - 1)
        if self.fails_now(move, request.step):
            return fail(ModelAway("the model is away"))
        to, tool = _tool(self.target(request.agent, move.x)), call_of(move.y)
        match move.kind:
            case "hand":
                return transfer(to)
            case "hand words":
                return transfer(to, reason="why not", context=f"words {move.y % 2}")
            case "say hand":
                return [say(f"I think so ({request.step})."), transfer(to)]
            case "tool":
                return tool
            case "two tools":
                return [tool, call_of(move.x)]
            case "books":
                return [call_of(3), call_of(3 + 5 * (move.y % 4))]
            case "tool hand":
                return [tool, transfer(to)]
            case "two hands":
                return [transfer(to), transfer(_tool(self.target(request.agent, move.y)))]
            case "best":
                return call("transfer_to_best", reason="somebody better")
            case "stray":
                return [call("no_such_tool"), tool]
            case "bad words":
                return [{"type": "function_call", "name": to, "arguments": '{"reason": '}]
            case _:
                return say(f"{request.agent} answers ({request.step}).")

    def _check_input(self, request: ModelRequest, shown: list[Item]) -> None:
        """No model takes a call without its output, or an output without its call."""
        calls: dict[str, int] = {}
        for item in shown:
            match item.get("type"):
                case "function_call":
                    calls[item["call_id"]] = 0
                case "function_call_output":
                    if item["call_id"] not in calls:
                        self.troubles.append(f"{request.step}: an output without call: {item}")
                    else:
                        calls[item["call_id"]] += 1
        for call_id, outputs in calls.items():
            if outputs != 1:
                self.troubles.append(f"{request.step}: {call_id} has {outputs} outputs")

    async def _run_code(self, ctx: CodeContext[Any]) -> Any:
        said = sum("role" in item for item in ctx.items)
        move = self.move(said % (len(self.script) + 1))
        if self.fails_now(move, f"code {said}"):
            raise ModelAway("the code fails")
        if "tool" in move.kind:
            name = TOOLS[move.y % len(TOOLS)]
            if name in {tool.name for tool in ctx.agent.tools}:
                await _tolerant(ctx.call(name, **arguments_of(name, move.y)))
        if "hand" in move.kind:
            return ctx.hand_off(self.target(ctx.agent.name, move.x), reason="code says so")
        return "the code answers"


async def _after(interrupt: Callable[[], Awaitable[None]], answer: Any) -> Any:
    await interrupt()
    return answer


def _trigger(edge: EdgeSpec) -> HandoffTrigger | None:
    match edge.trigger:
        case "condition":
            return HandoffTrigger(type="condition", expression=f"level > {edge.trigger_above}")
        case "event":
            return HandoffTrigger(type="event", event="bell")
        case "error":
            return HandoffTrigger(type="error")
        case None:
            return None


class _Approver:
    def __init__(self, world: World) -> None:
        self.world = world

    async def approve(self, request: ConfirmationRequest) -> Approval:
        return Approval(approved=self.world.approving, by="anna")


class _Elsewhere:
    """An agent on another machine, which keeps its word when it is asked again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.replies: dict[str, AgentReply] = {}

    async def run_task(self, task: RemoteTask) -> AgentReply:
        key = task.idempotency_key
        if key not in self.replies:
            self.replies[key] = self._reply(task)
        return self.replies[key]

    def _reply(self, task: RemoteTask) -> AgentReply:
        world = self.world
        move = world.move(int(task.idempotency_key.rpartition(":")[2].split(".")[1]) - 1)
        if world.fails_now(move, task.idempotency_key):
            raise ModelAway("the other side is away")
        to = world.target(task.agent, move.x)
        match move.kind:
            case "stray":
                return AgentReply(declined="not today")
            case "say hand":
                return AgentReply(text="I looked.", hand_to=to, reason="go on")
            case "hand" | "hand words" | "tool hand":
                return AgentReply(hand_to=to)
            case _:
                return AgentReply(text="the other side answers")


def _tool(target: str) -> str:
    return EdgeSpec(target=target).tool_name


async def _tolerant(calling: Any) -> None:
    try:
        await calling
    except Exception as exc:  # the tool's own error, told to the code
        if "slipped" not in str(exc):
            raise


def words_of(call: Item) -> str | None:
    """What a call passes along that the target could make use of; `None` if it is not JSON."""
    try:
        passed = json.loads(call["arguments"] or "{}")
    except ValueError:
        return None
    return str(passed.get("context") or "")
