"""A chat in the terminal for trying an agent."""

from __future__ import annotations

from typing import Any

from openai.types.responses import ResponseTextDeltaEvent

from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.items import ItemHelpers, TResponseInputItem
from ekiden.compat.agents.run import Runner
from ekiden.compat.agents.run_config import DEFAULT_MAX_TURNS


async def run_demo_loop(
    agent: Agent[Any],
    *,
    stream: bool = True,
    context: Any = None,
    max_turns: int | None = DEFAULT_MAX_TURNS,
) -> None:
    """Read messages from the terminal and print the answers, until ``exit``, ``quit`` or the end of
    input."""
    current = agent
    items: list[TResponseInputItem] = []
    while True:
        try:
            said = input(" > ")  # noqa: ASYNC250 - nothing else runs in this chat
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if said.strip().lower() in ("exit", "quit"):
            return
        if not said:
            continue
        items.append({"role": "user", "content": said})
        result: Any
        if stream:
            result = Runner.run_streamed(current, items, context=context, max_turns=max_turns)
            async for event in result.stream_events():
                _show(event)
            print()
        else:
            result = await Runner.run(current, items, context=context, max_turns=max_turns)
            if result.final_output is not None:
                print(result.final_output)
        current = result.last_agent
        items = result.to_input_list()


def _show(event: Any) -> None:
    if event.type == "raw_response_event":
        if isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, end="", flush=True)
    elif event.type == "agent_updated_stream_event":
        print(f"\n[Agent updated: {event.new_agent.name}]", flush=True)
    elif event.item.type == "tool_call_item":
        print("\n[tool called]", flush=True)
    elif event.item.type == "tool_call_output_item":
        print(f"\n[tool output: {event.item.output}]", flush=True)
    elif event.item.type == "message_output_item":
        ItemHelpers.text_message_output(event.item)
