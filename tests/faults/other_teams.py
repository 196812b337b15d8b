"""The teams whose handoffs a trigger or a program starts, or that lead to something else."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors import ModelError
from ekiden.core.handoffs import HandoffTrigger
from ekiden.core.roles import AgentReply, RemoteTask
from ekiden.handoff import handoff, person
from ekiden.runtime import Limits, RunConfig
from ekiden.testing import call, fail, hang, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.handoff_teams import accepting, reserve_of
from tests.faults.ledger import digest
from tests.faults.world import World, is_booked, told, wish


def triggered(world: World) -> Team:
    """desk → orders, as a condition holds → night, at an event → doctor, because of an error.

    The trigger that comes first at the error leads to somebody who is not there.
    """

    @function_tool
    async def close(ctx: ToolContext[Any]) -> str:
        """End the shift."""
        ctx.publish("shift.over", {"by": "orders"})
        return world.ledger.take_effect(ctx.idempotency_key, "shift")

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "desk":
                return call("book", what="paper")
            case "orders":
                return call("close")
            case "night" if is_booked(request, "lamp"):
                return fail(ModelError("too dark"))
            case "night":
                return call("book", what="lamp")
        return say(f"good night; I was shown {digest(request)}")

    model = world.model(script)
    doctor = Agent("doctor", instructions="Heal.", model=model)
    away = Agent("away", instructions="Rest.", model=model, available=False)
    at_error = HandoffTrigger(type="error", errors=("ModelError",))
    first = HandoffTrigger(type="error", priority=1)
    night = Agent(
        "night",
        instructions="Watch.",
        model=model,
        tools=[world.book()],
        handoffs=[
            handoff(doctor, trigger=at_error, policy="conditional", condition="error_count >= 0"),
            handoff(away, trigger=first),
        ],
    )
    at_event = HandoffTrigger(type="event", event="shift.over")
    orders = Agent(
        "orders",
        instructions="Close.",
        model=model,
        tools=[close],
        handoffs=[handoff(night, trigger=at_event)],
    )
    holds = HandoffTrigger(type="condition", expression="paper == 1")
    to_orders = handoff(orders, trigger=holds, policy="immediate")
    return Team(
        Agent("desk", instructions="Do.", model=model, tools=[world.book()], handoffs=[to_orders])
    )


def far(world: World) -> RunConfig:
    """A run with many handoffs."""
    return RunConfig(limits=Limits(depth=10, turns=20))


def hung(world: World) -> Team:
    """desk, whose model never answers → orders, when its time is over."""

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "desk":
            return hang()
        if not is_booked(request, wish(request)):
            return call("book", what=wish(request))
        return say(f"{wish(request)} is booked; I was shown {digest(request)}")

    model = world.model(script)
    orders = Agent("orders", instructions="Book it.", model=model, tools=[world.book()])
    over = HandoffTrigger(type="timeout", seconds=1.0)  # Also a slow machine asks the model first.
    return Team(
        Agent("desk", instructions="Do.", model=model, handoffs=[handoff(orders, trigger=over)])
    )


def program(world: World) -> Team:
    """desk, from whom a program takes the session: to orders, to shipping, which fails, to away.

    desk says something whenever it has the session again.
    """

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "orders" if not is_booked(request, wish(request)):
                return call("book", what=wish(request))
            case "shipping" if not is_booked(request, "lorry"):
                return call("reserve", what="lorry")
            case "shipping":
                return fail(ModelError("no lorry starts"))
        return say(f"{request.agent} was shown {digest(request)}")

    model = world.model(script)
    away = Agent("away", instructions="Rest.", model=model, available=False)
    shipping = Agent("shipping", instructions="Ship.", model=model, tools=[reserve_of(world)])
    orders = Agent(
        "orders",
        instructions="Book it.",
        model=model,
        tools=[world.book()],
        accepts=accepting(world),
    )
    to_shipping = handoff(shipping, completes="result")
    to_orders = handoff(orders, confirm=True)
    desk = Agent("desk", instructions="Do.", model=model, handoffs=[to_shipping, away, to_orders])
    return Team(desk)


class Courier:
    """An agent in another process that does a task once for each key; one branch takes none."""

    def __init__(self, world: World) -> None:
        self._ledger = world.ledger

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Deliver it and pass it on, or decline."""
        if task.agent == "closed-branch":
            return AgentReply(declined="closed on Mondays")
        said = self._ledger.take_effect(task.idempotency_key, f"parcel of {len(task.items)} items")
        return AgentReply(text=said, hand_to="billing", reason="to be paid")


def elsewhere(world: World) -> Team:
    """triage → closed-branch, which declines, back → open-branch → billing, which answers."""

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "billing":
            return say(f"{wish(request)} will be billed; I was shown {digest(request)}")
        return transfer("open-branch" if told(request, "closed on Mondays") else "closed-branch")

    model, courier = world.model(script), Courier(world)
    billing = Agent("billing", instructions="Bill it.", model=model)
    closed = Agent("closed-branch", runner=courier)
    branch = Agent("open-branch", runner=courier, handoffs=[billing])
    return Team(Agent("triage", instructions="Sort it.", model=model, handoffs=[closed, branch]))


def people(world: World) -> Team:
    """triage → people, who give it back → triage, which uses a tool; the next time they answer."""

    def script(request: ModelRequest) -> StepLike:
        if wish(request) == "B-7" or "a person answered" not in (request.instructions or ""):
            return transfer("person:support", reason=f"who knows {wish(request)}?")
        if not is_booked(request, wish(request)):
            return call("book", what=wish(request))
        return say(f"{wish(request)} is booked; I was shown {digest(request)}")

    model = world.model(script)
    support = person("support")
    return Team(
        Agent(
            "triage",
            instructions="Sort it.",
            model=model,
            tools=[world.book()],
            handoffs=[support],
        )
    )
