"""A phone agent: a live session in which one agent hands the caller to another agent.

    pip install 'ekiden[realtime]'
    python examples/phone_agent.py

The connection stays open during the handoff, which is stored like any other. A scripted local
server imitates OpenAI's Realtime API in the real wire format, with text instead of audio.
"""

from __future__ import annotations

import asyncio

from ekiden import (
    MemoryStore,
    RealtimeAgent,
    RealtimeModelSettings,
    RealtimeRunConfig,
    RealtimeRunner,
    RealtimeWebSocketModel,
    Session,
    function_tool,
    realtime_handoff,
)
from ekiden.testing import RealtimeServer, call, say, transfer

SCRIPT = [transfer("orders"), call("lookup_order", order_id="1042"), say("It arrives tomorrow.")]


@function_tool
def lookup_order(order_id: str) -> str:
    """Find an order."""
    return f"order {order_id} arrives tomorrow"


orders = RealtimeAgent("orders", instructions="Answer about orders.", tools=[lookup_order])
reception = RealtimeAgent(
    "reception", instructions="Greet the caller.", handoffs=[realtime_handoff(orders)]
)


async def main() -> None:
    """Take one call."""
    stored = Session("call-1", store=MemoryStore())
    config = RealtimeRunConfig(model_settings=RealtimeModelSettings(output_modalities=["text"]))
    async with RealtimeServer(SCRIPT) as server:
        # With OPENAI_API_KEY: model = RealtimeWebSocketModel("gpt-realtime")
        model = RealtimeWebSocketModel("gpt-realtime", url=server.url, api_key="any")
        runner = RealtimeRunner(reception, model=model, config=config)
        async with await runner.run(session=stored) as live:
            print("caller: Where is my order 1042?")
            await live.send_message("Where is my order 1042?")
            async for event in live:
                if event.type == "handoff":
                    print(f"{event.from_agent.name} hands to {event.to_agent.name}")
                elif event.type == "tool_end":
                    print(f"{event.agent.name} calls {event.tool.name}: {event.output}")
                elif event.type == "agent_end" and live.history[-1].text:
                    print(f"{event.agent.name}: {live.history[-1].text}")
                    break
    print(f"stored: the session is with {(await stored.row()).agent}")


if __name__ == "__main__":
    asyncio.run(main())
