"""Input guardrails: they check the input of an agent.

They run once each time an agent gets the conversation. Blocking guardrails run before the agent
does anything. Parallel guardrails run concurrently with the first call of its model; if one trips,
the answer is dropped. For an agent without a model, all of them are blocking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ekiden.core.conversation.model import Item, ModelResponse
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFailed,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
)
from ekiden.runtime.guardrails.checks import (
    Checked,
    examine,
    finding,
    own_copy,
    rejects,
    violations_of,
)
from ekiden.runtime.state.findings import GuardrailFinding, record_failures, store_stop
from ekiden.runtime.state.state import RunState

_FIRST_PASSED, _ALL_PASSED = 1, 2

_Checks = Checked[InputGuardrail[Any], InputGuardrailResult]


async def check_first(run: RunState) -> None:
    """Run the blocking input guardrails of the active agent.

    Raises `InputGuardrailTripwireTriggered` or `GuardrailFailed`, after storing the finding. A pass
    is also stored: a resumed run does not repeat the checks.
    """
    every, uses_model = _guardrails(run), run.agent.traits.uses_model
    first = [each for each in every if not each.run_in_parallel or not uses_model]
    if first:
        checks = await _examine(run, first)
        await _let_through(run, checks)
    run.cursor.guardrails.checks = _ALL_PASSED if len(first) == len(every) else _FIRST_PASSED
    if first:
        await run.commit()
        _passed_is_stored()


def _passed_is_stored() -> None:
    fault_point("guardrail.input.after_commit")


async def call_with_guardrails(
    run: RunState, call: Callable[[RunState], Awaitable[ModelResponse]]
) -> ModelResponse:
    """Call the model while the parallel guardrails run; returns the answer if they all pass.

    If a guardrail trips, the call is cancelled. If the call fails first, its exception is raised.
    Otherwise raises like `check_first`.
    """
    answer = _Answer()
    checking = asyncio.create_task(_check_parallel(run, answer))
    checking.add_done_callback(answer.stop_if_refused)
    try:
        response = await answer.of(call(run))
        await _let_through(run, await checking)
        assert response is not None
        run.cursor.guardrails.checks = _ALL_PASSED
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
        run.cursor.guardrails.checks = _ALL_PASSED
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
    run.cursor.guardrails.found = [*run.cursor.guardrails.found, *passed]


def input_of(run: RunState) -> str | list[Item]:
    """The input of the active agent: the run's input for its first agent, else the whole view.

    An input of one plain text is returned as text.
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
