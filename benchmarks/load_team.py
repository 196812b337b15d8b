"""The team of `server_load.py`: a model that takes its time, a handoff, a tool and an answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from ekiden import Agent, Team, function_tool
from ekiden.core.conversation.model import (
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
)

_THINKS_S = float(os.environ.get("LOAD_THINKS_S", "1"))


@function_tool
def lookup(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way"


class SlowModel:
    """Triage hands over; the desk looks the order up and answers, word by word."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call, a while after it was asked for."""
        await asyncio.sleep(_THINKS_S)
        if request.agent == "triage":
            yield ModelResponse(output=[function_call("c1", "transfer_to_desk", "{}")])
        elif request.input[-1].get("call_id") != "c2":
            yield ModelResponse(output=[function_call("c2", "lookup", '{"order":"1042"}')])
        else:
            for word in ("1042 ", "is ", "on ", "its ", "way"):
                yield ModelDelta(kind="text", text=word)
            yield ModelResponse(output=[assistant_message("1042 is on its way")])


_model = SlowModel()
_desk = Agent("desk", model=_model, tools=[lookup])
team = Team(Agent("triage", model=_model, handoffs=[_desk]), _desk)
