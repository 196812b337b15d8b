"""Teams whose models answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)
from ekiden.handoff import handoff
from ekiden.tools import function_tool

ANSWER = "done"


class RelayModel:
    """A model that hands off `left` times and then answers."""

    def __init__(self) -> None:
        self.left = 0
        self.calls = 0
        self.seen = 0
        """How much of the conversation the last call was shown."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The next transfer, or the answer; looks at nothing but its own count."""
        self.calls += 1
        self.seen = len(request.input)
        if self.left == 0:
            yield ModelResponse([assistant_message(ANSWER)])
            return
        self.left -= 1
        target = "b" if request.agent == "a" else "a"
        yield ModelResponse([function_call(f"call_{self.calls}", f"transfer_to_{target}", "{}")])


class Desk:
    """A model that passes a question on, looks an order up, and answers."""

    def __init__(self) -> None:
        self.calls = 0

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Gives the event loop a turn first, as the network would; looks at the last item only."""
        await asyncio.sleep(0)
        self.calls += 1
        call_id = f"call_{self.calls}"
        if request.agent == "triage":
            yield ModelResponse([function_call(call_id, "transfer_to_specialist", "{}")])
        elif request.input[-1].get("type") == "function_call_output" and self._looked_up(request):
            yield ModelResponse([assistant_message(ANSWER)])
        else:
            yield ModelResponse([function_call(call_id, "lookup_order", '{"order_id":"A-42"}')])

    @staticmethod
    def _looked_up(request: ModelRequest) -> bool:
        return "shipped" in str(request.input[-1].get("output"))


@function_tool
async def lookup_order(order_id: str) -> str:
    """Find an order."""
    return f"{order_id}: shipped"


def ring(model: RelayModel) -> Agent[Any]:
    """Two agents that hand to each other."""
    first = Agent("a", model=model)
    back = handoff(first, allow_return="always")
    first.handoffs.append(handoff(Agent("b", model=model, handoffs=[back]), allow_return="always"))
    return first


def desk(model: Desk) -> Agent[Any]:
    """One agent that hands to another, which has a tool."""
    specialist = Agent("specialist", model=model, tools=[lookup_order])
    return Agent("triage", model=model, handoffs=[specialist])
