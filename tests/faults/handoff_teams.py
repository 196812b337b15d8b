"""The teams whose handoffs are asked about, refused, undone and given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import ModelError
from ekiden.core.handoffs import HandoffRequest, PolicyName
from ekiden.core.profile import Capability
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import AgentHooks
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import handoff, keep_last
from ekiden.runtime import CodeContext, RunConfig
from ekiden.testing import call, fail, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.ledger import Ledger, digest
from tests.faults.teams import Slip, noting
from tests.faults.undoing import undo, undo_at_second_try, undo_never
from tests.faults.world import World, is_booked, told, wish


class Yes:
    """A person who agrees to everything and writes down to what."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def approve(self, request: ConfirmationRequest) -> Approval:
        """Yes."""
        self._ledger.note("asked", session=request.session_id, tool=request.tool)
        return Approval(approved=True, by="anna")


def attended(world: World) -> RunConfig:
    """A run in which people can be asked, and whose rollback does not wait."""
    return RunConfig(approver=Yes(world.ledger), compensation_backoff_s=0)


class NotingAgentHooks(AgentHooks[Any]):
    """Hooks of an agent that only write down that they were called."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        """Note it."""
        self._ledger.note("own_hook", source=source.name, target=agent.name)


def reserve_of(world: World) -> FunctionTool:
    """A tool whose effect is undone with the handoff during which it is used."""

    @function_tool
    async def reserve(ctx: ToolContext[World], what: str) -> str:
        """Reserve something."""
        await ctx.on_rollback(undo, key=what, arguments=what)
        ctx.set("reserved", [*ctx.get("reserved", []), what])
        return world.ledger.take_effect(ctx.idempotency_key, what)

    return reserve


def accepting(world: World) -> Callable[[Any, HandoffRequest], Any]:
    """For `Agent.accepts`: write the offer down, and take it."""

    async def accepts(ctx: RunContextWrapper[Any], request: HandoffRequest) -> bool:
        world.ledger.note("offer", source=request.source, policy=request.policy)
        return True

    return accepts


def policy(
    name: PolicyName, first: str | None = None, second: str | None = None
) -> Callable[[World], Team]:
    """triage → shipping, which reserves two things and fails, back to triage → the best at bills.

    Both handoffs have the policy, with these conditions; all that may have a say in a handoff has.
    """

    def team(world: World) -> Team:
        def on_handoff(ctx: RunContextWrapper[Any], slip: Slip) -> None:
            world.ledger.note("callback", reason=slip.reason)

        model = world.model(_policy_script)
        shipping = Agent(
            "shipping",
            instructions="Ship it.",
            model=model,
            tools=[reserve_of(world)],
            accepts=accepting(world),
        )
        billing = Agent(
            "billing",
            instructions="Bill it.",
            model=model,
            tools=[world.book()],
            accepts=accepting(world),
            capabilities=(Capability(name="bills"),),
        )
        to_shipping = handoff(
            shipping,
            on_handoff=on_handoff,
            input_type=Slip,
            input_filter=noting(world, keep_last(3)),
            confirm=True,
            completes="result",
            policy=name,
            condition=first,
        )
        to_the_best = handoff("*", capabilities=["bills"], policy=name, condition=second)
        triage = Agent(
            "triage",
            instructions="Sort it.",
            model=model,
            tools=[world.book()],
            handoffs=[to_shipping, to_the_best],
            hooks=NotingAgentHooks(world.ledger),
        )
        return Team(triage, billing)

    return team


def _policy_script(request: ModelRequest) -> StepLike:
    match request.agent:
        case "triage" if told(request, "no lorry starts"):
            return transfer("best_at_bills", reason="shipping cannot")
        case "triage":
            return [call("book", what="paper"), transfer("shipping", reason="to be sent")]
        case "shipping" if is_booked(request, "driver"):
            return fail(ModelError("no lorry starts"))
        case "shipping":
            return call("reserve", what="driver" if is_booked(request, "lorry") else "lorry")
    if not is_booked(request, wish(request)):
        return call("book", what=wish(request))
    return say(f"{wish(request)} will be billed; I was shown {digest(request)}")


def nested(world: World) -> Team:
    """triage → planner → builder, who fails; then planner fails, too, and triage is alone."""

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "triage" if told(request, "no plan without walls"):
                return say(f"nobody builds {wish(request)}; I was shown {digest(request)}")
            case "triage":
                return transfer("planner", reason="to be built")
            case "planner" if told(request, "no wood"):
                return fail(ModelError("no plan without walls"))
            case "planner" if is_booked(request, "paper"):
                return transfer("builder", reason="it is planned")
            case "planner":
                return call("reserve", what="paper")
            case "builder" if is_booked(request, "hammer"):
                return fail(ModelError("no wood"))
        return [call("reserve", what="nails"), call("reserve", what="hammer")]

    model, reserve = world.model(script), reserve_of(world)
    builder = Agent("builder", instructions="Build it.", model=model, tools=[reserve])
    planner = Agent(
        "planner",
        instructions="Plan it.",
        model=model,
        tools=[reserve],
        handoffs=[handoff(builder, completes="result")],
    )
    to_planner = handoff(planner, completes="result")
    return Team(Agent("triage", instructions="Sort it.", model=model, handoffs=[to_planner]))


def compensated(world: World) -> Team:
    """front → shipping, which is code, registers four compensations, acts, and fails.

    One compensation needs two tries, and one cannot be made at all.
    """

    async def ship(ctx: CodeContext[World]) -> Any:
        await ctx.on_rollback(undo_never, key="permit", arguments="permit")
        await ctx.call("book", what="permit")
        await ctx.on_rollback(undo_at_second_try, key="lorry", arguments="lorry")
        ctx.set("load", ["lorry"])
        await ctx.call("book", what="lorry")
        ctx.on_rollback(undo, key="driver", arguments="driver")
        await ctx.call("book", what="driver")
        ctx.delete("paper")
        await ctx.on_rollback(undo, key="fuel", arguments="fuel")
        raise RuntimeError("the lorry broke down")

    async def receive(ctx: CodeContext[World]) -> Any:
        if "shipping" in ctx.failed_handoffs:
            return f"nobody ships {ctx.get('paper')} after {len(ctx.items)} items"
        return ctx.hand_off("shipping", reason=await ctx.call("book", what="paper"))

    book = world.book()
    shipping = Agent("shipping", run=ship, tools=[book])
    to_shipping = handoff(shipping, completes="result")
    return Team(Agent("front", run=receive, tools=[book], handoffs=[to_shipping]))


def returned(world: World) -> Team:
    """triage → orders, which uses a tool → triage, by a declared way back, which answers."""

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "orders":
            if is_booked(request, wish(request)):
                return transfer("triage", reason="it is booked")
            return call("book", what=wish(request))
        if is_booked(request, wish(request)):
            return say(f"{wish(request)} is booked; I was shown {digest(request)}")
        return transfer("orders", reason="to be booked")

    model = world.model(script)
    orders = Agent("orders", instructions="Book it.", model=model, tools=[world.book()])
    triage = Agent("triage", instructions="Sort it.", model=model, handoffs=[orders])
    orders.handoffs = [handoff(triage, allow_return=True)]
    return Team(triage)
