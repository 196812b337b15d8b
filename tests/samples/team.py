"""The agents of the samples. The maker and the test use them, so a name here never changes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from ekiden import Agent, CodeContext, MemorySettings, Rollback, RunConfig, Team, ToolContext
from ekiden.core.conversation.model import ModelRequest, ModelResponse, is_message, text_of
from ekiden.core.errors import ModelError
from ekiden.core.plan import AgentTask, AskModel, Member, TaskDecomposition
from ekiden.core.profile import Confirmation
from ekiden.handoff import handoff
from ekiden.runtime.supervisor import Supervisor
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool
from tests.faults.ledger import Ledger

YEARS_S = 1e9
"""A time limit that no test reaches."""
IMAGE = "data:image/png;base64,iVBORw0KGgo="
FILE = "data:application/pdf;base64,JVBERi0xLjQK"
PICTURES = [
    {"type": "input_text", "text": "What is on these? 写真です"},
    {"type": "input_image", "image_url": IMAGE, "detail": "low"},
    {"type": "input_file", "filename": "invoice.pdf", "file_data": FILE},
]
REFUSAL = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "refusal", "refusal": "I do not do that."}],
}
CONFIG = RunConfig(app="samples", approver="inbox", compensation_backoff_s=0)
Code: TypeAlias = Callable[[CodeContext["World"]], Any]


class World:
    """What the agents do outside of the store, and where the process dies."""

    def __init__(self, folder: Path, *, ends_at: str = "", stops: bool = False) -> None:
        """At the effect `ends_at` the process kills itself, or stops."""
        self.ledger = Ledger(folder)
        self._ends_at = ends_at
        self._signal = signal.SIGSTOP if stops else signal.SIGKILL

    async def before_return(self, session_id: str) -> None:
        """Called before `work` returns."""

    def take_effect(self, session_id: str, key: str, what: str) -> str:
        """The effect `what`. If the process ends here, the store does not tell whether the effect
        took place."""
        self.ledger.note("effect", session=session_id, key=key, what=what)
        if what == self._ends_at:
            os.kill(os.getpid(), self._signal)
        return f"{what} is done"


@function_tool
async def work(ctx: ToolContext[World], what: str) -> str:
    """Do something."""
    ctx.set(what, "done")
    done = ctx.context.take_effect(ctx.session_id or "", ctx.idempotency_key, what)
    await ctx.context.before_return(ctx.session_id or "")
    return done


@function_tool
async def reserve(ctx: ToolContext[World], what: str) -> str:
    """Reserve something; a rollback cancels it."""
    await ctx.on_rollback(cancel, key=what, arguments=[ctx.session_id, what])
    return ctx.context.take_effect(ctx.session_id or "", ctx.idempotency_key, what)


@function_tool(confirmation=Confirmation(timeout_s=YEARS_S))
async def pay(ctx: ToolContext[World], what: str) -> str:
    """Pay for something."""
    return ctx.context.take_effect(ctx.session_id or "", ctx.idempotency_key, what)


@function_tool
async def look(ctx: ToolContext[World], at: str) -> Any:
    """Look at something."""
    ctx.context.take_effect(ctx.session_id or "", ctx.idempotency_key, at)
    return [
        {"type": "input_text", "text": f"a picture of {at}"},
        {"type": "input_image", "image_url": IMAGE},
    ]


def cancel(rollback: Rollback) -> None:
    """The compensation of `reserve`."""
    session_id, what = rollback.arguments
    world: World = rollback.context
    world.take_effect(session_id, rollback.idempotency_key, f"no {what}")


TOOLS = [work, reserve, pay, look]


def coded(*wanted: str, then: Code | None = None) -> Code:
    """Code that does these things, one after the other, and then answers."""

    async def run(ctx: CodeContext[World]) -> Any:
        done = [await ctx.call(work, what=what) for what in wanted]
        return "; ".join(done) if then is None else await then(ctx)

    return run


def scripted(*steps: StepLike) -> ScriptedModel:
    """A model that takes these steps since the last message, in whichever process it is called."""

    def respond(request: ModelRequest) -> StepLike:
        items = list(request.input)
        last = max(n for n, item in enumerate(items) if item.get("role") == "user")
        if _words(items[last]) == "thanks":
            return say("You are welcome.")
        kinds = [item.get("type") for item in items[last:] if not _is_transfer(item)]
        return steps[len([kind for kind, _ in groupby(kinds) if kind == "function_call"])]

    return ScriptedModel(respond=respond, record=False)


def _is_transfer(item: Any) -> bool:
    return str(item.get("name", "")).startswith("transfer_to_")


def _words(item: Any) -> str:
    return text_of(item) if is_message(item) else ""


async def _ask_person(ctx: CodeContext[World]) -> str:
    answer = await ctx.request_approval("15 % off? 値引き", ("no", "yes"), {"order": 17})
    return f"{answer.choice}, says {answer.by}"


async def _ask_until(ctx: CodeContext[World]) -> str:
    answer = await ctx.request_approval("Today?", ("no", "yes"), deadline_s=60, default="no")
    return f"{answer.choice}, says {answer.by}"


async def _ask_prices(ctx: CodeContext[World]) -> str:
    return f"It costs {await ctx.ask('prices', 'the price', {'of': 17}, timeout_s=YEARS_S)}."


async def _ask_slow(ctx: CodeContext[World]) -> str:
    return f"He says: {await ctx.ask('clerk', 'a discount', timeout_s=YEARS_S)}."


async def _hand_to(ctx: CodeContext[World], target: str) -> Any:
    if target in ctx.failed_handoffs:
        return f"{target} failed: {ctx.failed_handoffs[target]}"
    return ctx.hand_off(target, reason="注文", context={"order": 17})


def _to(target: str) -> Code:
    async def run(ctx: CodeContext[World]) -> Any:
        return await _hand_to(ctx, target)

    return run


async def _break_down(ctx: CodeContext[World]) -> str:
    for what in ("lorry", "driver"):
        await ctx.call(reserve, what=what)
    raise RuntimeError("no fuel")


class Parts:
    """The plan of the supervisor."""

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        """Four tasks, of which the second one waits for a person."""
        needs = {
            "fetcher": (),
            "clerk": (),
            "packer": ("fetcher",),
            "sender": ("clerk", "packer"),
        }
        return TaskDecomposition(
            tasks=tuple(
                AgentTask(
                    task_id=name,
                    agent=name,
                    description=f"{text}: {name}",
                    depends_on=before,
                    created_at=0.0,
                )
                for name, before in needs.items()
            )
        )


def team(entry: str = "packer") -> Team:
    """All agents of the samples; new sessions begin with the agent `entry`."""

    def model(name: str, *steps: StepLike, **more: Any) -> Agent[World]:
        return Agent(name, instructions="Do it.", model=scripted(*steps), tools=TOOLS, **more)

    def code(name: str, run: Code, **more: Any) -> Agent[World]:
        return Agent(name, run=run, tools=TOOLS, **more)

    packer, clerk = (
        code("packer", coded("box", "label")),
        code("clerk", coded("form", then=_ask_person)),
    )
    carrier = code("carrier", coded("load", "drive"))
    ordered = model("ordered", call("work", what="order"), say("The order is placed."))
    lost = code("lost", _break_down)
    seller = model(
        "seller",
        call("work", what="stock"),
        [call("work", what="quote"), call("work", what="letter")],
        say("The quote is in the letter."),
    )
    edges = {
        f"to-{policy}": handoff(carrier, policy=policy, completes="result", timeout_s=YEARS_S)
        for policy in ("immediate", "graceful")
    }
    edges["to-conditional"] = handoff(
        carrier, policy="conditional", condition="paper == 'done'", completes="result",
        timeout_s=YEARS_S,
    )  # fmt: skip
    confirmed = handoff(carrier, confirm=Confirmation(timeout_s=YEARS_S))
    return Team(
        packer,
        seller,
        model("payer", call("pay", what="invoice"), say("It is paid.")),
        clerk,
        code("later", _ask_until),
        code("pm", coded("offer", then=_ask_prices)),
        code("prices", coded("list", "total")),
        code("boss", _ask_slow),
        *(
            code(name, coded("paper", then=_to("carrier")), handoffs=[edge])
            for name, edge in edges.items()
        ),
        model("asks-first", transfer("carrier"), handoffs=[confirmed]),
        model(
            "desk",
            call("work", what="desk"),
            say("The desk did it."),
            handoffs=[handoff(ordered, condition="error_count == 0", timeout_s=YEARS_S)],
        ),
        code("shipping", _to("lost"), handoffs=[handoff(lost, completes="result")]),
        Supervisor(
            "planner",
            agents=[
                code("fetcher", coded("fetch")),
                clerk,
                packer,
                code("sender", coded("send")),
            ],
            decomposer=Parts(),
            concurrency=2,
            timeout_s=YEARS_S,
            retries=0,
        ),
        model("viewer", call("look", at="the desk"), call("work", what="note"), say("A desk.")),
        model(
            "waiter",
            call("remember", content="Mira takes no sugar. 砂糖なし", key="tea"),
            call("work", what="tea"),
            say("Tea without sugar."),
            memory=MemorySettings(),
        ),
        model("broken", fail(ModelError("the model is closed"))),
        model("proud", ModelResponse(output=[REFUSAL])),
        code("buyer", coded("buy"), handoffs=[carrier]),
        entry=entry,
    )
