"""One turn of an agent with a model, and the limits that end a run."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.agent import Agent
from ekiden.core.context import AgentHookContext
from ekiden.core.conversation.model import Item, ModelResponse, function_output, is_message, text_of
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import Handoff
from ekiden.core.runs import Done, Outcome, OutOfBudget
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.versions import tool_signature
from ekiden.runtime.handoff.controller import carry_out
from ekiden.runtime.handoff.rollback import confirm_handoffs
from ekiden.runtime.model_call import ask_model
from ekiden.runtime.outcome import final_outcome, finish
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.budget import allowed, own_left, own_seconds_left
from ekiden.runtime.state.calls import both
from ekiden.runtime.state.cursor_handoffs import PendingHandoff
from ekiden.runtime.state.findings import tell_findings
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.runtime.tools.unfinished_calls import answered
from ekiden.sessions.session import STARTED_BEFORE

if TYPE_CHECKING:
    from ekiden.runtime.tools.run_tools import PlannedCall


@dataclass(slots=True, eq=False, repr=False)
class _Plan:
    tools: list[PlannedCall]
    """The calls that were made, or may have been."""
    untried: list[PlannedCall]
    """The other calls of tools."""
    transfers: list[tuple[Handoff[Any, Any], Item]]
    unknown: list[Item]
    too_many: list[Item]


async def act(run: RunState, plan: _Plan, *, is_repeated: bool = False) -> None:
    """Handle all calls of the plan. Then store the turn, or hand off.

    If the turn has an `immediate` handoff, the tools of the turn are not run. With `is_repeated`,
    calls without a result may have been started before.
    """
    run.untried = 0
    if _is_immediate(plan):
        for each in plan.untried:
            record_problem(run, each.call, "not run: the conversation was handed over at once")
    else:
        if is_repeated and plan.untried:
            await _note_tools(run, plan.untried)
        plan.tools += plan.untried
    if plan.tools:
        from ekiden.runtime.tools.run_tools import run_tools

        if is_repeated:
            plan.tools.sort(key=lambda each: int(each.key.rpartition(".t")[2]))
        await run_tools(run, plan.tools, more_to_come=bool(plan.transfers))
    for call in plan.unknown:
        record_problem(run, call, f"there is no tool called {call['name']!r}; {_choices(run)}")
    for call in plan.too_many:
        record_problem(run, call, f"only {run.config.limits.calls} calls are made in one turn")
    mistaken = bool(plan.unknown)
    if plan.transfers:
        (handoff, call), *others = plan.transfers
        for _, other in others:
            record_problem(
                run, other, "only one handoff can be made in a turn; this one was not made"
            )
        requested = [each.tool_name for each, _ in plan.transfers] if others else None
        attempt = Attempt(edge=handoff, arguments=call["arguments"], call=call, requested=requested)
        if await carry_out(run, attempt):
            return
        mistaken = True
    await _end_turn(run, mistaken=mistaken)


def record_problem(run: RunState, call: Item, problem: str) -> None:
    """Record a problem as the output of a call that is not made."""
    run.record(
        "tool_call",
        items=(function_output(call["call_id"], f"Error: {problem}"),),
        details={"tool": call["name"]},
        error=problem,
    )


async def _end_turn(run: RunState, *, mistaken: bool) -> None:
    cursor = run.cursor
    # A model that repeats impossible calls would never end the run.
    cursor.progress.mistakes = cursor.progress.mistakes + 1 if mistaken else 0
    cursor.progress.turn += 1
    cursor.progress.phase = "think"
    fault_point("turn.tools.before_commit")
    await run.commit()
    fault_point("turn.tools.after_commit")
    run.memo = {}
    if cursor.progress.mistakes > run.config.model_retries:
        raise ModelBehaviorError(
            f"the model of agent {run.agent.name!r} asked {cursor.progress.mistakes} times in a "
            f"row for something that cannot be done; {_choices(run)}"
        )


def _is_immediate(plan: _Plan) -> bool:
    return bool(plan.transfers) and plan.transfers[0][0].terms.policy == "immediate"


def _plan(
    run: RunState, calls: list[Item], answered: Collection[str], *, is_repeated: bool
) -> _Plan:
    plan = _Plan([], [], [], [], [])
    most = run.config.limits.calls
    for index, call in enumerate(calls):
        if call["call_id"] in answered:
            continue
        offer = run.offer.by_name.get(call["name"])
        tried = _tried(run, index, call, offer) if is_repeated else None
        count = len(plan.tools) + len(plan.untried)
        if tried is not None:
            plan.tools.append(tried)
        elif isinstance(offer, FunctionTool) and most is not None and count >= most:
            plan.too_many.append(call)
        elif isinstance(offer, FunctionTool):
            from ekiden.runtime.tools.run_tools import PlannedCall

            plan.untried.append(PlannedCall(offer, call, run.step_key(f"t{index}")))
        elif offer is not None:
            plan.transfers.append((offer, call))
        else:
            plan.unknown.append(call)
    return plan


def _tried(run: RunState, index: int, call: Item, offer: Any) -> PlannedCall | None:
    """The call, if it was made, or may have been; `None` if it certainly was not."""
    from ekiden.runtime.tools.run_tools import PlannedCall, gone_tool
    from ekiden.runtime.tools.unfinished_calls import may_have_run, why_changed

    key, name = run.step_key(f"t{index}"), call["name"]
    is_finished, started = key in run.memo, run.cursor.progress.tools
    if not is_finished and not may_have_run(run, index, call, offer):
        return None
    tool = offer if isinstance(offer, FunctionTool) else gone_tool(name)
    version = None if started is None or is_finished else started[index]
    arguments = call.get("arguments") or ""
    doubt = None if is_finished else why_changed(name, arguments, version, offer)
    return PlannedCall(tool, call, key, doubt=doubt, version=version)


def _started_tools(plan: _Plan, calls: list[Item]) -> list[str | None]:
    """The signatures of the tools that the calls will be started with."""
    if not plan.untried or _is_immediate(plan):
        return []
    if len(plan.untried) == len(calls):
        return [tool_signature(each.tool) for each in plan.untried]
    signatures = {each.call["call_id"]: tool_signature(each.tool) for each in plan.untried}
    return [signatures.get(call["call_id"]) for call in calls]


async def _note_tools(run: RunState, started: list[PlannedCall]) -> None:
    """Store the signatures of tools that the resumed turn starts calls with for the first time."""
    noted = list(run.cursor.progress.tools or ())
    if tuple(noted) == STARTED_BEFORE:
        noted = []
    for each in started:
        index = int(each.key.rpartition(".t")[2])
        noted += [None] * (index + 1 - len(noted))
        noted[index] = tool_signature(each.tool)
    if noted != list(run.cursor.progress.tools or ()):
        run.cursor.progress.tools = noted
        await run.commit()


def _choices(run: RunState) -> str:
    names = ", ".join(run.offer.by_name)
    return f"there are: {names}" if names else "there are none"


async def think(run: RunState) -> None:
    """Take the turn of an agent with a model: call the model, and handle its answer."""
    if not run.cursor.progress.started:
        await start_agent(run)
    began = run.config.clock.monotonic()
    key = run.step_key("m")
    if run.cursor.guardrails.checks == 1:
        from ekiden.runtime.guardrails.input import call_with_guardrails

        response = await call_with_guardrails(run, ask_model)
    else:
        response = await ask_model(run)
    duration_us = int((run.config.clock.monotonic() - began) * 1e6)
    output = tuple(response.output)
    calls = [item for item in output if item.get("type") == "function_call"]
    details, outcome = call_details(response), None
    if calls:
        if run.cursor.guardrails.found:
            details = tell_findings(run, details)
    elif run.agent.output_guardrails or run.config.output_guardrails:
        from ekiden.runtime.guardrails.output import judge

        verdict = await judge(run, response, details, duration_us)
        if verdict.outcome is None:
            return
        outcome = verdict.outcome
        details = tell_findings(run, details, verdict.findings)
    else:
        outcome = final_outcome(response.output, run.agent.output_type)
        if run.cursor.guardrails.found:
            details = tell_findings(run, details)
    if run.outbox.held_back:
        run.outbox.show_answer()
    if len(output) > len(calls) and any(is_message(item) and text_of(item) for item in output):
        # Text for the user counts as work, so a return to an earlier agent is then allowed.
        run.cursor.handoffs.work += 1
    run.record("llm_call", items=output, step=key, duration_us=duration_us, details=details)
    await conclude(run, calls, outcome)


async def conclude(run: RunState, calls: list[Item], outcome: Outcome | None) -> None:
    """Store the recorded answer. Then make its calls, or end the run.

    The answer confirms the handoff to this agent, unless the handoff waits for the agent's result.
    Before the run ends, triggers may hand over the conversation.
    """
    cursor = run.cursor
    cursor.progress.calls = run.next_seq - 1
    is_confirmed = bool(cursor.handoffs.open) and (
        outcome is not None or not cursor.handoffs.open[-1].until_result
    )
    if is_confirmed:
        confirm_handoffs(run)
    if outcome is not None:
        cursor.progress.turn += 1
        if isinstance(outcome, Done) and await _handed_on(run):
            return
        await finish(run, outcome)
        return
    cursor.progress.phase, cursor.progress.tools = "act", ()
    edge = _plain_transfer(run, calls)
    if edge is not None:
        call = calls[0]
        attempt = Attempt(edge=edge, arguments=call["arguments"], call=call, is_plain=True)
        if not await carry_out(run, attempt):
            await _end_turn(run, mistaken=True)
        return
    plan = _plan(run, calls, (), is_repeated=False)
    cursor.progress.tools = _started_tools(plan, calls)
    run.untried = cursor.progress.calls
    fault_point("turn.answer.before_commit")
    await run.commit()
    fault_point("turn.answer.after_commit")
    if is_confirmed and run.interruption.is_timed:
        return  # The calls are the next step, because the handoff's deadline must not limit them.
    await act(run, plan)


async def _handed_on(run: RunState) -> bool:
    """Evaluate the triggers after the answer; returns whether one handed the run over."""
    if not has_triggers(run.agent):
        return False
    from ekiden.runtime.handoff.triggers import look_at_triggers

    run.cursor.progress.phase = "answered"
    return await look_at_triggers(run)


async def settle_answer(run: RunState) -> None:
    """After a stored answer, let a trigger hand over, or end the run.

    The outcome is read from the answer. The output of a code agent is then the text of the answer.
    """
    if await _handed_on(run):
        return
    answer = [
        item
        for event in run.events
        if event.seq == run.cursor.progress.calls
        for item in event.items
    ]
    await finish(run, final_outcome(answer, run.agent.output_type))


async def resume_acting(run: RunState, calls: list[Item]) -> None:
    """Continue the calls of a turn that another process stored and did not finish."""
    await refresh_offer(run)
    is_repeated = run.untried != run.cursor.progress.calls
    plan = _plan(run, calls, answered(run), is_repeated=is_repeated)
    await act(run, plan, is_repeated=is_repeated)


async def start_agent(run: RunState) -> None:
    """Record that the active agent starts, and call the hooks."""
    agent, hooks = run.agent, run.hooks
    if hooks is not None or agent.hooks is not None:
        context: AgentHookContext[Any] = AgentHookContext(run.context, turn_input=list(run.visible))
        await both(
            None if hooks is None else hooks.on_agent_start(context, agent),
            None if agent.hooks is None else agent.hooks.on_start(context, agent),
        )
    run.cursor.progress.started = True
    run.record("agent_start")
    # Observers see only stored events, and the model call that follows may take long.
    if run.live:
        await run.commit()


def call_details(response: ModelResponse) -> dict[str, Any] | None:
    """The details of a model call for its event."""
    details: dict[str, Any] = {}
    if response.model is not None:
        details["model"] = response.model
    if response.response_id is not None:
        details["response_id"] = response.response_id
    if response.attempt > 1:
        details["attempt"] = response.attempt
    usage = response.usage.to_json()
    if usage:
        details["usage"] = usage
    return details or None


def _plain_transfer(run: RunState, calls: list[Item]) -> Handoff[Any, Any] | None:
    """The handoff, if it is the only call of the turn and runs no user code; `None` otherwise.

    The answer and such a handoff are one commit: nothing between them can be lost or done twice.
    """
    if len(calls) != 1 or run.hooks is not None or run.agent.hooks is not None:
        return None
    offer = run.offer.by_name.get(calls[0]["name"])
    if (
        isinstance(offer, Handoff)
        and not offer.has_callback
        and offer.input_filter is None
        and run.config.handoff_input_filter is None
        and offer.agent is not None
        and offer.agent.accepts is None
        and not callable(offer.agent.available)
        and offer.terms.confirm is None
        and not run.agent.handoff_guardrails
        and not run.config.handoff_guardrails
    ):
        return offer
    return None


def over_limit(run: RunState) -> OutOfBudget | None:
    """The limit that does not allow another turn; `None` if there is none."""
    limits, cursor = run.config.limits, run.cursor
    if limits.turns is not None and cursor.progress.turn >= limits.turns:
        return OutOfBudget("turns", limits.turns, cursor.progress.turn)
    if run.agent.budget is not None:
        over = own_left(run)
        if over is not None:
            return over
    if not cursor.budget.narrowed and limits.tokens is limits.money is limits.seconds is None:
        return None
    turns = cursor.budget.narrowed.get("turns")
    if turns is not None and cursor.progress.turn >= turns:
        return OutOfBudget("turns", turns, cursor.progress.turn)
    tokens = allowed(run, "tokens")
    if tokens is not None and cursor.budget.usage.tokens >= tokens:
        return OutOfBudget("tokens", tokens, cursor.budget.usage.tokens)
    money = allowed(run, "money")
    if money is not None and cursor.budget.usage.cost >= money:
        return OutOfBudget("money", money, cursor.budget.usage.cost)
    seconds = allowed(run, "seconds")
    if seconds is not None and run.spent_s() >= seconds:
        return OutOfBudget("seconds", seconds, run.spent_s())
    return None


TimeLimit: TypeAlias = Literal["run", "agent", "tenant", "handoff", "trigger"]
"""The limit that ends a step: of the run, of the active agent's budget, of the tenant's daily
budget, of an unconfirmed handoff, or of a trigger."""


def time_left(run: RunState) -> tuple[float | None, TimeLimit | None]:
    """The seconds that the next step may take, and the limit that gives them; `None` without a
    limit."""
    left: float | None = None
    cause: TimeLimit | None = None
    if run.config.limits.seconds is not None or run.cursor.budget.narrowed:
        seconds = allowed(run, "seconds")
        if seconds is not None:
            left, cause = seconds - run.spent_s(), "run"
    if run.agent.budget is not None and run.agent.budget.seconds is not None:
        own_s = own_seconds_left(run)
        if left is None or own_s < left:
            left, cause = own_s, "agent"
    day = None if run.day is None else run.day.ledger
    if day is not None and (daily_s := day.limits["seconds"]) is not None:
        day_s = daily_s - day.spent["seconds"]
        if left is None or day_s < left:
            left, cause = day_s, "tenant"
    pending = run.cursor.handoffs.open[-1] if run.cursor.handoffs.open else None
    # The handoff's deadline and triggers must not interrupt its rollback.
    if pending is not None and pending.failure is not None:
        return None if left is None else max(left, 0.001), cause
    if pending is not None and pending.due_s is not None:
        due = pending.due_s - run.spent_s()
        if (left is None or due < left) and not _ends_in_time(run, pending, due):
            left, cause = due, "handoff"
    if has_triggers(run.agent):
        from ekiden.runtime.handoff.triggers import seconds_to_trigger

        wait = seconds_to_trigger(run)
        if wait is not None and (left is None or wait < left):
            left, cause = wait, "trigger"
    return None if left is None else max(left, 0.001), cause


def has_triggers(agent: Agent[Any]) -> bool:
    """Whether any handoff of the agent has a trigger."""
    for each in agent.handoffs:
        if isinstance(each, Handoff) and each.terms.trigger is not None:
            return True
    return False


def _ends_in_time(run: RunState, pending: PendingHandoff, due: float) -> bool:
    """Whether the step is one model call whose timeout is before the handoff's deadline.

    This is the usual case, and saves a timer.
    """
    agent = run.agent
    return (
        due > run.config.model_timeout_s
        and not pending.until_result
        and run.hooks is None
        and agent.hooks is None
        and agent.traits.uses_model
        and not callable(agent.instructions)
        and run.config.call_model_input_filter is None
    )
