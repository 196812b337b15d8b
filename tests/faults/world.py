"""A model and a tool that remember nothing and write everything down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeAlias

from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest, is_message, text_of
from ekiden.core.tools.tool import FunctionTool
from ekiden.testing import ScriptedModel, hang
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.ledger import Ledger, digest, digest_of
from tests.faults.waiting import until

Script: TypeAlias = Callable[[ModelRequest], StepLike]


class World:
    """What the agents of a scenario are made of, in one process."""

    def __init__(
        self, folder: Path, *, hang_at: str = "", wanted: str = "A-42", meet: int = 1
    ) -> None:
        """At the steps that match `hang_at`, as ``session/step``, the model never answers. The
        tool waits until so many processes as `meet` are at it, or were."""
        self.ledger = Ledger(folder)
        self.wanted = wanted
        """What code wants that does not do the same every time."""
        self._hang_at = hang_at
        self._meet = meet

    def model(self, script: Script) -> ScriptedModel:
        """A model that answers each request as `script` says, in whichever process it is asked."""

        def respond(request: ModelRequest) -> StepLike:
            self.ledger.note(
                "model",
                session=request.session_id,
                step=request.step,
                agent=request.agent,
                digest=digest(request),
                items=[digest_of(item) for item in request.input],
            )
            check_answered(request)
            is_stuck = fnmatch(f"{request.session_id}/{request.step}", self._hang_at)
            return hang() if is_stuck else script(request)

        return ScriptedModel(respond=respond, record=False)

    def book(self) -> FunctionTool:
        """A tool with an effect outside, which also counts in the session's variables."""
        ledger = self.ledger

        @function_tool
        async def book(ctx: ToolContext[None], what: str) -> str:
            """Book something."""
            ctx.set(what, ctx.get(what, 0) + 1)
            await asyncio.sleep(0)  # Parallel calls get as far, too.
            if self._meet > 1:
                ledger.note("comes")
                await until(self._have_met, "the others come")
            return ledger.take_effect(ctx.idempotency_key, what)

        return book

    def _have_met(self) -> bool:
        return len({line["pid"] for line in self.ledger.lines("comes")}) >= self._meet


def check_answered(request: ModelRequest) -> None:
    """Providers refuse a call that is not answered exactly once, afterwards."""
    answers: dict[str, int] = {}
    for item in request.input:
        if item.get("type") == "function_call":
            assert item["call_id"] not in answers, f"{item} is there twice"
            answers[item["call_id"]] = 0
        elif item.get("type") == "function_call_output":
            answers[item["call_id"]] += 1
    assert set(answers.values()) <= {1}, f"answers to calls: {answers}"


def wish(request: ModelRequest) -> str:
    """The last word of what the person said last."""
    said = [
        text_of(item) for item in request.input if is_message(item) and item.get("role") == "user"
    ]
    return said[-1].split()[-1]


def is_booked(request: ModelRequest, what: str) -> bool:
    """Whether the model was shown that the tool did it."""
    return any(
        item.get("type") == "function_call_output" and item["output"] == f"{what} is booked"
        for item in request.input
    )


def told(request: ModelRequest, text: str) -> bool:
    """Whether a call was answered with something that contains `text`."""
    return any(
        item.get("type") == "function_call_output" and text in str(item["output"])
        for item in request.input
    )
