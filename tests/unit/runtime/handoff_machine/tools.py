"""The tools of the agents, and the book in which they write what they did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ekiden.core.context import ToolContext
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime.handoff.rollback import Rollback
from ekiden.testing import call
from ekiden.tools import function_tool
from tests.unit.runtime.handoff_machine.teams import TOOLS


@dataclass(slots=True)
class Ledger:
    """What was booked, and what of it was undone."""

    booked: list[str] = field(default_factory=list)
    """Keys of compensations in the order of their registration."""
    undone: list[tuple[str, str]] = field(default_factory=list)
    """Handoff and key of each compensation that worked."""
    tries: dict[tuple[str, str], int] = field(default_factory=dict)


def call_of(number: int) -> Any:
    """A model's call of one of the tools, with some arguments."""
    name = TOOLS[number % len(TOOLS)]
    return call(name, **arguments_of(name, number))


def arguments_of(name: str, number: int) -> dict[str, Any]:
    """What one of the tools is called with."""
    match name:
        case "level":
            return {"value": number // 5 % 4}
        case "book":
            return {"failures": (0, 0, 1, 3)[number // 5 % 4], "at_once": number // 5 % 2 == 0}
        case _:
            return {}


@function_tool
async def look() -> str:
    """Look."""
    return "done"


@function_tool
async def level(ctx: ToolContext[Any], value: int) -> str:
    """Set the level."""
    ctx.set("level", value)
    return "done"


@function_tool
async def ring(ctx: ToolContext[Any]) -> str:
    """Ring the bell."""
    ctx.publish("bell")
    return "done"


@function_tool
async def book(ctx: ToolContext[Any], failures: int, at_once: bool) -> str:
    """Book something that can be cancelled, after so many tries."""
    key = ctx.idempotency_key
    ledger: Ledger = ctx.context.ledger
    if key not in ledger.booked:
        ledger.booked.append(key)
    registered = ctx.on_rollback(unbook, key=key, arguments={"failures": failures})
    if at_once:
        await registered
    return f"done {key}"


@function_tool
async def slip() -> str:
    """Fail."""
    raise ValueError("slipped")


async def unbook(rollback: Rollback) -> None:
    """What `book` has registered."""
    ledger: Ledger = rollback.context.ledger
    key = (rollback.handoff_id, rollback.key)
    ledger.tries[key] = ledger.tries.get(key, 0) + 1
    if ledger.tries[key] <= rollback.arguments["failures"]:
        raise ConnectionError("not yet")
    ledger.undone.append(key)


BY_NAME: dict[str, FunctionTool] = {tool.name: tool for tool in (look, level, ring, book, slip)}
