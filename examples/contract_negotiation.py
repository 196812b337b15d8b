"""A contract negotiation: a buyer calls for bids and agrees on terms with the best bidder.

    python examples/contract_negotiation.py

Then Ekiden executes the agreement as a handoff from the buyer to the seller. Every message of the
negotiation is stored, so each side may run in its own process.
"""

from __future__ import annotations

import asyncio

from ekiden import Agent, Bus, CodeContext, Collaborations, HandoffExecutor, MemoryStore, Team

# The agents decide in code. For models:
# Agent("buyer", model="openai:gpt-5-mini", tools=negotiation_tools(together, with_agents=["mill"]))


async def deliver(ctx: CodeContext) -> str:
    """Do what was agreed."""
    return f"delivered: {ctx.text}"


async def buy(ctx: CodeContext) -> str:
    """Have nothing else to do."""
    return "bought"


mill = Agent("mill", run=deliver)
farm = Agent("farm", run=deliver)
buyer = Agent("buyer", run=buy, handoffs=[mill, farm])
team = Team(buyer)
TASK = "100 kg of flour"


async def main() -> None:
    """Negotiate, sign, and execute."""
    store = MemoryStore()  # SqliteStore("deals.db") keeps the negotiation after the program's end.
    async with Bus(store) as bus:
        together = Collaborations(bus, executor=HandoffExecutor(team, store))
        us = together.as_agent("buyer")
        sellers = {name: together.as_agent(name) for name in ("mill", "farm")}

        deal = await us.call(["flour"], task=TASK, participants=list(sellers))
        await sellers["mill"].bid(deal.id, 0.9, offer={"price": 120, "days": 3})
        await sellers["farm"].bid(deal.id, 0.6, offer={"price": 140, "days": 1})
        deal = await us.collect(deal.id)
        best = max(deal.bids, key=lambda bid: bid.score)
        print("best bid:", best.agent, best.offer)

        deal = await us.select(deal.id, best.agent)
        terms = {"task": TASK, **best.offer, "price": 100}
        print("buyer proposes:", terms)
        await us.counter(deal.id, terms, reason="we buy every month")
        terms = {**terms, "price": 110}
        print("seller proposes:", terms)
        deal = await sellers[best.agent].counter(deal.id, terms)
        assert deal.terms is not None
        await us.accept(deal.id, deal.terms.version)
        deal = await sellers[best.agent].accept(deal.id, deal.terms.version)
        print("phase:", deal.phase)

        [done] = await together.resume()
        assert done.outcome is not None
        print(f"phase: {done.phase}, the handoff is {done.outcome.status}")


if __name__ == "__main__":
    asyncio.run(main())
