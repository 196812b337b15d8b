"""Teams whose agents ask and tell each other, and ask people."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.profile import Confirmation
from ekiden.core.questions import Ask
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import dumps
from ekiden.runtime import CodeContext, RunConfig
from ekiden.testing import call, say
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.ledger import digest
from tests.faults.world import World, is_booked, told


def asked(world: World) -> Team:
    """front asks clerk, whose tool asks stock, which asks truck; front also tells archive."""

    async def truck(ctx: CodeContext[Any]) -> str:
        return f"{await ctx.call('book', what='truck')} for {ctx.received['from']}"

    async def stock(ctx: CodeContext[Any]) -> Any:
        shelf = await ctx.call("book", what="shelf")
        return {"shelf": shelf, "ride": await ctx.ask("truck", "a ride", {"of": "A-42"})}

    async def archive(ctx: CodeContext[Any]) -> Any:
        return await ctx.call("book", what="file")

    async def front(ctx: CodeContext[Any]) -> str:
        price = await ctx.ask("clerk", "the price", "of A-42")
        await ctx.tell("archive", "the offer", {"price": price})
        return f"{await ctx.call('book', what='A-42')}; {price}"

    @function_tool
    async def inquire(ctx: ToolContext[Any], what: str) -> str:
        """Ask the stock."""
        return dumps(await ctx.ask("stock", "what is left", {"of": what}))

    def script(request: ModelRequest) -> StepLike:
        if not is_booked(request, "offer"):
            return call("book", what="offer")
        if not told(request, "truck"):
            return call("inquire", what="A-42")
        return say(f"I was shown {digest(request)}")

    book = world.book()
    return Team(
        Agent("front", run=front, tools=[book]),
        Agent("clerk", instructions="Price it.", model=world.model(script), tools=[book, inquire]),
        Agent("stock", run=stock, tools=[book]),
        Agent("truck", run=truck, tools=[book]),
        Agent("archive", run=archive, tools=[book]),
    )


def compared(world: World) -> Team:
    """A tool of desk asks left and right at once, right asks truck, and another tool runs along."""

    async def truck(ctx: CodeContext[Any]) -> Any:
        return await ctx.call("book", what="truck")

    async def left(ctx: CodeContext[Any]) -> Any:
        return await ctx.call("book", what="left")

    async def right(ctx: CodeContext[Any]) -> Any:
        return [await ctx.call("book", what="right"), await ctx.ask("truck", "a ride")]

    @function_tool
    async def compare(ctx: ToolContext[Any]) -> str:
        """Ask both."""
        return dumps(
            await ctx.ask_all(
                [Ask(agent="left", subject="the price"), Ask(agent="right", subject="the price")]
            )
        )

    def script(request: ModelRequest) -> StepLike:
        if not told(request, "truck"):
            return [call("compare"), call("book", what="note")]
        return say(f"I was shown {digest(request)}")

    book = world.book()
    desk = Agent("desk", instructions="Do.", model=world.model(script), tools=[book, compare])
    return Team(
        desk,
        Agent("left", run=left, tools=[book]),
        Agent("right", run=right, tools=[book]),
        Agent("truck", run=truck, tools=[book]),
    )


def pay_of(world: World) -> FunctionTool:
    """A tool that needs a person's yes."""

    @function_tool(confirmation=Confirmation(timeout_s=3600))
    async def pay(ctx: ToolContext[Any], what: str) -> str:
        """Pay for something."""
        return world.ledger.take_effect(ctx.idempotency_key, what)

    return pay


def approved(world: World) -> Team:
    """front asks clerk, who needs a person's word, and pays, which needs a person's yes."""

    async def clerk(ctx: CodeContext[Any]) -> str:
        draft = await ctx.call("book", what="draft")
        answer = await ctx.request_approval("15 % off?", ("no", "yes"), {"draft": draft})
        return f"{answer.choice} by {answer.by}"

    async def front(ctx: CodeContext[Any]) -> str:
        word = await ctx.ask("clerk", "a discount", timeout_s=3600)
        return f"{word}; {await ctx.call('pay', what=world.wanted)}"

    return Team(
        Agent("front", run=front, tools=[pay_of(world)]),
        Agent("clerk", run=clerk, tools=[world.book()]),
    )


def by_inbox(world: World) -> RunConfig:
    """Tools that need a yes wait for it in the inbox."""
    return RunConfig(approver="inbox")
