"""A team whose traces have something to show: errors, retries, waits, other sessions, many spans.

What the desk does stands in the request: ``flaky`` calls a tool that fails twice, ``refund`` one
that people must allow, ``stock`` asks another agent, ``many:500`` calls a tool so many times,
``hold`` waits in its second call of the model until the test lets it go on.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from ekiden import Agent, Team, function_tool
from ekiden.core.conversation.model import (
    Item,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    Usage,
    assistant_message,
    function_call,
    is_message,
    text_of,
)
from ekiden.runtime import CodeContext

HOSTILE: Final = '<img src=x onerror="window.__ran=1">\u202egpj.exe'
_LONGEST_HOLD_S: Final = 60
_MOST_AT_ONCE: Final = 60


@function_tool
def count(number: int) -> int:
    """Say the number."""
    return number


@function_tool(confirmation=True)
def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


class DeskModel:
    """Does what the request says, one thing after the other."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        said = _last_said(request.input)
        turn = _turns(request.input)
        if request.agent == "triage":
            yield _answer(function_call("t1", "transfer_to_desk", '{"reason":"it is theirs"}'))
            return
        if "hold" in said and turn:
            await asyncio.to_thread(self.gate.wait, _LONGEST_HOLD_S)
        calls = _calls(said, turn)
        yield _answer(*calls) if calls else _answer(assistant_message(f"done: {said}"))


def _calls(said: str, turn: int) -> list[Item]:
    if "flaky" in said and turn < 3:
        return [function_call(f"f{turn}", "flaky", "{}")]
    if "hold" in said and turn == 0:
        return [function_call("h1", "count", '{"number":1}')]
    if "refund" in said and turn == 0:
        return [function_call("r1", "refund", '{"order":"1042"}')]
    if "stock" in said and turn == 0:
        asked = '{"agent":"stock","subject":"lamps","question":"How many?"}'
        return [function_call("s1", "ask_agent", asked)]
    many = re.search(r"many:(\d+)", said)
    numbers = range(turn, min(int(many[1]), turn + _MOST_AT_ONCE)) if many is not None else []
    return [function_call(f"m{n}", "count", f'{{"number":{n}}}') for n in numbers]


def _answer(*items: Item) -> ModelResponse:
    usage = Usage(requests=1, input_tokens=100, output_tokens=20, cost=0.0015)
    return ModelResponse(output=list(items), usage=usage)


def _last_said(items: Sequence[Item]) -> str:
    said = [text_of(item) for item in items if is_message(item) and item["role"] == "user"]
    return said[-1] if said else ""


def _turns(items: Sequence[Item]) -> int:
    """How many calls were answered since the last message of the user."""
    count = 0
    for item in reversed(items):
        if is_message(item) and item["role"] == "user":
            break
        is_transfer = item.get("call_id") == "t1"
        count += item.get("type") == "function_call_output" and not is_transfer
    return count


async def stock(ctx: CodeContext[Any]) -> str:
    """Knows how many there are."""
    return "seven lamps"


def trace_team(gate: threading.Event | None = None) -> Team:
    """A fresh one; `gate` lets go on what holds."""
    tries = iter(range(1000))

    @function_tool
    def flaky() -> str:
        """Fail twice, then work."""
        if next(tries) % 3 < 2:
            raise RuntimeError(f"the warehouse is closed {HOSTILE}")
        return "open again"

    model = DeskModel(gate or threading.Event())
    stock_agent = Agent("stock", run=stock)
    desk = Agent("desk", model=model, tools=[count, refund, flaky], can_ask=["stock"])
    triage = Agent("triage", model=model, handoffs=[desk])
    return Team(triage, desk, stock_agent)
