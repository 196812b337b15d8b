"""A team whose sessions are at work all the time: each calls a tool, thinks, and calls it again.

One in ten asks a person before the tool, so that the inbox has something in it.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator

from ekiden import Agent, Team, function_tool
from ekiden.core.conversation.model import ModelEvent, ModelRequest, ModelResponse, function_call

THINKS_S = float(os.environ.get("CONSOLE_THINKS_S", "10"))


@function_tool
def step(number: int) -> str:
    """One more."""
    return f"{number} is done"


@function_tool(confirmation=True)
def pay(amount: int) -> str:
    """Pay somebody."""
    return f"{amount} is paid"


class Restless:
    """Never comes to an end."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call, after a while."""
        await asyncio.sleep(random.uniform(0, 2 * THINKS_S))
        number = len(request.input)
        said = str(request.input[0].get("content"))
        tool, value = (
            ("pay", '{"amount": 7}') if "pay" in said else ("step", f'{{"number": {number}}}')
        )
        yield ModelResponse(output=[function_call(f"c{number}", tool, value)])


team = Team(Agent("restless", model=Restless(), tools=[step, pay]))
