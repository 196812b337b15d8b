"""A travel desk with rollback: a handoff, a tool with a side effect, and its compensation.

    PYTHONPATH=examples ekiden run --team booking:team --stream "@auto Book seat 4A to Kyoto"
    PYTHONPATH=examples ekiden run --team booking:team --stream "@auto Book seat 4B and a hotel"

The file `bookings.txt` stands for a train company, which accepts each idempotency key once. In the
second request, the hotel does not answer after the seat is booked. So the handoff is rolled back,
and the seat is cancelled.

You can also start the file as a program, and pass a session and a request. If the process dies,
another process can resume the session after two seconds, as in `examples/demo.sh`:

    python examples/booking.py                                  # a rollback
    TRAIN_DELAY_S=60 python examples/booking.py kyoto "Book seat 4C to Kyoto"
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

from ekiden import (
    Agent,
    CodeContext,
    Rollback,
    RunConfig,
    Runner,
    Session,
    SqliteStore,
    Team,
    ToolContext,
    Triggers,
    UserError,
    function_tool,
)

BOOKINGS = Path(os.environ.get("BOOKINGS", "bookings.txt"))
DELAY_S = float(os.environ.get("TRAIN_DELAY_S", "0"))
"""How long the train company takes to confirm a booking."""


def record(seat: str, what: str, key: str) -> None:
    """Write a line into the train company's book, which takes each key once."""
    known = key in BOOKINGS.read_text().split() if BOOKINGS.exists() else False
    if not known:
        with BOOKINGS.open("a") as book:
            book.write(f"{seat} {what} {key}\n")
    print(f"train company: {seat} {what}{' already' if known else ''}, key {key}", file=sys.stderr)


def cancel_seat(rollback: Rollback) -> None:
    """Undo `book_seat`."""
    record(rollback.arguments, "cancelled", rollback.idempotency_key)


@function_tool
async def book_seat(ctx: ToolContext, seat: str) -> str:
    """Book a seat, such as 4A."""
    await ctx.on_rollback(cancel_seat, key=f"seat-{seat}", arguments=seat)
    record(seat, "booked", ctx.idempotency_key)
    await asyncio.sleep(DELAY_S)
    return "confirmed"


async def plan_trip(ctx: CodeContext) -> Any:
    """Travel: bookings are the business of another agent."""
    if ctx.failed_handoffs:
        return f"I could not book your trip ({ctx.failed_handoffs['booking']}). You pay nothing."
    return ctx.hand_off("booking", reason="a trip to book")


async def book_trip(ctx: CodeContext) -> str:
    """Booking: the seat first, then the hotel, which does not answer."""
    seat = re.search(r"\d+[A-F]", ctx.text)
    if seat is None:
        raise UserError("say which seat, such as 4A")
    await ctx.call(book_seat, seat=seat.group())
    if "hotel" in ctx.text:
        raise ConnectionError("the hotel does not answer")
    return f"Seat {seat.group()} is yours."


booking = Agent("booking", run=book_trip, tools=[book_seat])
travel = Agent(
    "travel",
    run=plan_trip,
    handoffs=[booking],
    triggers=Triggers(keywords=("book", "seat", "train", "Kyoto"), priority=100),
)
team = Team(travel, name="travel")


async def main(session: str | None, request: str) -> None:
    """Run the request in a session of the store that the commands use."""
    async with SqliteStore(os.environ.get("EKIDEN_STORE", "booking.db")) as store:
        result = await Runner.run(
            team,
            request,
            session=Session(session, store=store),
            run_config=RunConfig(lease_s=2),
        )
        print(result.final_output)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("session", nargs="?", help="the id of a new session")
    options.add_argument("request", nargs="?", default="Book seat 4B and a hotel")
    asyncio.run(main(**vars(options.parse_args())))
