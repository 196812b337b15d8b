"""Input guardrails: may this agent work on what it is given?

They run once for each stay of an agent, that is, whenever it gets the conversation. Those that are
to run before the model run before anything of the agent does; the others beside the first call of
its model, whose answer is thrown away if one of them trips. An agent that has no model has nothing
that they could run beside: all of them run before.
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
from ekiden.runtime.guardrails.checks import Checked, examine, finding, own_copy, violations_of
from ekiden.runtime.state.findings import record_failures, store_stop
from ekiden.runtime.state.state import RunState

_FIRST_PASSED, _ALL_PASSED = 1, 2

_Checks = Checked[InputGuardrail[Any], InputGuardrailResult]


async def check_first(run: RunState) -> None:
    """Run the input guardrails that come before the active agent does anything.

    Raises `InputGuardrailTripwireTriggered` or `GuardrailFailed`, which are stored then. That they
    passed is stored, too: a run that is resumed does not ask them again.
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


async def ask_beside(
    run: RunState, ask: Callable[[RunState], Awaitable[ModelResponse]]
) -> ModelResponse:
    """The model's answer, once the guardrails that run beside it let it through.

    When one trips, the call is cancelled. A call that fails first is the failure. Raises as
    `check_first` does.
    """
    answer = _Answer()
    checking = asyncio.create_task(_beside(run, answer))
    checking.add_done_callback(answer.stop_if_refused)
    try:
        response = await answer.given(ask(run))
        await _let_through(run, await checking)
        assert response is not None
        run.cursor.guardrails.checks = _ALL_PASSED
        return response
    finally:
        if not checking.done():
            checking.cancel()
            await asyncio.wait({checking})


class _Answer:
    """A call of a model that can be called off."""

    def __init__(self) -> None:
        self._scope = asyncio.timeout(None)
        self.is_awaited = True

    async def given(self, asking: Awaitable[ModelResponse]) -> ModelResponse | None:
        """The answer; `None` if it was called off."""
        try:
            async with self._scope:
                return await asking
        except TimeoutError:
            if not self._scope.expired():
                raise
            return None
        finally:
            self.is_awaited = False

    def stop_if_refused(self, checking: asyncio.Task[_Checks]) -> None:
        """The guardrails are done: cancel the model call if they refused."""
        if not self.is_awaited or checking.cancelled():
            return
        if checking.exception() is not None or any(_is_no(*each) for each in checking.result()):
            self._scope.reschedule(asyncio.get_running_loop().time())


async def _beside(run: RunState, answer: _Answer) -> _Checks:
    """The checks; where they are quicker than the model, their passing is stored at once."""
    beside = [each for each in _guardrails(run) if each.run_in_parallel]
    checks = await _examine(run, beside)
    if answer.is_awaited and not any(_is_no(*each) for each in checks):
        _note_passed(run, checks)
        run.cursor.guardrails.checks = _ALL_PASSED
        await run.commit_checks()
        _passed_is_stored()
        return []
    return checks


async def _examine(run: RunState, guardrails: Sequence[InputGuardrail[Any]]) -> _Checks:
    agent, context = run.agent, run.context
    given = given_to(run)
    fault_point("guardrail.input.before_call")
    checks = await examine(
        run,
        guardrails,
        lambda each: each.run(agent, own_copy(given), context),
        stage="input",
        is_enough=_is_no,
    )
    fault_point("guardrail.input.after_call")
    return checks


async def _let_through(run: RunState, checks: _Checks) -> None:
    """Note what passed; a guardrail that did not let the input through ends the step."""
    for guardrail, found in checks:
        if not _is_no(guardrail, found):
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


def given_to(run: RunState) -> str | list[Item]:
    """What the active agent is given: to the first of a run its input, to others all they see.

    An input that is one plain text is given as such.
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


def _is_no(guardrail: object, found: InputGuardrailResult | GuardrailFailed) -> bool:
    return isinstance(found, GuardrailFailed) or found.output.tripwire_triggered


def _finding(guardrail: InputGuardrail[Any], found: InputGuardrailResult | GuardrailFailed) -> Any:
    decision = found if isinstance(found, GuardrailFailed) else found.output
    if _is_no(guardrail, found):
        return finding("input", guardrail, decision, result="failed", behavior="reject")
    if not isinstance(decision, GuardrailFailed) and decision.violations:
        return finding("input", guardrail, decision, result="warned", behavior="warn")
    return finding("input", guardrail, decision, result="passed", behavior="allow")


def _error(
    run: RunState, guardrail: InputGuardrail[Any], found: InputGuardrailResult | GuardrailFailed
) -> GuardrailError:
    if isinstance(found, GuardrailFailed):
        return found
    violations = violations_of(guardrail.get_name(), found.output)
    return InputGuardrailTripwireTriggered(found, agent=run.agent.name, violations=violations)
