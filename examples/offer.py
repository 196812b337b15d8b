"""PM asks Sales for a customer's data, Sales asks a person for a discount, and PM writes the offer.

In one terminal:

    python examples/offer.py

It stops at the question to the operator and says how to answer it. In another terminal:

    ekiden inbox list --store offer.db
    ekiden inbox answer ID approve --store offer.db

Then the first one goes on. Nothing is lost if it was ended meanwhile: start it again.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ekiden import (
    Agent,
    CodeContext,
    Inbox,
    Runner,
    Session,
    SessionNotFound,
    SqliteStore,
    Team,
    Waiting,
)

CUSTOMERS: dict[int, dict[str, Any]] = {42: {"name": "青木商店", "orders": 17, "list_price": 1200}}


async def write_offer(ctx: CodeContext) -> str:
    """PM: everything about the customer is Sales' business."""
    customer = await ctx.ask("sales", "customer data", {"customer": 42}, timeout_s=60)
    return f"Offer for {customer['name']}: {customer['price']} ({customer['terms']})"


async def look_up_customer(ctx: CodeContext) -> dict[str, Any]:
    """Sales: a discount is not an agent's to give."""
    customer = CUSTOMERS[42]
    answer = await ctx.request_approval(
        f"15 % discount for {customer['name']}?",
        context={"orders so far": customer["orders"], "list price": customer["list_price"]},
    )
    if answer.choice != "approve":
        return {**customer, "price": customer["list_price"], "terms": "list price"}
    price = customer["list_price"] * 85 // 100
    return {**customer, "price": price, "terms": f"15 % off, granted by {answer.by}"}


team = Team(Agent("pm", run=write_offer), Agent("sales", run=look_up_customer))


async def main(path: str) -> None:
    """Run PM's session to its end, through however many starts of this program."""
    async with SqliteStore(path) as store:
        session = Session("offer-42", store=store)
        try:
            await session.row()
            print("going on where it was left")
            result = await Runner.resume(team, session)
        except SessionNotFound:
            result = await Runner.run(team, "An offer for customer 42, please.", session=session)
        if isinstance(result.outcome, Waiting):
            for item in (await Inbox(store).list()).items:
                print(f"{item.from_agent} asks the {item.role}: {item.subject}")
                print(f"  ekiden inbox answer {item.id} approve --store {path}", flush=True)
            result = await Runner.wait(team, session)
        print(result.final_output)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("store", nargs="?", default="offer.db", help="the file of the store")
    asyncio.run(main(options.parse_args().store))
