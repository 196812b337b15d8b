"""Runs the input guardrails of agents and the guardrails of handoffs concurrently.

Guardrails fail closed: if a guardrail crashes or times out, the input or handoff is rejected.

Input guardrails run once each time an agent gets the conversation. Blocking guardrails run before
the agent starts. Parallel guardrails run concurrently with the first call of the agent's model. If
one of them rejects the input, the model's answer is dropped. For an agent without a model, all
input guardrails are blocking.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, ModelResponse
from ekiden.core.errors import HandoffRefused
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFailed,
    GuardrailFunctionOutput,
    HandoffGuardrail,
    HandoffGuardrailResult,
    HandoffGuardrailTripwireTriggered,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    Violation,
    shown,
)
from ekiden.core.handoffs import HandoffRequest
from ekiden.core.values import loads
from ekiden.runtime.conversation import view_for_others
from ekiden.runtime.state.attempt import PASSED_BY_MODELS, Attempt
from ekiden.runtime.state.findings import (
    Behavior,
    GuardrailFinding,
    Result,
    Stage,
    record_failures,
    store_stop,
)
from ekiden.runtime.state.state import RunState
from ekiden.tools.execution import decided
from ekiden.tools.output import to_jsonable

G = TypeVar("G")
T = TypeVar("T")
R = TypeVar("R")

Checked: TypeAlias = list[tuple[G, R | GuardrailFailed]]
"""Guardrails with their results, in the order in which they finished."""


async def examine(
    run: RunState,
    guardrails: Sequence[G],
    ask: Callable[[G], Coroutine[Any, Any, R]],
    *,
    stage: Stage,
    is_enough: Callable[[G, R | GuardrailFailed], bool],
) -> Checked[G, R]:
    """Run the guardrails concurrently. When `is_enough` returns true for a result, cancel the
    others.

    Each guardrail may take `RunConfig.tool_timeout_s`. If a guardrail raises an exception, or
    returns an invalid result, its result is `GuardrailFailed`. When this call ends, even by
    cancellation, no guardrail is running.
    """
    agent, timeout_s = run.agent.name, run.config.tool_timeout_s

    async def one(guardrail: G) -> R | GuardrailFailed:
        name = _name(guardrail)

        def failed(problem: str) -> GuardrailFailed:
            return GuardrailFailed(name, "", problem, stage=stage, agent=agent)

        try:
            return await decided(ask(guardrail), timeout_s, failed)
        except GuardrailFailed as exc:
            return exc

    if len(guardrails) == 1:
        return [(guardrails[0], await one(guardrails[0]))]
    return await _concurrently(guardrails, one, is_enough)


async def _concurrently(
    guardrails: Sequence[G],
    one: Callable[[G], Coroutine[Any, Any, R | GuardrailFailed]],
    is_enough: Callable[[G, R | GuardrailFailed], bool],
) -> Checked[G, R]:
    found: Checked[G, R] = []
    done: asyncio.Queue[tuple[G, R | GuardrailFailed] | BaseException] = asyncio.Queue()

    async def report(guardrail: G) -> None:
        try:
            done.put_nowait((guardrail, await one(guardrail)))
        except BaseException as exc:
            done.put_nowait(exc)
            raise

    tasks = [asyncio.create_task(report(each)) for each in guardrails]
    try:
        while len(found) < len(guardrails):
            result = await done.get()
            if isinstance(result, BaseException):
                raise result
            found.append(result)
            if is_enough(*result):
                break
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


def finding(
    stage: Stage,
    guardrail: Any,
    found: Any,
    *,
    result: Result,
    behavior: Behavior,
) -> GuardrailFinding:
    """The finding to record for the result of a guardrail, or for its `GuardrailFailed`."""
    name = _name(guardrail)
    if isinstance(found, GuardrailFailed):
        return GuardrailFinding(
            type=stage, guardrail=name, result=result, behavior="crashed", problem=str(found)
        )
    output: GuardrailFunctionOutput = found.output
    return GuardrailFinding(
        type=stage,
        guardrail=name,
        result=result,
        behavior=behavior,
        violations=violations_of(name, output) if output.tripwire_triggered else output.violations,
        info=to_jsonable(output.output_info),
    )


def rejects(found: Any) -> bool:
    """Whether a guardrail triggered its tripwire or crashed."""
    return isinstance(found, GuardrailFailed) or found.output.tripwire_triggered


def results_of(failing: Checked[G, R]) -> list[tuple[G, R]]:
    """The failing guardrails with their results. Raises the first `GuardrailFailed`."""
    results = []
    for guardrail, found in failing:
        if isinstance(found, GuardrailFailed):
            raise found
        results.append((guardrail, found))
    return results


def all_violations(results: Sequence[tuple[Any, Any]]) -> list[Violation]:
    """The violations in all these results."""
    return [
        each
        for guardrail, found in results
        for each in violations_of(_name(guardrail), found.output)
    ]


def own_copy(value: T) -> T:
    """A copy for one guardrail, so that its changes affect no other guardrail.

    A value that cannot be copied is shared.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def violations_of(name: str, output: GuardrailFunctionOutput) -> tuple[Violation, ...]:
    """The violations of a result. If the guardrail reported none, there is one violation with its
    `output_info` or its name."""
    if output.violations:
        return output.violations
    info = output.output_info
    message = info if isinstance(info, str) and info else f"{name} says no"
    return (Violation(message=message),)


