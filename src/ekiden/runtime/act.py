"""Doing what a model asked for: tools first, then at most one transfer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import ModelBehaviorError
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff
from ekiden.core.items import Item, function_output
from ekiden.core.tool import FunctionTool
from ekiden.runtime.attempt import Attempt
from ekiden.runtime.controller import carry_out
from ekiden.runtime.state import RunState
from ekiden.runtime.tool_calls import PlannedCall, run_tools


@dataclass(slots=True, eq=False, repr=False)
class _Plan:
    tools: list[PlannedCall]
    transfers: list[tuple[Handoff[Any, Any], Item]]
    unknown: list[Item]
    too_many: list[Item]


async def act(run: RunState, calls: list[Item], *, answered: Collection[str] = frozenset()) -> None:
    """Answer every call of the turn that is not `answered`, then store the turn or hand over.

    A transfer with the policy `immediate` does not wait for tools of its turn: they are not run.
    """
    plan = _plan(run, calls, answered)
    if plan.tools and _is_immediate(plan):
        for each in plan.tools:
            tell(run, each.call, "not run: the conversation was handed over at once")
    elif plan.tools:
        await run_tools(run, plan.tools, more_to_come=bool(plan.transfers))
    for call in plan.unknown:
        tell(run, call, f"there is no tool called {call['name']!r}; {_choices(run)}")
    for call in plan.too_many:
        tell(run, call, f"only {run.config.limits.calls} calls are made in one turn")
    mistaken = bool(plan.unknown)
    if plan.transfers:
        (handoff, call), *others = plan.transfers
        for _, other in others:
            tell(run, other, "only one handoff can be made in a turn; this one was not made")
        requested = [each.tool_name for each, _ in plan.transfers] if others else None
        attempt = Attempt(edge=handoff, arguments=call["arguments"], call=call, requested=requested)
        if await carry_out(run, attempt):
            return
        mistaken = True
    await _end_turn(run, mistaken=mistaken)


def _is_immediate(plan: _Plan) -> bool:
    return bool(plan.transfers) and plan.transfers[0][0].terms.policy == "immediate"


def tell(run: RunState, call: Item, problem: str) -> None:
    """Answer a call with what is wrong with it."""
    run.record(
        "tool_call",
        items=(function_output(call["call_id"], f"Error: {problem}"),),
        details={"tool": call["name"]},
        error=problem,
    )


async def _end_turn(run: RunState, *, mistaken: bool) -> None:
    cursor = run.cursor
    cursor.mistakes = cursor.mistakes + 1 if mistaken else 0
    cursor.turn += 1
    cursor.phase = "think"
    fault_point("turn.tools.before_commit")
    await run.commit()
    fault_point("turn.tools.after_commit")
    run.memo = {}
    if cursor.mistakes > run.config.model_retries:
        raise ModelBehaviorError(
            f"the model of agent {run.agent.name!r} asked {cursor.mistakes} times in a row for "
            f"something that cannot be done; {_choices(run)}"
        )


def _plan(run: RunState, calls: list[Item], answered: Collection[str]) -> _Plan:
    plan = _Plan([], [], [], [])
    most = run.config.limits.calls
    for index, call in enumerate(calls):
        if call["call_id"] in answered:
            continue
        offer = run.offered.get(call["name"])
        if isinstance(offer, FunctionTool) and most is not None and len(plan.tools) >= most:
            plan.too_many.append(call)
        elif isinstance(offer, FunctionTool):
            plan.tools.append(PlannedCall(offer, call, run.step_key(f"t{index}")))
        elif offer is not None:
            plan.transfers.append((offer, call))
        else:
            plan.unknown.append(call)
    return plan


def _choices(run: RunState) -> str:
    names = ", ".join(run.offered)
    return f"there are: {names}" if names else "there are none"
