"""Asking the guardrails of agents, side by side.

There is one rule for everything that goes wrong with them: what could not be checked is not let
through.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from ekiden.core.guardrails import GuardrailFailed, GuardrailFunctionOutput, Violation
from ekiden.runtime.state.findings import Behavior, Finding, Result, Stage
from ekiden.runtime.state.state import RunState
from ekiden.tools.guardrails import decided
from ekiden.tools.output import to_jsonable

G = TypeVar("G")
T = TypeVar("T")
R = TypeVar("R")

Checked: TypeAlias = list[tuple[G, R | GuardrailFailed]]
"""Guardrails with what each found, in the order in which they were done."""


async def examine(
    run: RunState,
    guardrails: Sequence[G],
    ask: Callable[[G], Coroutine[Any, Any, R]],
    *,
    stage: Stage,
    is_enough: Callable[[G, R | GuardrailFailed], bool],
) -> Checked[G, R]:
    """What the guardrails find, until `is_enough`: those that are not done then are cancelled.

    Each may take `RunConfig.tool_timeout_s`. One that raises or gives nothing usable found a
    `GuardrailFailed`. When this returns, or is cancelled, none of them is running.
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
    return await _side_by_side(guardrails, one, is_enough)


async def _side_by_side(
    guardrails: Sequence[G],
    one: Callable[[G], Coroutine[Any, Any, R | GuardrailFailed]],
    is_enough: Callable[[G, R | GuardrailFailed], bool],
) -> Checked[G, R]:
    found: Checked[G, R] = []
    done: asyncio.Queue[tuple[G, R | GuardrailFailed] | BaseException] = asyncio.Queue()

    async def noting(guardrail: G) -> None:
        try:
            done.put_nowait((guardrail, await one(guardrail)))
        except BaseException as exc:
            done.put_nowait(exc)
            raise

    tasks = [asyncio.create_task(noting(each)) for each in guardrails]
    try:
        while len(found) < len(guardrails):
            news = await done.get()
            if isinstance(news, BaseException):
                raise news
            found.append(news)
            if is_enough(*news):
                break
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


def finding(
    stage: Stage,
    guardrail: Any,
    decision: GuardrailFunctionOutput | GuardrailFailed,
    *,
    result: Result,
    behavior: Behavior,
) -> Finding:
    """What is recorded of a guardrail's decision."""
    name = _name(guardrail)
    if isinstance(decision, GuardrailFailed):
        return Finding(
            type=stage, guardrail=name, result=result, behavior="crashed", problem=str(decision)
        )
    return Finding(
        type=stage,
        guardrail=name,
        result=result,
        behavior=behavior,
        violations=violations_of(name, decision)
        if decision.tripwire_triggered
        else decision.violations,
        info=to_jsonable(decision.output_info),
    )


def own_copy(value: T) -> T:
    """A copy for one guardrail: what it does to it changes nothing for anybody else.

    What cannot be copied is given as it is.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def violations_of(name: str, output: GuardrailFunctionOutput) -> tuple[Violation, ...]:
    """What is wrong; a guardrail that does not say is quoted as saying no."""
    if output.violations:
        return output.violations
    info = output.output_info
    said = info if isinstance(info, str) and info else f"{name} says no"
    return (Violation(message=said),)


def _name(guardrail: Any) -> str:
    return str(guardrail.get_name())