def _name(guardrail: Any) -> str:
    return str(guardrail.get_name())


# Handoff guardrails check every handoff after all other checks, with the conversation as the
# target would see it.


async def examine_handoff(
    run: RunState,
    attempt: Attempt,
    target: Agent[Any],
    data: dict[str, Any],
    view: Sequence[Item] | None,
) -> None:
    """Run all handoff guardrails, and put their findings into `attempt.findings`.

    Raises `HandoffGuardrailTripwireTriggered` if a guardrail ends the run, and `GuardrailFailed` if
    a guardrail crashes. Raises `HandoffRefused` if a guardrail refuses the handoff; the source then
    gets the violations.
    """
    request = _request(run, attempt, target, data, view)
    guardrails = [*run.config.handoff_guardrails, *run.agent.handoff_guardrails]
    fault_point("guardrail.handoff.before_call")
    checks = await examine(
        run,
        guardrails,
        lambda each: each.run(run.context, run.agent, own_copy(request)),
        stage="handoff",
        is_enough=lambda each, found: (
            isinstance(found, GuardrailFailed) and each.on_failure != "warn"
        ),
    )
    fault_point("guardrail.handoff.after_call")
    attempt.findings = tuple(_handoff_finding(*each) for each in checks)
    _refuse(checks)


def _request(
    run: RunState,
    attempt: Attempt,
    target: Agent[Any],
    data: dict[str, Any],
    view: Sequence[Item] | None,
) -> HandoffRequest:
    """The request for guardrails. Arguments of the edge's own schema are its payload."""
    request = attempt.as_request(run, target, data, view_for_others(run) if view is None else view)
    passed = loads(attempt.arguments) if attempt.arguments else {}
    if attempt.payload is not None or not isinstance(passed, dict):
        return request
    own = {name: value for name, value in passed.items() if name not in PASSED_BY_MODELS}
    return replace(request, context=replace(request.context, payload=own)) if own else request


def _refuse(checks: Checked[HandoffGuardrail[Any], HandoffGuardrailResult]) -> None:
    results = results_of(
        [each for each in checks if rejects(each[1]) and each[0].on_failure != "warn"]
    )
    if not results:
        return
    violations = all_violations(results)
    for guardrail, found in results:
        if guardrail.on_failure == "reject":
            raise HandoffGuardrailTripwireTriggered(found, violations=violations)
    names = ", ".join(guardrail.get_name() for guardrail, _ in results)
    raise HandoffRefused("GUARDRAIL", f"the handoff data is rejected by {names}{shown(violations)}")


def _handoff_finding(
    guardrail: HandoffGuardrail[Any], found: HandoffGuardrailResult | GuardrailFailed
) -> GuardrailFinding:
    if not rejects(found):
        return finding("handoff", guardrail, found, result="passed", behavior="allow")
    result: Result = "warned" if guardrail.on_failure == "warn" else "failed"
    return finding("handoff", guardrail, found, result=result, behavior=guardrail.on_failure)


_FIRST_PASSED, _ALL_PASSED = 1, 2

_Checks = Checked[InputGuardrail[Any], InputGuardrailResult]


async def check_first(run: RunState) -> None:
    """Run the blocking input guardrails of the active agent.

    If a guardrail rejects the input, this function stores the finding, and raises
    `InputGuardrailTripwireTriggered` or `GuardrailFailed`. If all guardrails pass, this is also
    stored, so a resumed run does not repeat the checks.
    """
    every, uses_model = _guardrails(run), run.agent.traits.uses_model
    first = [each for each in every if not each.run_in_parallel or not uses_model]
    if first:
        checks = await _examine(run, first)
        await _let_through(run, checks)
    _note_progress(run, _ALL_PASSED if len(first) == len(every) else _FIRST_PASSED)
    if first:
        await run.commit()
        _passed_is_stored()


def _passed_is_stored() -> None:
    fault_point("guardrail.input.after_commit")


