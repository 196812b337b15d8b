"""The program that is killed while it changes state; its argument is the store's address."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import SessionNotFound
from ekiden.project.stores import open_store
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool

STEPS = 4


@function_tool
def count(ctx: RunContextWrapper[Any]) -> str:
    """One more, in every scope at once."""
    number = ctx.get("n", 0) + 1
    for name in ("n", "run:n", "user:n", "app:n"):
        ctx.set(name, number)
    ctx.delete(f"old{number - 1}")
    ctx.set(f"old{number}", True)
    return str(number)


def answer(request: Any) -> Any:
    """Counts until it is enough."""
    counted = [item["output"] for item in request.input if "output" in item]
    return say("done") if len(counted) >= STEPS else call("count")


async def carry_on(url: str) -> None:
    """Begin the session, or continue it."""
    agent = Agent("a", model=ScriptedModel(respond=answer), tools=[count])
    config = RunConfig(app="shop")
    async with open_store(url) as store:
        session = Session("s", store=store, user_id="ada")
        try:
            has_begun = (await session.row()).seq > 0
        except SessionNotFound:
            has_begun = False
        if has_begun:
            await Runner.resume(agent, session=session, run_config=config)
        else:
            await Runner.run(agent, "count", session=session, run_config=config)


if __name__ == "__main__":
    asyncio.run(carry_on(sys.argv[1]))
