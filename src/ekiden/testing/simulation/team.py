"""The team of a simulation: triage, handoffs, tools, questions, approvals, a plan, code agents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest, is_message, text_of
from ekiden.core.errors import ModelError
from ekiden.core.errors.messages import QueryTimeout
from ekiden.core.plan import AgentTask, AskModel, Member, TaskDecomposition
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import handoff
from ekiden.runtime import CodeContext, Limits, Rollback, RunConfig
from ekiden.runtime.supervisor import Supervisor
from ekiden.testing.scripted import ScriptedModel, call, delay, fail, hang, say, transfer
from ekiden.testing.simulation.scene import Outside, Scene, Talk
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool

PARTS = ("walls", "roof", "doors")
"""The tasks of a plan."""
_POLLS = 40
_POLL_S = 0.5
_DEPLOYMENTS = 0.25
"""The share of the worlds in which workers that are started again have changed tools."""


async def run_front(ctx: CodeContext[Outside]) -> str:
    """Send a query to one agent and a notification to another, and use a tool."""
    name = _name(ctx)
    price = await ctx.ask("clerk", "the price", f"please price {name}", timeout_s=3600)
    await ctx.tell("archive", "the offer", f"please file {name}")
    return f"{await ctx.call('book', what=f'{name}/front')}; {price}"


async def run_archive(ctx: CodeContext[Outside]) -> str:
    """Handle a notification."""
    return str(await ctx.call("book", what=f"{_name(ctx)}/file"))


async def run_part(ctx: CodeContext[Outside]) -> str:
    """Do one task of a plan. The task `roof` succeeds only in its second attempt."""
    words = re.split(r"[^\w/]+", ctx.text)
    what = words[words.index("please") + 2]
    if what.endswith("/roof"):
        await ctx.call("book", what=f"{what} tried")
        if ctx.context.done(what)[" tried"] < 2:
            raise ModelError("it rains")
    return str(await ctx.call("book", what=what))


async def run_judge(ctx: CodeContext[Outside]) -> str:
    """Ask a person, with a deadline of three seconds."""
    name = _name(ctx)
    answer = await ctx.request_approval(
        f"{name}?", ("yes", "no", "later"), deadline_s=3.0, default="later"
    )
    await ctx.call("book", what=f"{name}/{answer.choice}")
    return f"{name}: {answer.choice}"


async def run_hurry(ctx: CodeContext[Outside]) -> str:
    """Ask an agent that does not answer in time."""
    name = _name(ctx)
    try:
        answer = str(await ctx.ask("sleeper", "the time", f"please sleep {name}", timeout_s=2.0))
    except QueryTimeout:
        answer = "nobody answered"
    return f"{await ctx.call('book', what=f'{name}/front')}; {answer}"


async def run_sleeper(ctx: CodeContext[Outside]) -> str:
    """Answer after the timeout of the query. The asking agent may still get this answer, if it has
    not resumed yet."""
    for _ in range(_POLLS):
        if not ctx.context.is_awaited(ctx.session_id or ""):
            return "late"
        await asyncio.sleep(_POLL_S)
    return "and nobody saw to the time"


def _name(ctx: CodeContext[Outside]) -> str:
    texts = [text_of(item) for item in ctx.items if is_message(item)]
    words = re.split(r"[^\w/]+", " ".join([*texts, ctx.text]))
    return words[len(words) - words[::-1].index("please") + 1]


OUTSIDE: list[Outside] = []
"""The outside world of the current simulation. It is global because models get no context."""


@function_tool
async def book(ctx: ToolContext[Outside], what: str) -> str:
    """Book something."""
    ctx.set("booked", ctx.get("booked", 0) + 1)
    await ctx.context.act(ctx, what, f"{what} is booked")
    return f"{what} is booked"


@function_tool
async def reserve(ctx: ToolContext[Outside], what: str) -> str:
    """Reserve something, until the handoff is rolled back."""
    await ctx.on_rollback(undo, key=what, arguments=what)
    await ctx.context.act(ctx, what, f"{what} is booked")
    return f"{what} is booked"


async def undo(rollback: Rollback) -> None:
    """Cancel a reservation."""
    await rollback.context.undo(rollback, f"{rollback.arguments} given back")


@function_tool(confirmation=Confirmation(timeout_s=3600))
async def pay(ctx: ToolContext[Outside], what: str, cents: int) -> str:
    """Pay for something."""
    await ctx.context.act(ctx, f"{what} paid {cents}", f"{what} is booked")
    return f"{what} is booked"


def _wish(request: ModelRequest) -> tuple[str, str]:
    """The kind and the name of the last request. Both are empty if a program handed the session
    over before its first message."""
    text = " ".join(text_of(item) for item in request.input if is_message(item))
    words = re.split(r"[^\w/]+", text)
    if "please" not in words:
        return "", ""
    last = len(words) - words[::-1].index("please")
    return words[last], words[last + 1]


def _has_output(request: ModelRequest, text: str) -> bool:
    return any(
        text in str(item.get("output"))
        for item in request.input
        if item.get("type") == "function_call_output"
    )


def _script(request: ModelRequest) -> StepLike:
    OUTSIDE[-1].models(request)
    kind, name = _wish(request)
    return delay(0.05 + (len(request.step) % 5) * 0.05, _answer(request, kind, name))


def _answer(request: ModelRequest, kind: str, name: str) -> Any:
    match request.agent, kind:
        case _, "":
            return say("there is no request yet")
        case "triage", "fail" | "hang" if not _has_output(request, "handoff to shipping"):
            return transfer("shipping", reason="to be sent")
        case "triage", "fail" | "hang":
            return transfer("billing", reason="shipping cannot")
        case "triage" | "orders", "bill":
            return transfer("billing", reason="to be paid")
        case "triage", "ask":
            return transfer("front", reason="somebody has to be asked")
        case "triage", "judge" | "hurry":
            return transfer(kind, reason="somebody has to wait")
        case "triage", "plan":
            return transfer("boss", reason="it is much")
        case "triage", "busy":
            return _busy(request, name)
        case "triage", _:
            return transfer("orders", reason="it is about an order")
        case "orders", "pay":
            return _paid(request, name)
        case "orders", "many":
            return _many(request, name)
        case "orders", _:
            if _has_output(request, f"{name}/order is booked"):
                return transfer("billing", reason="to be paid", summary=name)
            return call("book", what=f"{name}/order")
        case "shipping", _:
            if not _has_output(request, f"{name}/lorry is booked"):
                return call("reserve", what=f"{name}/lorry")
            return hang() if kind == "hang" else fail(ModelError("no lorry starts"))
        case "clerk", _:
            if _has_output(request, f"{name}/offer is booked"):
                return say(f"{name} costs 42")
            return call("book", what=f"{name}/offer")
        case "billing", _:
            if _has_output(request, f"{name}/bill is booked"):
                return say(f"{name} will be billed")
            return call("book", what=f"{name}/bill")
    return fail(ModelError(f"nobody knows what {request.agent} does about {kind}"))


def _busy(request: ModelRequest, name: str) -> Any:
    done = [part for part in "abc" if _has_output(request, f"{name}/{part} is booked")]
    if len(done) == 3:
        return say(f"{name} is done")
    return call("book", what=f"{name}/{'abc'[len(done)]}")


def _paid(request: ModelRequest, name: str) -> Any:
    if _has_output(request, f"{name} is booked"):
        return say(f"{name} is paid")
    if _has_output(request, "was not run"):
        return say(f"{name} is not paid")
    return call("pay", what=name, cents=100 + len(name))


def _many(request: ModelRequest, name: str) -> Any:
    parts = [f"{name}/{number}" for number in range(3)]
    missing = [part for part in parts if not _has_output(request, f"{part} is booked")]
    if not missing:
        return transfer("billing", reason="to be paid")
    return [call("book", what=part) for part in missing]


class _Parts:
    """Three tasks; the last one needs the first."""

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        name = text.split()[-1]
        return TaskDecomposition(
            tasks=tuple(
                AgentTask(
                    agent=part,
                    description=f"please build {name}/{part}",
                    task_id=part,
                    depends_on=(PARTS[0],) if part == PARTS[-1] else (),
                    created_at=0.0,
                )
                for part in PARTS
            )
        )


def _deployed(tool: FunctionTool[Any, Any]) -> FunctionTool[Any, Any]:
    return replace(tool, description=f"{tool.description} Returns a receipt.")


@cache
def team(*, is_later: bool = False) -> Team:
    """All agents, also with the tools of a later deployment. They are created only once, because
    they never change."""
    tools = (book, pay, reserve)
    booking, paying, reserving = map(_deployed, tools) if is_later else tools
    model = ScriptedModel(respond=_script, record=False)
    billing = Agent("billing", instructions="Bill it.", model=model, tools=[booking])
    orders = Agent(
        "orders", instructions="Book it.", model=model, tools=[booking, paying], handoffs=[billing]
    )
    shipping = Agent("shipping", instructions="Ship it.", model=model, tools=[reserving])
    front = Agent("front", run=run_front, tools=[booking])
    judge = Agent("judge", run=run_judge, tools=[booking])
    hurry = Agent("hurry", run=run_hurry, tools=[booking])
    parts = [Agent(name, run=run_part, tools=[booking]) for name in PARTS]
    boss = Supervisor("boss", agents=parts, decomposer=_Parts(), timeout_s=300.0, retries=1)
    triage = Agent(
        "triage",
        instructions="Sort it.",
        model=model,
        tools=[booking],
        handoffs=[
            handoff(shipping, completes="result"),
            orders,
            billing,
            front,
            boss,
            judge,
            hurry,
        ],
    )
    clerk = Agent("clerk", instructions="Price it.", model=model, tools=[booking])
    archive = Agent("archive", run=run_archive, tools=[booking])
    return Team(triage, clerk, archive, Agent("sleeper", run=run_sleeper), *parts)


CONFIG = RunConfig(
    approver="inbox",
    lease_s=2.0,
    model_timeout_s=5.0,
    compensation_backoff_s=0.1,
    busy_timeout_s=5.0,
    limits=Limits(turns=30, depth=8),
)


def scene(chance: Random, seed: int = 0) -> Scene:
    """Some conversations of each kind, in some worlds with a deployment."""
    has_deployment = Random(f"{seed} deployment").random() < _DEPLOYMENTS
    kinds = chance.choices(tuple(_KINDS), k=chance.randint(2, 4))
    talks = [
        _KINDS[kind](f"{kind}{number}", 3.0 * chance.random()) for number, kind in enumerate(kinds)
    ]
    workers = chance.randint(2, 3)
    return Scene(
        team=team(),
        later=team(is_later=True) if has_deployment else None,
        talks=talks,
        config=CONFIG,
        workers=workers,
        serves=_split(chance, workers) if chance.random() < 0.25 else (),
        people=2 if "pay" in kinds or has_deployment else 0,
    )


def _split(chance: Random, workers: int) -> list[list[str]]:
    """The agents of each worker; each agent is run by one or more workers."""
    serves: list[list[str]] = [[] for _ in range(workers)]
    for agent in team():
        for number in chance.sample(range(workers), chance.randint(1, workers - 1)):
            serves[number].append(agent.name)
    return [each or ["triage"] for each in serves]


def _talk(kind: str, answer: Any, *effects: str, booked: int | Sequence[int] = 1) -> Any:
    def make(name: str, at_s: float) -> Talk:
        return Talk(
            id=name,
            texts=[f"please {kind} {name}"],
            answer=answer.format(name) if isinstance(answer, str) else answer(name),
            effects=dict.fromkeys(effects, 1),
            variables={"booked": booked},
            at_s=at_s,
        )

    return make


def _twice(name: str, at_s: float) -> Talk:
    return Talk(
        id=name,
        texts=[f"please relay {name}", f"please bill {name}/again"],
        answer=f"{name}/again will be billed",
        effects={"/order": 1, "/bill": 1, "/again/bill": 1},
        variables={"booked": 3},
        at_s=at_s,
    )


def _impatient(name: str, at_s: float) -> Talk:
    return Talk(
        id=name,
        texts=[f"please relay {name}", f"please bill {name}/again"],
        waits_for_answer=False,
        answer=f"{name}/again will be billed",
        effects={"/order": (0, 1), "/bill": (0, 1), "/again/bill": 1},
        variables={"booked": (1, 2, 3)},
        at_s=at_s,
    )


def _asked(name: str, at_s: float) -> Talk:
    return Talk(
        id=name,
        texts=[f"please price {name}", f"please price {name}/1", f"please price {name}/2"],
        answer=f"{name} costs 42",
        effects={"/offer": 1, "/1/offer": 1, "/2/offer": 1},
        at_s=at_s,
        ask="clerk",
    )


def _handed(name: str, at_s: float) -> Talk:
    return Talk(
        id=name,
        texts=[f"please busy {name}"],
        answer=lambda text: text in (f"{name} is done", f"{name} will be billed"),
        effects=dict.fromkeys(("/a", "/b", "/c", "/bill"), (0, 1)),
        at_s=at_s,
        hand_to="billing",
    )


def _hurried(name: str) -> Any:
    start = f"{name}/front is booked; "
    return lambda text: text in (f"{start}nobody answered", f"{start}late")


def _judged(name: str, at_s: float) -> Talk:
    return Talk(
        id=name,
        texts=[f"please judge {name}"],
        answer=lambda text: text in (f"{name}: yes", f"{name}: no", f"{name}: later"),
        effects=dict.fromkeys(("/yes", "/no", "/later"), (0, 1)),
        variables={"booked": 1},
        at_s=at_s,
    )


def _planned(name: str, at_s: float) -> Talk:
    return Talk(
        id=name,
        texts=[f"please plan {name}"],
        answer=lambda text: all(f"{name}/{part} is booked" in text for part in PARTS),
        effects={**dict.fromkeys((f"/{part}" for part in PARTS), 1), "/roof tried": 2},
        at_s=at_s,
    )


def _pay_answer(name: str) -> Any:
    return lambda text: text in (f"{name} is paid", f"{name} is not paid")


_KINDS: dict[str, Any] = {
    "relay": _talk("relay", "{} will be billed", "/order", "/bill", booked=2),
    "fail": _talk("fail", "{} will be billed", "/lorry", "/lorry given back", "/bill"),
    "hang": _talk("hang", "{} will be billed", "/lorry", "/lorry given back", "/bill"),
    "many": _talk("many", "{} will be billed", "/0", "/1", "/2", "/bill", booked=(2, 3, 4)),
    "ask": _talk("ask", "{0}/front is booked; {0} costs 42", "/offer", "/file", "/front"),
    "hurry": _talk("hurry", _hurried, "/front"),
    "judge": _judged,
    "plan": _planned,
    "pay": lambda name, at_s: Talk(
        id=name,
        texts=[f"please pay {name}"],
        answer=_pay_answer(name),
        effects={f" paid {100 + len(name)}": (0, 1)},
        at_s=at_s,
    ),
    "twice": _twice,
    "hasty": _impatient,
    "query": _asked,
    "busy": _handed,
}
