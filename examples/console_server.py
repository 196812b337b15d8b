"""A server with the web console, and three sessions: one done, one rolled back, one waiting.

    pip install 'ekiden[server]'
    python examples/console_server.py

Open the address that the program prints. The inbox has a refund to approve, and the graph shows the
handoffs. The team is defined in this file and needs no model. To start a server without sample
data:

    ekiden serve --team console_server:team --store console.db      # in the folder of this file
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from pathlib import Path

from ekiden import (
    Agent,
    CodeContext,
    RunConfig,
    Runner,
    Session,
    SqliteStore,
    Team,
    Triggers,
    function_tool,
)
from ekiden.runtime import HandOff

STORE = "console.db"
REQUESTS = {
    "delivery-1042": "Where is my order 1042?",
    "refund-1043": "Refund order 1043, please.",
    "courier-1044": "Can a courier fetch order 1044?",
}


@function_tool(needs_approval=True)
def refund(order_id: str) -> str:
    """Refund an order."""
    return f"Order {order_id} is refunded."


async def triage_code(ctx: CodeContext) -> HandOff | str:
    """Choose by words, as a model would by meaning."""
    if ctx.failed_handoffs:
        return "The courier cannot be reached. Please bring the parcel to a shop."
    for word, agent in (("refund", "billing"), ("courier", "courier")):
        if word in ctx.text.lower():
            return ctx.hand_off(agent, reason=f"about a {word}")
    return "Your order arrives tomorrow."


async def billing_code(ctx: CodeContext) -> str:
    """Refund, with human approval."""
    found = re.search(r"\d{4}", ctx.text)
    return await ctx.call(refund, order_id=found[0]) if found else "Which order is it?"


async def courier_code(ctx: CodeContext) -> str:
    """Fail, so that the handoff is rolled back."""
    raise ConnectionError("the courier service does not answer")


billing = Agent("billing", run=billing_code, tools=[refund])
courier = Agent("courier", run=courier_code)
triage = Agent(
    "triage",
    run=triage_code,
    handoffs=[billing, courier],
    triggers=Triggers(keywords=("order", "refund", "parcel")),
)
team = Team(triage)


async def seed() -> None:
    """Run the sample requests once."""
    logging.getLogger("ekiden").setLevel(logging.CRITICAL)  # One of them is meant to fail.
    async with SqliteStore(STORE) as store:
        if (await store.info())["sessions"]:
            return
        for name, text in REQUESTS.items():
            session = Session(name, store=store, title=text)
            await Runner.run(team, text, session=session, run_config=RunConfig(approver="inbox"))


if __name__ == "__main__":
    asyncio.run(seed())
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    serve = ["-m", "ekiden.cli", "serve", "--team", "console_server:team", "--store", STORE]
    os.execv(sys.executable, [sys.executable, *serve, *sys.argv[1:]])
