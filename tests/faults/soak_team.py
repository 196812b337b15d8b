"""The team of the soak: handoffs, tools, questions, approvals and rollbacks, as an order wishes.

``EKIDEN_SOAK`` names the folder of the ledger, so that any process can load the team by its name,
as ``ekiden worker --team tests.faults.soak_team:team`` does. Models and code remember nothing: they
read from the conversation how far it is.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest, is_message, text_of
from ekiden.core.errors import ModelError
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import dumps
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, Rollback
from ekiden.testing import call, delay, fail, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.ledger import Ledger
from tests.faults.world import World, told

TEAM = "tests.faults.soak_team:team"
"""As `ekiden worker` takes it."""
FOLDER = "EKIDEN_SOAK"
"""The environment variable with the ledger's folder."""
THINKS_S = "EKIDEN_SOAK_THINKS"
"""That with the longest time that a model or tool takes."""
CALLS = {"book": "book", "ask": "inquire", "pay": "pay", "word": "consult", "both": "book"}
"""What an order may wish for, in this order, and the tool for it."""
UNDO = "undo"
"""A wish for a handoff that fails after an effect, and is undone."""
_PATIENT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a person wants of a session."""

    name: str
    wishes: tuple[str, ...]

    @classmethod
    def of_chance(cls, name: str, chance: random.Random) -> Order:
        """One with up to three wishes."""
        wishes = chance.sample([*CALLS, UNDO], chance.randint(1, 3))
        return cls(name=name, wishes=tuple(sorted(wishes)))

    @property
    def text(self) -> str:
        """What the person writes."""
        return f"order {self.name}: {' '.join(self.wishes)}"

    @classmethod
    def read(cls, text: str) -> Order:
        """From what the person wrote."""
        name, _, wishes = text.removeprefix("order ").partition(": ")
        return cls(name=name, wishes=tuple(wishes.split()))

    @property
    def calls(self) -> list[str]:
        """The wishes that tools fulfil, in the order in which they do."""
        return [wish for wish in CALLS if wish in self.wishes]

    @property
    def outputs(self) -> dict[str, list[str]]:
        """What the tools give for each wish."""
        given = {
            "book": [_booked(self.name, "book")],
            "ask": [
                dumps(
                    {
                        "shelf": _booked(self.name, "shelf"),
                        "ride": f"{_booked(self.name, 'truck')} for stock",
                    }
                )
            ],
            "pay": [_booked(self.name, "pay")],
            "word": [f"the clerk says yes, {_booked(self.name, 'draft')}"],
            "both": [_booked(self.name, "left"), _booked(self.name, "right")],
        }
        return {wish: given[wish] for wish in self.calls}

    @property
    def answer(self) -> str:
        """The right answer."""
        said = [output for outputs in self.outputs.values() for output in outputs]
        return f"order {self.name} is done: {'; '.join(said)}"

    @property
    def effects(self) -> list[str]:
        """What happens outside, each once."""
        made: dict[str, tuple[str, ...]] = {
            "book": ("book",),
            "ask": ("shelf", "truck"),
            "pay": ("pay",),
            "word": ("draft",),
            "both": ("left", "right"),
            UNDO: ("lorry", "lorry-undone"),
        }
        return [f"{self.name}-{what}" for wish in self.wishes for what in made[wish]]


def _booked(name: str, what: str) -> str:
    return f"{name}-{what} is booked"


def team() -> Team:
    """The team of this process."""
    return made_team(World(Path(os.environ[FOLDER])))


def undo(rollback: Rollback) -> None:
    """Undo a reservation, under the key of its compensation."""
    ledger = Ledger(Path(os.environ[FOLDER]))
    ledger.take_effect(rollback.idempotency_key, f"{rollback.arguments}-undone")


def made_team(world: World) -> Team:
    """triage → (shipping, which fails) → desk, which uses tools → billing, which answers."""
    model, book = world.model(script), book_of(world.ledger)
    billing = Agent("billing", instructions="Bill it.", model=model)
    desk = Agent(
        "desk",
        instructions="Do it.",
        model=model,
        tools=[book, pay_of(world.ledger), inquire, consult],
        handoffs=[billing],
    )
    shipping = Agent(
        "shipping", instructions="Ship it.", model=model, tools=[reserve_of(world.ledger)]
    )
    to_shipping = handoff(shipping, completes="result")
    return Team(
        Agent("triage", instructions="Sort it.", model=model, handoffs=[to_shipping, desk]),
        Agent("stock", run=stock, tools=[book]),
        Agent("truck", run=truck, tools=[book]),
        Agent("clerk", run=clerk, tools=[book]),
    )


def script(request: ModelRequest) -> StepLike:
    """What the models say, a while after they were asked."""
    return delay(pause_s(), _said(request))


def _said(request: ModelRequest) -> StepLike:
    order = Order.read(_first_words(request))
    match request.agent:
        case "triage" if UNDO in order.wishes and not told(request, "the handoff to shipping"):
            return transfer("shipping", reason="to be sent")
        case "triage":
            return transfer("desk", reason="to be done")
        case "shipping" if not told(request, "lorry"):
            return call("reserve", what=f"{order.name}-lorry")
        case "shipping":
            return fail(ModelError("shipping is closed"))
        case "desk":
            return _next_call(order, request)
    return say(f"order {order.name} is done: {'; '.join(_given(request))}")


def _next_call(order: Order, request: ModelRequest) -> StepLike:
    given = _given(request)
    for wish, outputs in order.outputs.items():
        if all(output in given for output in outputs):
            continue
        match wish:
            case "both":
                return [call("book", what=f"{order.name}-{side}") for side in ("left", "right")]
            case "book" | "pay":
                return call(wish, what=f"{order.name}-{wish}")
        return call(CALLS[wish], what=order.name)
    return transfer("billing", reason="to be paid")


def _first_words(request: ModelRequest) -> str:
    return next(
        text_of(item) for item in request.input if is_message(item) and item["role"] == "user"
    )


def _given(request: ModelRequest) -> list[str]:
    """What the desk's tools gave, in the order of their calls."""
    calls = {
        item["call_id"]
        for item in request.input
        if item.get("type") == "function_call" and item["name"] in CALLS.values()
    }
    return [
        item["output"]
        for item in request.input
        if item.get("type") == "function_call_output" and item["call_id"] in calls
    ]


