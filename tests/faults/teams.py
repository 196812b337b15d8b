"""The teams of the scenarios."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import ModelError
from ekiden.core.handoffs import HandoffInputData
from ekiden.core.integrations.foreign_agents import (
    ForeignTurn,
    TurnAnswer,
    TurnCheckpoint,
    TurnHandoff,
    TurnPart,
)
from ekiden.core.roles import Assignment, RouteCause
from ekiden.core.runs import RunHooks
from ekiden.handoff import handoff, keep_first_and_last, keep_last, remove_all_tools
from ekiden.runtime import CodeContext, RunConfig
from ekiden.runtime.kinds.foreign import foreign_agent
from ekiden.testing import call, fail, say, transfer
from ekiden.testing.steps import StepLike
from tests.faults.ledger import digest
from tests.faults.world import World, is_booked, told, wish


def relay(world: World) -> Team:
    """triage → orders, which uses a tool → billing, which answers with all it was shown."""

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "triage":
                return transfer("orders", reason="it is about an order")
            case "orders" if is_booked(request, wish(request)):
                return transfer("billing", reason="to be paid", summary=wish(request))
            case "orders":
                return call("book", what=wish(request))
        return say(f"{wish(request)} will be billed; I was shown {digest(request)}")

    model = world.model(script)
    billing = Agent("billing", instructions="Bill it.", model=model)
    orders = Agent(
        "orders", instructions="Book it.", model=model, tools=[world.book()], handoffs=[billing]
    )
    return Team(Agent("triage", instructions="Sort it.", model=model, handoffs=[orders]))


@dataclass
class Slip:
    """What is handed over with a callback."""

    reason: str


def filtered(world: World) -> Team:
    """The relay with a callback and a filter of its own at one handoff, the run's at the other.

    In the second run the last agent, who still has the conversation, uses the tool.
    """

    async def on_handoff(ctx: RunContextWrapper[Any], slip: Slip) -> None:
        world.ledger.note("callback", reason=slip.reason)
        ctx.set("handed", ctx.get("handed", 0) + 1)

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "triage":
                return transfer("orders", reason="it is about an order")
            case "orders" if is_booked(request, wish(request)):
                return transfer("billing", reason="to be paid")
            case "orders":
                return call("book", what=wish(request))
            case "billing" if wish(request) == "B-7" and not is_booked(request, "B-7"):
                return call("book", what="B-7")
        return say(f"{wish(request)} will be billed; I was shown {digest(request)}")

    model, book = world.model(script), world.book()
    billing = Agent("billing", instructions="Bill it.", model=model, tools=[book])
    orders = Agent("orders", instructions="Book it.", model=model, tools=[book], handoffs=[billing])
    to_orders = handoff(
        orders,
        on_handoff=on_handoff,
        input_type=Slip,
        input_filter=noting(world, remove_all_tools),
    )
    return Team(Agent("triage", instructions="Sort it.", model=model, handoffs=[to_orders]))


def filtering_config(world: World) -> RunConfig:
    """A run with a filter for the handoffs that have none."""
    return RunConfig(handoff_input_filter=noting(world, keep_first_and_last(1, 1)))


def noting(world: World, apply: Any) -> Any:
    def noting(data: HandoffInputData) -> Any:
        seen = [len(data.input_history), len(data.pre_handoff_items), len(data.new_items)]
        world.ledger.note("filter", seen=seen)
        return apply(data)

    return noting


class NotingHooks(RunHooks[Any]):
    """Hooks that only write down that they were called."""

    def __init__(self, world: World) -> None:
        self._ledger = world.ledger

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self._ledger.note("hook", source=from_agent.name, target=to_agent.name)


class FirstOfThoseLeft:
    """A router that takes the first name that is not excluded."""

    def __init__(self, *names: str) -> None:
        self._names = names

    async def assign(
        self,
        text: str,
        *,
        cause: RouteCause,
        excluded: Collection[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Assignment:
        """The first one left."""
        chosen = next(name for name in self._names if name not in excluded)
        return Assignment(agent=chosen, details={"agent": chosen, "cause": cause, "text": text})

    async def keep(self, text: str, *, agent: str) -> Assignment:
        """It stays."""
        return Assignment(agent=agent, details={"agent": agent, "cause": "kept"})


def routed(world: World) -> Team:
    """The router gives it to billing, who gives up; then to orders, who uses a tool."""

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "billing":
            return transfer("router-agent", reason="not mine")
        if is_booked(request, wish(request)):
            return say(f"{wish(request)} is booked; I was shown {digest(request)}")
        return call("book", what=wish(request))

    model = world.model(script)
    router = Agent("router-agent", scope="system", router=FirstOfThoseLeft("billing", "orders"))
    billing = Agent("billing", instructions="Bill it.", model=model, handoffs=[router])
    orders = Agent("orders", instructions="Book it.", model=model, tools=[world.book()])
    return Team(router, billing, orders)


def parallel(world: World) -> Team:
    """desk asks for three tools at once, then for one and a transfer; billing answers."""

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "billing":
            return say(f"all will be billed; I was shown {digest(request)}")
        if is_booked(request, "three"):
            return [call("book", what="four"), transfer("billing", reason="to be paid")]
        return [call("book", what=what) for what in ("one", "two", "three")]

    model = world.model(script)
    billing = Agent("billing", instructions="Bill it.", model=model)
    desk = Agent("desk", instructions="Do.", model=model, tools=[world.book()], handoffs=[billing])
    return Team(desk)


def rollback(world: World) -> Team:
    """triage → shipping, whose model fails, back to triage → billing, which uses a tool."""

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "shipping":
                return fail(ModelError("shipping is closed"))
            case "triage" if told(request, "shipping is closed"):
                return transfer("billing", reason="shipping cannot")
            case "triage":
                return transfer("shipping", reason="to be sent")
        if not is_booked(request, wish(request)):
            return call("book", what=wish(request))
        return say(f"{wish(request)} will be billed; I was shown {digest(request)}")

    model = world.model(script)
    shipping = Agent("shipping", instructions="Ship it.", model=model)
    billing = Agent("billing", instructions="Bill it.", model=model, tools=[world.book()])
    to_shipping = handoff(shipping, input_filter=noting(world, keep_last(1)))
    return Team(
        Agent("triage", instructions="Sort it.", model=model, handoffs=[to_shipping, billing])
    )


def code(world: World) -> Team:
    """Three agents that are code; the first makes two calls, the second one."""

    async def answer(ctx: CodeContext[Any]) -> Any:
        return {"items": len(ctx.items), "from": ctx.received["from"]}

    async def collect(ctx: CodeContext[Any]) -> Any:
        return ctx.hand_off("billing", reason=await ctx.call("book", what="three"))

    async def receive(ctx: CodeContext[Any]) -> Any:
        done = [await ctx.call("book", what="one"), await ctx.call("book", what="two")]
        return ctx.hand_off("orders", reason=" and ".join(done))

    book = world.book()
    billing = Agent("billing", run=answer)
    orders = Agent("orders", run=collect, tools=[book], handoffs=[billing])
    return Team(Agent("front", run=receive, tools=[book], handoffs=[orders]))


def code_rollback(world: World) -> Team:
    """front → shipping, which makes a call and fails, back to front, which makes another call."""

    async def ship(ctx: CodeContext[Any]) -> Any:
        await ctx.call("book", what="second")
        raise RuntimeError("the lorry broke down")

    async def receive(ctx: CodeContext[Any]) -> Any:
        if "shipping" in ctx.failed_handoffs:
            return f"{await ctx.call('book', what='third')} after {len(ctx.items)} items"
        done = await ctx.call("book", what="first")
        return ctx.hand_off("shipping", reason=done)

    book = world.book()
    shipping = Agent("shipping", run=ship, tools=[book])
    return Team(Agent("front", run=receive, tools=[book], handoffs=[shipping]))


class _Framework:
    """Books each of the given things, with a checkpoint after each."""

    framework = "booker"
    durability = "call"

    def __init__(self, world: World, wanted: Sequence[str], *, to: str = "") -> None:
        self._world, self._wanted, self._to = world, wanted, to

    async def take_turn(self, turn: ForeignTurn) -> AsyncGenerator[TurnPart, None]:
        done: list[str] = list(turn.checkpoint or [])
        for what in self._wanted[len(done) :]:
            take = partial(self._take, what)
            done = [*done, await turn.step("book", {"what": what}, take)]
            yield TurnCheckpoint(data=done)
        if self._to:
            yield TurnHandoff(to=self._to, reason=" and ".join(done), checkpoint=done)
        else:
            yield TurnAnswer(output={"done": done, "items": len(turn.items)}, checkpoint=done)

    async def _take(self, what: str, key: str) -> str:
        return self._world.ledger.take_effect(key, what)


def foreign(world: World) -> Team:
    """Two agents of other frameworks; the first books two things and hands over."""
    billing = foreign_agent(_Framework(world, ["three"]), "billing")
    front = _Framework(world, ["one", "two"], to="billing")
    return Team(foreign_agent(front, "front", handoffs=[billing]))
