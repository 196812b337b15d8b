"""Runs the tools of a turn concurrently, and stores each result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import Item, function_call, function_output
from ekiden.core.current_agent import acting_as
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import GuardrailError
from ekiden.core.privacy.masking import cover
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime.questions.questions import CodeQuestions, Suspended, is_suspended
from ekiden.runtime.state.calls import both
from ekiden.runtime.state.cursor import UnknownCall
from ekiden.runtime.state.state import RunState
from ekiden.runtime.state.variables import Draft, Tracked
from ekiden.runtime.tools.confirmation import (
    Decision,
    ask_first,
    is_granted_meanwhile,
    is_refused,
    stored_decision,
)
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.runtime.tools.unfinished_calls import (
    ABANDON,
    REPEAT,
    Verdict,
    able_tool,
    call_id_of,
    decide,
    same_arguments,
    started_with,
    unfinished_calls,
    verdict_on,
    why_changed,
)
from ekiden.tools import ToolResult, invoke
from ekiden.tools.under_way import CallUnderWay, current_call


@dataclass(slots=True, eq=False, repr=False)
class PlannedCall:
    """A call of a tool and the key of its step."""

    tool: FunctionTool
    call: Item
    key: str
    begin: Callable[[], Awaitable[None]] | None = None
    """A function that is awaited just before the tool runs. `None` if the call is already
    stored."""
    doubt: str | None = None
    """Why the effect of the call is unknown: it was started before an interruption and cannot be
    repeated as it was. A person decides about it."""
    version: str | None = None
    """The signature of the tool that the call was started with, if its effect is unknown."""


async def run_tools(run: RunState, planned: list[PlannedCall], *, more_to_come: bool) -> None:
    """Run the tools concurrently, and record their outputs in the order of the calls.

    Each result is stored at once, so that after a crash only unfinished calls are repeated. The
    last result is stored with the caller's commit, unless the turn has `more_to_come`. When all
    tools have finished, the events are recorded, and the caller commits them. If a tool raises an
    exception, the other tools are cancelled.
    """
    doubtful = {each.tool.name for each in planned if each.doubt is not None}
    # While the effect of a call is unknown, no other call of its tool starts.
    held = [each for each in planned if each.doubt is None and each.tool.name in doubtful]
    # A single call is stored with its turn: a commit of its own would save nothing.
    if held:
        others = [each for each in planned if each not in held]
        count = len(planned) + 1
        found = dict(zip(others, await _concurrently(run, others, count), strict=True))
        found |= dict(zip(held, await _concurrently(run, held, count), strict=True))
        results = [found[each] for each in planned]
    elif len(planned) == 1 and not more_to_come:
        [only] = planned
        decision = None if only.tool.confirmation is None else await _decide(run, only)
        results = [await _run_one(run, only, decision)]
    else:
        results = await _concurrently(run, planned, len(planned) + more_to_come)
    for each, (result, duration_us) in zip(planned, results, strict=True):
        output = function_output(each.call["call_id"], result.output)
        record_call(run, each, result, items=(output,), duration_us=duration_us)


def record_call(
    run: RunState,
    each: PlannedCall,
    result: ToolResult,
    *,
    items: tuple[Item, ...],
    duration_us: int,
    as_json: bool = False,
) -> None:
    """Record a call that was made or rejected, and the decisions of its guardrails."""
    details: dict[str, Any] = {"tool": each.tool.name}
    if as_json:
        details["json"] = True
    if not result.is_run or (each.tool.confirmation is not None and is_refused(run, each.key)):
        details["not_run"] = True
    if run.memo and (decided := verdict_on(run, _place(each))) is not None:
        details["decided"] = decided
    if result.guardrails:
        sensitive = run.config.trace_include_sensitive_data
        passed = [check.to_json(sensitive=sensitive) for check in result.guardrails if check.passed]
        if passed:
            details["guardrails"] = passed
    run.record(
        "tool_call",
        items=items,
        step=each.key,
        details=details,
        duration_us=duration_us,
        error=result.error,
        kinds=result.kinds,
    )
    if result.guardrails:
        from ekiden.runtime.guardrails.output import record_rejection

        record_rejection(run, each.tool.name, each.call["call_id"], result.guardrails)


async def _concurrently(
    run: RunState, planned: list[PlannedCall], left: int
) -> list[tuple[ToolResult, int]]:
    """The results of all calls. Raises `Suspended` if some of them wait for an answer.

    `left` is the number of results after which no commit is needed.
    """
    slots = asyncio.Semaphore(run.config.parallel_tools)

    async def one(each: PlannedCall) -> tuple[ToolResult, int] | None:
        nonlocal left
        draft = Draft(Tracked(run))
        try:
            decision = None if each.tool.confirmation is None else await _decide(run, each)
            async with slots:
                result, duration_us = await _run_one(run, each, decision, draft)
        except BaseException as exc:
            if not is_suspended(exc):
                raise
            return None  # The other calls still run.
        left -= 1
        if each.key in run.memo:
            return result, duration_us
        # There is no await between these two, so the next commit stores both.
        draft.settle()
        checks = [decision.to_json() for decision in result.guardrails]
        run.remember(each.key, [result.output, result.error, duration_us, *checks])
        if left:
            await run.commit()
            fault_point("turn.tools.after_remember")
        return result, duration_us

    results: dict[str, tuple[ToolResult, int]] = {}
    waiting = planned
    while waiting:
        grants = len(run.cursor.questions.always)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [(each.key, group.create_task(one(each))) for each in waiting]
        except BaseExceptionGroup as failures:
            # The first failure cancelled the others.
            raise failures.exceptions[0] from None
        results |= {key: result for key, task in tasks if (result := task.result()) is not None}
        suspended = [each for each in planned if each.key not in results]
        # A new "always" approval of one call may cover other calls that wait.
        has_new_grants = len(run.cursor.questions.always) > grants
        waiting = [
            each
            for each in suspended
            if has_new_grants and is_granted_meanwhile(run, each.tool, each.call, each.key)
        ]
    if len(results) < len(planned):
        raise Suspended
    return [results[each.key] for each in planned]


async def _decide(run: RunState, each: PlannedCall) -> Decision | None:
    """The decision about the call; `None` if its result is already stored, or its effect is
    unknown."""
    if each.key in run.memo or each.doubt is not None:
        return None
    return await ask_first(run, each.tool, each.call, each.key)


async def _run_one(
    run: RunState, each: PlannedCall, decision: Decision | None, variables: Draft | None = None
) -> tuple[ToolResult, int]:
    stored = run.memo.get(each.key)
    if stored is not None:
        return _recalled(*stored)
    if each.doubt is not None:
        return await _decided_by_person(run, each, variables)
    if decision is not None:
        if not decision.approved:
            return decision.refusal(), 0
        each = PlannedCall(each.tool, decision.call(each.call), each.key)
    note, same = await settle_earlier(run, each.tool, each)
    if same is not None:
        return with_text(same, note), 0
    fault_point("turn.tool.before_call")
    result, duration_us = await perform(run, each, variables)
    fault_point("turn.tool.after_call")
    result = result if decision is None else decision.with_note(result)
    return with_text(result, note) if note else result, duration_us


def _place(each: PlannedCall) -> str:
    """The place of the call in its turn: ``t0`` for a call of a model, ``1`` for one of code."""
    return each.key.rpartition(".")[2].removeprefix("c")


async def _decided_by_person(
    run: RunState, each: PlannedCall, variables: Draft | None
) -> tuple[ToolResult, int]:
    """The result of a call whose effect is unknown, as a person decides."""
    made = stored_decision(run, each.key, each.call)
    unknown = UnknownCall(
        key=each.key,
        tool=each.tool.name,
        arguments=made.get("arguments") or "",
        version=each.version,
        agent=run.agent.name,
    )
    question = run.step_key(f"x{_place(each)}")
    perform_it = partial(perform, run, variables=variables)
    _, result, duration_us = await _settle(run, unknown, made, question, each.doubt, perform_it)
    return result, duration_us


async def _settle(
    run: RunState,
    unknown: UnknownCall,
    made: Item,
    question: str,
    why: str | None,
    perform_it: Callable[[PlannedCall], Awaitable[tuple[ToolResult, int]]],
) -> tuple[Verdict | None, ToolResult, int]:
    """Repeat a call whose effect is unknown with its key and its arguments. If there is a reason
    `why` this is impossible, a person decides."""
    offer, verdict = run.offer.by_name.get(unknown.tool), None
    tool = offer if isinstance(offer, FunctionTool) else None
    if why is not None:
        tool = able_tool(run, unknown.tool, unknown.arguments)
        verdict = await decide(run, unknown, question, why, tool=tool)
    if tool is not None and (verdict is None or verdict.choice == REPEAT):
        result, duration_us = await perform_it(PlannedCall(tool, made, unknown.key))
        if why is None or ModelBehaviorError.__name__ not in result.kinds:
            return verdict, result, duration_us
        # The tool refuses the arguments now. This says nothing about the first call.
        question = f"{question}.refused"
        why = f"the tool {unknown.tool!r} refuses these arguments now"
        verdict = await decide(run, unknown, question, why, tool=None)
    assert verdict is not None
    return verdict, verdict.result(), 0


async def settle_earlier(
    run: RunState, tool: FunctionTool, each: PlannedCall | None = None
) -> tuple[str, ToolResult | None]:
    """Settle earlier calls of the tool whose effects are unknown, before another call of the tool
    starts: they are repeated, or a person decides about them. A call whose run was stopped on
    request is repeated only if the same is called again.

    Returns notes for the model about this. If `each`, a call of a model, has the arguments of an
    earlier call, it is this call: also returns its result. Raises `Suspended` until a person has
    decided.
    """
    if not (run.cursor.questions.unknown or run.memo):
        return "", None
    if tool.read_only:
        unknown = run.cursor.questions.unknown
        run.cursor.questions.unknown = tuple(call for call in unknown if call.tool != tool.name)
        return "", None
    async with run.deciding:
        for earlier in run.cursor.questions.unknown:
            if earlier.tool == tool.name:
                await _settle_earlier(run, tool, earlier, each)
    begin, notes, same = run.step_key("w"), [], None
    for key, settled in run.memo.items():
        if key.startswith(begin) and key.endswith(_SETTLED) and settled["tool"] == tool.name:
            notes.append(settled["note"])
            if each is not None and settled["for"] == each.key:
                same = ToolResult(settled["output"], settled["output"], settled["error"])
    return "\n".join(notes), same


_SETTLED = ".settled"
"""The end of the step key of what became of an earlier call."""


async def _settle_earlier(
    run: RunState, tool: FunctionTool, earlier: UnknownCall, each: PlannedCall | None
) -> None:
    # A repeated call finds the answers to the questions that it asked in its own turn.
    asked = await run.store.steps(run.session_id, prefix=f"{earlier.key}.")
    run.memo = {**run.memo, **asked}
    made = function_call(call_id_of(earlier.key), tool.name, earlier.arguments)
    question = run.step_key(f"w{earlier.key}")
    why = why_changed(tool.name, earlier.arguments, earlier.version, tool)
    if earlier.is_stopped and not (each is not None and _has_same_arguments(earlier, each.call)):
        why = why or "the run was stopped before the call ended"
    perform_it = partial(perform, run, catches_failures=True)
    verdict, result, _ = await _settle(run, earlier, made, question, why, perform_it)
    unknown = run.cursor.questions.unknown
    run.cursor.questions.unknown = tuple(other for other in unknown if other != earlier)
    choice, by = (REPEAT, None) if verdict is None else (verdict.choice, verdict.by)
    about = {"tool": earlier.tool, "key": earlier.key, "choice": choice, "by": by}
    run.record("message", details={"decided": about})
    is_same = each is not None and choice != ABANDON and _has_same_arguments(earlier, each.call)
    how = "repeated with its key" if by is None else f"decided by {by}: {choice}"
    shown = f"{earlier.tool}({earlier.arguments})"
    note = f"The earlier call {shown}, {how}: {result.output}"
    if is_same:
        note = f"This is the earlier call {shown}, {how}:"
    settled = {
        "tool": tool.name,
        "note": note,
        "for": each.key if each is not None and is_same else None,
        "output": result.output,
        "error": result.error,
    }
    key = f"{question}{_SETTLED}"
    run.remember(key, settled)
    await run.commit()
    run.memo = {**run.memo, key: settled}


def _has_same_arguments(earlier: UnknownCall, call: Item) -> bool:
    return same_arguments(earlier.arguments, call.get("arguments") or "")


def with_text(result: ToolResult, note: str) -> ToolResult:
    """The result, with a note for the model before its output."""
    output: Any = f"{note}\n{result.output}"
    if not isinstance(result.output, str):
        output = [{"type": "input_text", "text": note}, *result.output]
    return replace(result, output=output)


async def settle_code_calls(run: RunState) -> None:
    """Let people decide about the calls that the agent started when it was code, before the agent,
    which is not code now, takes its turn."""
    turn = run.step_key("")
    unfinished = unfinished_calls(turn, run.memo, run.memo, with_given_up=True)
    if not unfinished:
        return
    await refresh_offer(run)
    waits = False
    for key, call in unfinished:
        began = run.memo[f"{turn}i{key.removeprefix(f'{turn}c')}"]
        tool = run.offer.by_name.get(call["name"])
        each = PlannedCall(
            tool if isinstance(tool, FunctionTool) else gone_tool(call["name"]),
            call,
            key,
            doubt="the agent is no longer code",
            version=started_with(began),
        )
        try:
            result, duration_us = await _decided_by_person(run, each, None)
        except Suspended:
            waits = True
            continue
        output = function_output(call["call_id"], result.output)
        record_call(run, each, result, items=(call, output), duration_us=duration_us)
        await run.commit()
        run.memo = {**run.memo, key: (result.output, result.error, False, call["name"], "")}
    if waits:
        raise Suspended


def gone_tool(name: str) -> FunctionTool:
    """Stands for a tool that the agent no longer has."""
    return _GoneTool(name, "", {}, _refuse)


class _GoneTool(FunctionTool):
    def _check_name(self) -> None:
        """A tool of an earlier version may have any name."""


async def _refuse(ctx: Any, arguments: str) -> Any:
    raise UserError(f"the tool {ctx.tool_name!r} is gone")


def _recalled(
    output: Any, error: str | None, duration_us: int, *checks: dict[str, Any]
) -> tuple[ToolResult, int]:
    if not checks:
        return ToolResult(output=output, value=output, error=error), duration_us
    from ekiden.core.tools.guardrails import GuardrailDecision

    guardrails = tuple(map(GuardrailDecision.from_json, checks))
    return ToolResult(output, output, error, guardrails=guardrails), duration_us


def perform(
    run: RunState,
    each: PlannedCall,
    variables: Draft | None = None,
    *,
    catches_failures: bool = False,
) -> Coroutine[Any, Any, tuple[ToolResult, int]]:
    """Make the call with its hooks, and return the result and the duration in microseconds.

    With `catches_failures`, an exception that would end the run becomes a result, except for
    exceptions of guardrails. Hooks are called only if the guardrails allow the call.
    """
    if each.tool.tool_input_guardrails or each.tool.tool_output_guardrails:
        return _perform_guarded(run, each, variables, catches_failures)
    return _perform(run, each, variables, catches_failures)


async def _perform_guarded(
    run: RunState, each: PlannedCall, variables: Draft | None, catches_failures: bool
) -> tuple[ToolResult, int]:
    try:
        return await _perform(run, each, variables, catches_failures)
    except GuardrailError as exc:
        if _is_own(exc):
            from ekiden.runtime.guardrails.output import record_stop

            await record_stop(run, each.tool.name, each.call["call_id"], exc)
        raise


async def _perform(
    run: RunState, each: PlannedCall, variables: Draft | None, catches_failures: bool
) -> tuple[ToolResult, int]:
    options = current_call()
    if options is None:
        return await _make(run, each, variables, catches_failures)
    with CallUnderWay(options.run, each.tool.name):
        return await _make(run, each, variables, catches_failures)


async def _make(
    run: RunState, each: PlannedCall, variables: Draft | None, catches_failures: bool
) -> tuple[ToolResult, int]:
    context = tool_context(run, each.tool, each.call, each.key, variables)
    agent, hooks, tool = run.agent, run.hooks, each.tool
    watched = hooks is not None or agent.hooks is not None
    timeout_s, checked = run.config.tool_timeout_s, None
    if tool.tool_input_guardrails:
        from ekiden.tools import check_input, refusal

        checked = await check_input(tool, context, timeout_s=timeout_s)
        watched = watched and refusal(checked) is None
    if watched:
        await both(
            None if hooks is None else hooks.on_tool_start(context, agent, tool),
            None if agent.hooks is None else agent.hooks.on_tool_start(context, agent, tool),
        )
    if each.begin is not None:
        await each.begin()
    began = run.config.clock.monotonic()
    try:
        with acting_as(agent.name):
            result = await invoke(tool, context, timeout_s=timeout_s, checked=checked)
    except Exception as exc:
        if not catches_failures or _is_own(exc):
            raise
        error = cover(f"{type(exc).__name__}: {exc}")
        result = ToolResult(output=error, value=None, error=error)
    duration_us = int((run.config.clock.monotonic() - began) * 1e6)
    if watched:
        shown: Any = result.value if result.error is None else result.output
        await both(
            None if hooks is None else hooks.on_tool_end(context, agent, tool, shown),
            None if agent.hooks is None else agent.hooks.on_tool_end(context, agent, tool, shown),
        )
    return result, duration_us


def _is_own(exc: Exception) -> bool:
    """Whether a guardrail of this call raised `exc`. An exception with `run_data` ended the run of
    another agent, and a tool passed it on: it is a failure of the tool."""
    return isinstance(exc, GuardrailError) and exc.run_data is None


def tool_context(
    run: RunState, tool: FunctionTool, call: Item, key: str, variables: Draft | None = None
) -> ToolContext[Any]:
    """The context of the tool. A repeated call has the same idempotency key."""
    base = run.context
    return ToolContext(
        base.context,
        base.usage,
        tool_name=tool.name,
        tool_call_id=call["call_id"],
        tool_arguments=call.get("arguments") or "",
        idempotency_key=f"{run.session_key}:{key}",
        agent=run.agent,
        session_id=run.session_id,
        variables=base.variables if variables is None else variables,
        link=run,
        asking=partial(CodeQuestions, run, key),
    )
