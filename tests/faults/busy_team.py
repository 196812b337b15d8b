"""A team that is at work while another process requests a handoff of its session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import handoff
from ekiden.testing import call, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.handoff_teams import accepting, reserve_of
from tests.faults.ledger import Ledger, digest
from tests.faults.waiting import until
from tests.faults.world import World, is_booked, told, wish

GO = "go"
"""The file that ends all waiting."""
GO_WHEN_ASKED = "go_when_asked"
"""The file that ends the waiting of processes that have noticed a request."""


def work_of(ledger: Ledger) -> FunctionTool:
    """A tool that has its effect and then waits for the file `go`."""
    go, go_when_asked = Path(ledger.folder, GO), Path(ledger.folder, GO_WHEN_ASKED)

    @function_tool
    async def work(ctx: ToolContext[Any], what: str) -> str:
        """Work at something."""
        done = ledger.take_effect(ctx.idempotency_key, what)
        ledger.note("at_work", session=ctx.session_id, what=what)
        run: Any = ctx.link
        await until(
            lambda: go.exists() or (go_when_asked.exists() and run.interruption.look),
            "somebody says go",
        )
        return done

    return work


def busy(world: World) -> Team:
    """desk, which works at paper, or hands to mason, who reserves a lorry and works at a stone.

    Whoever asks can have the session handed from desk to orders, which books what is wished for.
    """

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "orders" if not is_booked(request, wish(request)):
                return call("book", what=wish(request))
            case "mason" if not is_booked(request, "lorry"):
                return call("reserve", what="lorry")
            case "mason" if not is_booked(request, "stone"):
                return call("work", what="stone")
            case "desk" if wish(request) == "stone" and not told(request, "the handoff to mason"):
                return transfer("mason", reason="it is heavy")
            case "desk" if wish(request) != "stone" and not told(request, "paper"):
                return call("work", what="paper")
        return say(f"{request.agent} was shown {digest(request)}")

    model, work = world.model(script), work_of(world.ledger)
    mason = Agent("mason", instructions="Carve.", model=model, tools=[reserve_of(world), work])
    orders = Agent(
        "orders",
        instructions="Book it.",
        model=model,
        tools=[world.book()],
        accepts=accepting(world),
    )
    to_mason = handoff(mason, completes="result")
    return Team(
        Agent("desk", instructions="Do.", model=model, tools=[work], handoffs=[to_mason, orders])
    )