async def call_with_guardrails(
    run: RunState, call: Callable[[RunState], Awaitable[ModelResponse]]
) -> ModelResponse:
    """Call the model while the parallel guardrails run, and return the answer if they all pass.

    If a guardrail rejects the input, the model call is cancelled, and the same exceptions are
    raised as by `check_first`. If the model call fails first, its exception is raised.
    """
    answer = _Answer()
    checking = asyncio.create_task(_check_parallel(run, answer))
    checking.add_done_callback(answer.stop_if_refused)
    try:
        response = await answer.of(call(run))
        await _let_through(run, await checking)
        assert response is not None
        _note_progress(run, _ALL_PASSED)
        return response
    finally:
        if not checking.done():
            checking.cancel()
            await asyncio.wait({checking})


class _Answer:
    """A model call that guardrails can cancel."""

    def __init__(self) -> None:
        self._scope = asyncio.timeout(None)
        self.is_awaited = True

    async def of(self, call: Awaitable[ModelResponse]) -> ModelResponse | None:
        """The answer; `None` if the call was cancelled."""
        try:
            async with self._scope:
                return await call
        except TimeoutError:
            if not self._scope.expired():
                raise
            return None
        finally:
            self.is_awaited = False

    def stop_if_refused(self, checking: asyncio.Task[_Checks]) -> None:
        """Cancel the model call if the finished guardrails rejected the input."""
        if not self.is_awaited or checking.cancelled():
            return
        if checking.exception() is not None or any(rejects(each) for _, each in checking.result()):
            self._scope.reschedule(asyncio.get_running_loop().time())


async def _check_parallel(run: RunState, answer: _Answer) -> _Checks:
    """The results. If all pass before the model answers, this is stored at once, so that a crash
    during the model call does not repeat the checks."""
    parallel = [each for each in _guardrails(run) if each.run_in_parallel]
    checks = await _examine(run, parallel)
    if answer.is_awaited and not any(rejects(each) for _, each in checks):
        _note_passed(run, checks)
        _note_progress(run, _ALL_PASSED)
        await run.commit_checks()
        _passed_is_stored()
        return []
    return checks


async def _examine(run: RunState, guardrails: Sequence[InputGuardrail[Any]]) -> _Checks:
    agent, context = run.agent, run.context
    given = input_of(run)
    fault_point("guardrail.input.before_call")
    checks = await examine(
        run,
        guardrails,
        lambda each: each.run(agent, own_copy(given), context),
        stage="input",
        is_enough=lambda _, found: rejects(found),
    )
    fault_point("guardrail.input.after_call")
    return checks


async def _let_through(run: RunState, checks: _Checks) -> None:
    """Note the findings if all guardrails passed; otherwise store them and raise."""
    for guardrail, found in checks:
        if not rejects(found):
            continue
        given = run.cursor.progress.first if run.cursor.handoffs.depth == 0 else None
        record_failures(run, [_finding(each, decision) for each, decision in checks], undoes=given)
        await store_stop(run)
        raise _error(run, guardrail, found)
    _note_passed(run, checks)


def _note_passed(run: RunState, checks: _Checks) -> None:
    sensitive = run.config.trace_include_sensitive_data
    passed = [_finding(*each).to_json(sensitive=sensitive) for each in checks]
    checked = run.cursor.guardrails
    run.cursor.guardrails = replace(checked, found=[*checked.found, *passed])


def _note_progress(run: RunState, checks: int) -> None:
    run.cursor.guardrails = replace(run.cursor.guardrails, checks=checks)


def input_of(run: RunState) -> str | list[Item]:
    """The input of the active agent. For the first agent of the run this is the run's input, for
    later agents the whole visible conversation.

    If the input is one plain text, the result is this text.
    """
    if run.cursor.handoffs.depth > 0:
        return list(run.visible)
    items = [
        item
        for event in run.events
        if event.seq == run.cursor.progress.first
        for item in event.items
    ]
    if len(items) == 1 and items[0].keys() == {"role", "content"}:
        [only] = items
        if only["role"] == "user" and isinstance(only["content"], str):
            return only["content"]
    return items or list(run.visible)


def _guardrails(run: RunState) -> list[InputGuardrail[Any]]:
    return [*run.config.input_guardrails, *run.agent.input_guardrails]


def _finding(
    guardrail: InputGuardrail[Any], found: InputGuardrailResult | GuardrailFailed
) -> GuardrailFinding:
    if isinstance(found, GuardrailFailed) or found.output.tripwire_triggered:
        return finding("input", guardrail, found, result="failed", behavior="reject")
    if found.output.violations:
        return finding("input", guardrail, found, result="warned", behavior="warn")
    return finding("input", guardrail, found, result="passed", behavior="allow")


def _error(
    run: RunState, guardrail: InputGuardrail[Any], found: InputGuardrailResult | GuardrailFailed
) -> GuardrailError:
    if isinstance(found, GuardrailFailed):
        return found
    violations = violations_of(guardrail.get_name(), found.output)
    return InputGuardrailTripwireTriggered(found, agent=run.agent.name, violations=violations)
