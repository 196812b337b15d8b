"""Asking guardrails of agents, concurrently, and those of handoffs.

There is one rule for everything that goes wrong with them: what could not be checked is not let
through.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item
from ekiden.core.errors import HandoffRefused
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import (
    GuardrailFailed,
    GuardrailFunctionOutput,
    HandoffGuardrail,
    HandoffGuardrailResult,
    HandoffGuardrailTripwireTriggered,
    Violation,
    shown,
)
from ekiden.core.handoffs.request import HandoffRequest
from ekiden.core.values import loads
from ekiden.runtime.conversation import view_for_others
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.findings import Behavior, GuardrailFinding, Result, Stage
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
) -> GuardrailFinding:
    """What is recorded of a guardrail's decision."""
    name = _name(guardrail)
    if isinstance(decision, GuardrailFailed):
        return GuardrailFinding(
            type=stage, guardrail=name, result=result, behavior="crashed", problem=str(decision)
        )
    return GuardrailFinding(
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
    """A copy for one guardrail, so that its changes affect no other.

    A value that cannot be copied is passed unchanged.
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


# Guardrails of handoffs: may this be passed on?
#
# They look at every handoff that everybody else agreed to, whoever wants it, with the
# conversation as the target would see it.


_WORDS = frozenset({"reason", "summary", "context"})

_Found = HandoffGuardrailResult | GuardrailFailed
_Checks = Checked[HandoffGuardrail[Any], HandoffGuardrailResult]


async def examine_handoff(
    run: RunState,
    attempt: Attempt,
    target: Agent[Any],
    words: dict[str, Any],
    view: Sequence[Item] | None,
) -> None:
    """Ask all guardrails; what they found is in `attempt.findings`, whatever comes of it.

    Raises `HandoffGuardrailTripwireTriggered` if one of them ends the run, `GuardrailFailed` if one
    cannot decide, and `HandoffRefused` if the source is to be told what is wrong.
    """
    request = _request(run, attempt, target, words, view)
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
    attempt.findings = tuple(_finding(*each) for each in checks)
    _refuse(checks)


def _request(
    run: RunState,
    attempt: Attempt,
    target: Agent[Any],
    words: dict[str, Any],
    view: Sequence[Item] | None,
) -> HandoffRequest:
    """The request with all that goes along, arguments of the edge's own schema included."""
    request = attempt.as_request(run, target, words, view_for_others(run) if view is None else view)
    passed = loads(attempt.arguments) if attempt.arguments else {}
    if attempt.payload is not None or not isinstance(passed, dict):
        return request
    more = {name: value for name, value in passed.items() if name not in _WORDS}
    return replace(request, context=replace(request.context, payload=more)) if more else request


def _refuse(checks: _Checks) -> None:
    failing = [
        (guardrail, found)
        for guardrail, found in checks
        if _is_no(found) and guardrail.on_failure != "warn"
    ]
    if not failing:
        return
    results = []
    for guardrail, found in failing:
        if isinstance(found, GuardrailFailed):
            raise found
        results.append((guardrail, found))
    violations = [
        each
        for guardrail, found in results
        for each in violations_of(guardrail.get_name(), found.output)
    ]
    for guardrail, found in results:
        if guardrail.on_failure == "reject":
            raise HandoffGuardrailTripwireTriggered(found, violations=violations)
    names = ", ".join(guardrail.get_name() for guardrail, _ in results)
    raise HandoffRefused(
        "GUARDRAIL", f"what would be passed on is not let through by {names}{shown(violations)}"
    )


def _is_no(found: _Found) -> bool:
    return isinstance(found, GuardrailFailed) or found.output.tripwire_triggered


def _finding(guardrail: HandoffGuardrail[Any], found: _Found) -> GuardrailFinding:
    decision = found if isinstance(found, GuardrailFailed) else found.output
    if not _is_no(found):
        return finding("handoff", guardrail, decision, result="passed", behavior="allow")
    return finding(
        "handoff",
        guardrail,
        decision,
        result="warned" if guardrail.on_failure == "warn" else "failed",
        behavior=guardrail.on_failure,
    )
