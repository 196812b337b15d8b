"""A team whose sessions are scheduled by a Temporal cluster.

    pip install 'ekiden[temporal]'
    temporal server start-dev
    python examples/temporal_desk.py localhost:7233

Temporal keeps the queue, the timers and the retries. The sessions stay in the store, here a file,
so Temporal gets no text of a conversation. The command `ekiden worker --engine temporal` starts
the same kind of worker.
"""

from __future__ import annotations

import argparse
import asyncio

from ekiden import Agent, CodeContext, Session, SqliteStore, Team, function_tool, submit
from ekiden.integrations.temporal import TemporalWorker
from ekiden.runtime import HandOff

# Agents in code need no key. With a model: Agent("orders", model="openai:gpt-5-mini")


@function_tool
def lookup_order(order_id: str) -> str:
    """Find an order."""
    return f"order {order_id} arrives tomorrow"


async def triage_code(ctx: CodeContext) -> HandOff:
    """Hand everything to orders."""
    return ctx.hand_off("orders", reason="a question about an order")


async def orders_code(ctx: CodeContext) -> str:
    """Look the order up."""
    return await ctx.call(lookup_order, order_id="1042")


orders = Agent("orders", run=orders_code, tools=[lookup_order])
team = Team(Agent("triage", run=triage_code, handoffs=[orders]))


async def main(address: str) -> None:
    """Submit a request, and work until nothing is left to do."""
    async with SqliteStore("temporal.db") as store:
        session = Session(store=store)
        await submit(team, "Where is my order 1042?", session=session)
        await TemporalWorker(store, team, address=address).run(until_idle=True)
        [*_, answer] = await session.get_items()
        print((await session.row()).outcome, "-", answer["content"][0]["text"])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("address", nargs="?", default="localhost:7233", help="Temporal's address")
    asyncio.run(main(options.parse_args().address))
