"""A program that pays and is killed: ``python -m tests.faults.payer STORE FILE``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from ekiden import Agent, Runner, Session, function_tool
from ekiden.core.context import ToolContext
from ekiden.project import open_store
from ekiden.testing import ScriptedModel, call


async def main(store_url: str, paid: Path) -> None:
    """Pay once, and die before the result is stored."""

    @function_tool
    async def pay(ctx: ToolContext[None], cents: int) -> str:
        paid.write_text(f"{ctx.idempotency_key} {cents}")
        os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    agent = Agent("till", model=ScriptedModel([call("pay", cents=100)]), tools=[pay])
    async with open_store(store_url) as store:
        await Runner.run(agent, "Pay.", session=Session("s", store=store))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
