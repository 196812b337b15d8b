"""A support desk that asks a person before it refunds an order.

    python examples/support_desk.py

The agent `triage` hands the conversation to the agent `billing`, whose tool needs human approval.
The question waits in the inbox, stored in `support.db`. Answer it here, or in another terminal:

    ekiden inbox answer ID approve --store support.db
"""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden import (
    Agent,
    Inbox,
    InboxQuery,
    ModelRequest,
    RunConfig,
    Runner,
    Session,
    SqliteStore,
    Waiting,
    function_tool,
)
from ekiden.testing import ScriptedModel, call, say, transfer


def script(request: ModelRequest) -> Any:
    """Play both agents: hand off, call the tool, report its result."""
    if request.agent == "triage":
        return transfer("billing", reason="a refund")
    if not any(item.get("name") == "refund" for item in request.input):
        return call("refund", order_id="1042", euros=30)
    return say(f"I asked for your refund. {request.input[-1]['output']}")


MODEL = ScriptedModel(respond=script)  # With a key: MODEL = "openai:gpt-5-mini"


@function_tool(needs_approval=True)
def refund(order_id: str, euros: int) -> str:
    """Refund an order."""
    return f"{euros} euros for order {order_id} are on their way."


billing = Agent("billing", instructions="Refund orders.", model=MODEL, tools=[refund])
triage = Agent("triage", instructions="Find the right agent.", model=MODEL, handoffs=[billing])


async def main() -> None:
    """Run one request, with a person in between."""
    config = RunConfig(approver="inbox")
    async with SqliteStore("support.db") as store:
        session, inbox = Session(store=store), Inbox(store)
        result = await Runner.run(
            triage, "My order 1042 arrived broken.", session=session, run_config=config
        )
        while isinstance(result.outcome, Waiting):
            for item in (await inbox.list(InboxQuery(session_id=session.session_id))).items:
                print(f"{item.subject} {item.arguments}")
                try:
                    choice = await asyncio.to_thread(input, f"{' or '.join(item.options)}? ")
                except EOFError:
                    way = f"ekiden inbox answer {item.id} approve --store support.db"
                    raise SystemExit(f"no terminal to ask at; answer with: {way}") from None
                await inbox.answer(item.id, choice=choice.strip(), by="you")
            result = await Runner.resume(triage, session, run_config=config)
        print(result.final_output)
        print(" → ".join(result.chain))


if __name__ == "__main__":
    asyncio.run(main())
