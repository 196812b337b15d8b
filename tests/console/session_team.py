"""A team in whose sessions everything happens that a conversation shows.

What it does follows from the last words of the user, so that any number of sessions can use it.
``hold:NAME`` makes the desk's model wait, after half of its answer, until `release(NAME)`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from typing import Any, Final

from ekiden import Agent, Team, function_tool, handoff, person
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
from ekiden.core.errors import ModelError

HOSTILE: Final = '<img src=x onerror="window.__ran=1">'
"""What runs wherever text is taken for HTML."""

_held: dict[str, threading.Event] = {}


def release(name: str) -> None:
    """Let the answer that is held under this name go on."""
    _held.setdefault(name, threading.Event()).set()


def forget_holds() -> None:
    """For the next test."""
    _held.clear()


@function_tool
def lookup(order: str) -> str:
    """Find an order."""
    if order == "none":
        raise LookupError(f"no such order {HOSTILE}")
    return (
        f'{{"order": "{order}", "status": "on its way", "note": "{HOSTILE.replace(chr(34), "")}"}}'
    )


@function_tool(confirmation=True)
def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


class DeskModel:
    """Triage hands over; the others do what the user's last words ask for."""

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One call."""
        said = _last_said(list(request.input))
        since = _since_said(list(request.input))
        if request.agent == "triage":
            async for event in _triage(said, since):
                yield event
        elif "crash" in said:
            raise ModelError(f"the model is broken {HOSTILE}")
        elif request.agent == "desk" and (tool := _wanted(said)) and not _answered(since):
            yield ModelResponse(output=[tool])
        else:
            async for event in _answer(said):
                yield event


async def _triage(said: str, since: list[Item]) -> AsyncIterator[ModelEvent]:
    outputs = [item for item in since if item.get("type") == "function_call_output"]
    if "broken" in said:
        if outputs:
            yield ModelResponse(output=[assistant_message("I answer it myself.")])
            return
        target = "transfer_to_oracle"
    elif "people" in said:
        if outputs:
            yield ModelResponse(output=[assistant_message("People have told me.")])
            return
        target = "transfer_to_person_support"
    else:
        target = "transfer_to_desk"
    yield ModelResponse(
        output=[function_call("c1", target, f'{{"reason": "it is about **orders** {_quoted()}"}}')]
    )


def _quoted() -> str:
    return HOSTILE.replace('"', '\\"')


async def _answer(said: str) -> AsyncIterator[ModelEvent]:
    held = re.search(r"hold:(\w+)", said)
    told = f"**You said**: {said}"
    for word in re.findall(r"\S+\s*", told):
        yield ModelDelta(kind="text", text=word)
    if held is not None:
        gate = _held.setdefault(held[1], threading.Event())
        while not gate.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)
        yield ModelDelta(kind="text", text=" And that is all.")
        told += " And that is all."
    yield ModelResponse(output=[assistant_message(told)])


def _wanted(said: str) -> Item | None:
    if "refund" in said:
        return function_call("c2", "refund", '{"order":"1042"}')
    if "lookup" in said:
        return function_call("c3", "lookup", '{"order":"1042"}')
    if "missing" in said:
        return function_call("c4", "lookup", '{"order":"none"}')
    return None


def _answered(since: list[Item]) -> bool:
    return any(
        item.get("type") == "function_call_output" and item.get("call_id") != "c1" for item in since
    )


def _last_said(items: list[Item]) -> str:
    said = [text_of(item) for item in items if is_message(item) and item["role"] == "user"]
    return said[-1] if said else ""


def _since_said(items: list[Item]) -> list[Item]:
    places = [n for n, item in enumerate(items) if is_message(item) and item["role"] == "user"]
    return items[places[-1] :] if places else items


class _HostileName(Agent[Any]):
    """An agent with a name that cannot be made today; a store may have it."""

    def _check_name(self) -> None: ...


def session_team() -> Team:
    """A fresh one."""
    forget_holds()
    model = DeskModel()
    desk = Agent("desk", model=model, tools=[lookup, refund])
    oracle = Agent("oracle", model=_Broken())
    triage = Agent(
        "triage",
        model=model,
        handoffs=[desk, handoff(oracle), person("support", description="A colleague.")],
    )
    return Team(triage, desk, oracle, _HostileName(HOSTILE, model=model))


class _Broken:
    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise ModelError("the oracle is silent")
        yield