def pause_s() -> float:
    """How long something takes, by chance."""
    return random.uniform(0.0, float(os.environ.get(THINKS_S, "0.05")))


async def take_effect(ctx: ToolContext[Any], ledger: Ledger, what: str) -> str:
    """Do something outside, with time before and after it in which the process may be killed."""
    run: Any = ctx.link
    await asyncio.sleep(pause_s())
    ledger.note("owner", session=ctx.session_id, epoch=run.claim.epoch, owner=run.claim.owner)
    done = ledger.take_effect(ctx.idempotency_key, what)
    await asyncio.sleep(pause_s())
    return done


def book_of(ledger: Ledger) -> FunctionTool:
    """A tool with an effect, which also counts in the session's variables."""

    @function_tool
    async def book(ctx: ToolContext[Any], what: str) -> str:
        """Book something."""
        ctx.set(what, ctx.get(what, 0) + 1)
        return await take_effect(ctx, ledger, what)

    return book


def pay_of(ledger: Ledger) -> FunctionTool:
    """A tool that needs a person's yes."""

    @function_tool(confirmation=Confirmation(timeout_s=_PATIENT_S))
    async def pay(ctx: ToolContext[Any], what: str) -> str:
        """Pay for something."""
        return await take_effect(ctx, ledger, what)

    return pay


def reserve_of(ledger: Ledger) -> FunctionTool:
    """A tool whose effect is undone with the handoff during which it is used."""

    @function_tool
    async def reserve(ctx: ToolContext[Any], what: str) -> str:
        """Reserve something."""
        await ctx.on_rollback(undo, key=what, arguments=what)
        return await take_effect(ctx, ledger, what)

    return reserve


@function_tool
async def inquire(ctx: ToolContext[Any], what: str) -> str:
    """Ask the stock."""
    return dumps(await ctx.ask("stock", "what is left", what, timeout_s=_PATIENT_S))


@function_tool
async def consult(ctx: ToolContext[Any], what: str) -> str:
    """Ask the clerk."""
    return str(await ctx.ask("clerk", "a discount", what, timeout_s=_PATIENT_S))


async def stock(ctx: CodeContext[Any]) -> Any:
    """Books a shelf, and asks for a ride."""
    name = ctx.received["context"]
    shelf = await ctx.call("book", what=f"{name}-shelf")
    return {"shelf": shelf, "ride": await ctx.ask("truck", "a ride", name, timeout_s=_PATIENT_S)}


async def truck(ctx: CodeContext[Any]) -> str:
    """Books itself."""
    booked = await ctx.call("book", what=f"{ctx.received['context']}-truck")
    return f"{booked} for {ctx.received['from']}"


async def clerk(ctx: CodeContext[Any]) -> str:
    """Makes a draft, and asks a person."""
    draft = await ctx.call("book", what=f"{ctx.received['context']}-draft")
    answer = await ctx.request_approval("15 % off?", ("no", "yes"), {"draft": draft})
    return f"the clerk says {answer.choice}, {draft}"
