"""Asking guardrails outside of a run, as this SDK's loop does it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ekiden.core.guardrails import (
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
)

T = TypeVar("T", InputGuardrailResult, OutputGuardrailResult)


async def run_input_guardrails(
    agent: Any,
    guardrails: Sequence[InputGuardrail[Any]],
    input: Any,
    context: Any,
    results: list[InputGuardrailResult] | None = None,
) -> list[InputGuardrailResult]:
    """All results, in the order in which they came; each is added to `results`, too.

    Raises what a guardrail raises, or `InputGuardrailTripwireTriggered`; the others are cancelled.
    """
    found = [] if results is None else results
    error = InputGuardrailTripwireTriggered
    await _until_one_trips([each.run(agent, input, context) for each in guardrails], found, error)
    return found


async def run_input_guardrails_with_queue(
    agent: Any,
    guardrails: Sequence[InputGuardrail[Any]],
    input: Any,
    context: Any,
    streamed_result: Any = None,
    parent_span: Any = None,
) -> None:
    """The same; a streamed run shows what they found by itself, and there are no spans."""
    await run_input_guardrails(agent, guardrails, input, context)


async def run_output_guardrails(
    guardrails: Sequence[OutputGuardrail[Any]],
    agent: Any,
    agent_output: Any,
    context: Any,
    results: list[OutputGuardrailResult] | None = None,
) -> list[OutputGuardrailResult]:
    """As `run_input_guardrails`, with `OutputGuardrailTripwireTriggered`."""
    found = [] if results is None else results
    error = OutputGuardrailTripwireTriggered
    asked = [each.run(context, agent, agent_output) for each in guardrails]
    await _until_one_trips(asked, found, error)
    return found


async def _until_one_trips(
    asked: Sequence[Coroutine[Any, Any, T]], found: list[T], error: type[Exception]
) -> None:
    tasks = [asyncio.create_task(each) for each in asked]
    try:
        for done in asyncio.as_completed(tasks):
            result = await done
            found.append(result)
            if result.output.tripwire_triggered:
                raise error(result)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
