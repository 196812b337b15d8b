"""A team without a model's moods: a handoff, a tool that needs a yes, an answer word by word.

What it does follows from what it is asked, so any number of sessions can use it at the same time.
``hold:NAME`` in a request makes the model wait until the file NAME exists in the folder that
`RELAY_FOLDER` names: a test decides when it goes on.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ekiden import Agent, Team, function_tool
from ekiden.core.conversation.model import (
    Item,
    ModelDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    function_call,
    is_message,
    text_of,
)

REFUNDS: list[str] = []
"""The orders that were paid back by this process."""


@function_tool(confirmation=True)
def refund(order: str) -> str:
    """Pay an order back."""
    REFUNDS.append(order)
    folder = os.environ.get("RELAY_FOLDER")
    if folder:
        with (Path(folder) / "refunds.log").open("a", encoding="utf-8") as file:
            file.write(f"{order}\n")
    return f"{order} is paid back"


class RelayModel:
    """Triage hands over; the desk pays back if it is asked to, and says so."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        said = _last_said(request.input)
        held = re.search(r"hold:(\w+)", said)
        if held is not None:
            await _until(Path(os.environ["RELAY_FOLDER"]) / held[1])
        last = request.input[-1]
        if request.agent == "triage":
            yield ModelResponse(output=[function_call("c1", "transfer_to_desk", "{}")])
        elif "refund" in said and last.get("call_id") != "c2":
            yield ModelResponse(output=[function_call("c2", "refund", '{"order":"1042"}')])
        else:
            told = str(last.get("output")) if "refund" in said else f"you said: {said}"
            for word in re.findall(r"\S+\s*", told):
                yield ModelDelta(kind="text", text=word)
            yield ModelResponse(output=[assistant_message(told)])


def _last_said(items: Sequence[Item]) -> str:
    said = [text_of(item) for item in items if is_message(item) and item["role"] == "user"]
    return said[-1] if said else ""


async def _until(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)


def relay_team() -> Team:
    """A fresh one."""
    model = RelayModel()
    desk = Agent("desk", model=model, tools=[refund])
    triage = Agent("triage", model=model, handoffs=[desk])
    return Team(triage, desk)


team = relay_team()
