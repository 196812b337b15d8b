"""A team behind a server, and a client that starts a run, watches it, and answers what it asks.

In one terminal, in the folder of this file:

    ekiden serve --team served_desk:team --store served.db --token-file served.token

In another:

    EKIDEN_API_KEY_FILE=served.token python served_desk.py "I want my money back for order 1042"

It shows who gets the request and what is done, and asks you before anything is paid back. End the
server with Ctrl-C while it asks, start it again, and answer then: nothing is lost.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from ekiden import (
    Agent,
    CodeContext,
    EkidenError,
    Event,
    ModelDelta,
    Team,
    ToolError,
    function_tool,
)
from ekiden.client import Client, Run, RunStarted
from ekiden.runtime import HandOff


@function_tool(confirmation=True)
def refund(order_id: str) -> str:
    """Pay an order back."""
    return f"Order {order_id} is paid back."


async def receive(ctx: CodeContext) -> HandOff:
    """Reception: everything about money is for the desk."""
    return ctx.hand_off("desk", reason="it is about money")


async def work(ctx: CodeContext) -> str:
    """The desk: pays back, if a person agrees."""
    found = re.search(r"\d{4}", ctx.text)
    if found is None:
        return "Which order is it?"
    try:
        return await ctx.call(refund, order_id=found[0])
    except ToolError:
        return f"Order {found[0]} is not paid back."


desk = Agent("desk", run=work, tools=[refund])
team = Team(Agent("reception", run=receive, handoffs=[desk]), desk)


def watch(shown: Iterable[RunStarted | Event | ModelDelta | Run]) -> tuple[Run, int]:
    """Tell what happens; the run as it stands at the end, and the number of its last event."""
    last = 0
    for each in shown:
        if isinstance(each, Run):
            return each, last
        if isinstance(each, Event):
            last = each.seq
            print(f"  {each.seq:2} {each.type} {each.agent or ''}")
    raise SystemExit("the stream ended without an end")


def main() -> None:
    """Say something to the team, and see it through."""
    parser = argparse.ArgumentParser(description="Ask the served desk something.")
    parser.add_argument("text")
    parser.add_argument("--server", default="http://127.0.0.1:8321")
    options = parser.parse_args()
    with Client(options.server) as client:
        run, last = watch(client.runs.stream(options.text))
        while run.questions:
            for question in run.questions:
                item = client.inbox.get(question)
                question_line = f"{item.subject} {item.arguments} ({'/'.join(item.options)}): "
                try:
                    choice = input(question_line)
                except EOFError:
                    way = f"ekiden inbox answer {item.id} CHOICE --server {options.server}"
                    raise SystemExit(f"no terminal to ask at; answer with: {way}") from None
                client.inbox.answer(item.id, choice.strip(), expected_version=item.version)
            run, last = watch(client.runs.follow(run.run_id, after=last))
        print(f"{run.status}: {run.output}")


if __name__ == "__main__":
    try:
        main()
    except EkidenError as error:
        raise SystemExit(f"{error.code}: {error}") from None
