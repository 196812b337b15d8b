"""Guardrails of handoffs: may this be passed on?

They look at every handoff that everybody else agreed to, whoever wants it, with the conversation as
the target would see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item
from ekiden.core.errors import HandoffRefused
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import (
    GuardrailFailed,
    HandoffGuardrail,
    HandoffGuardrailResult,
    HandoffGuardrailTripwireTriggered,
    shown,
)
from ekiden.core.handoff_request import HandoffRequest
from ekiden.core.values import loads
from ekiden.runtime.conversation import view_for_others
from ekiden.runtime.guardrails.checks import Checked, examine, finding, own_copy, violations_of
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.findings import Finding
from ekiden.runtime.state.state import RunState

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


def _finding(guardrail: HandoffGuardrail[Any], found: _Found) -> Finding:
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
