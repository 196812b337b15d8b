"""Output guardrails: may this answer be seen?

They check an answer before it is recorded: a rejected answer was never said. All of them are asked,
so that the model learns of everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.core.conversation.model import ModelResponse, is_message
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import (
    GuardrailFailed,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
    RefusalText,
    Violation,
)
from ekiden.core.runs import Done, Refused
from ekiden.runtime.conversation import correction
from ekiden.runtime.guardrails.checks import Checked, examine, finding, own_copy, violations_of
from ekiden.runtime.outcome import checked_text, final_outcome, is_structured
from ekiden.runtime.state.findings import (
    GuardrailFinding,
    record_failure,
    record_failures,
    store_stop,
    tell_findings,
)
from ekiden.runtime.state.state import RunState

_OUTPUT_TYPE = "output_type"
"""Under which name an answer is repaired that is not of the agent's `output_type`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDecision:
    """What becomes of a model's final answer."""

    outcome: Done | Refused | None = None
    """`None`: the model is to be asked again, which is stored."""
    findings: tuple[GuardrailFinding, ...] = ()


async def judge(
    run: RunState, response: ModelResponse, details: dict[str, Any] | None, duration_us: int
) -> OutputDecision:
    """Whether a model's final answer may be recorded, or the model has to be asked again.

    Raises `OutputGuardrailTripwireTriggered` or `GuardrailFailed`, which are stored then, and
    `ModelBehaviorError` for an answer that is not of the agent's `output_type`.
    """
    call = _Call(response, details, duration_us)
    try:
        outcome = final_outcome(response.output, run.agent.output_type)
        _check_form(run, outcome, response)
    except ModelBehaviorError as exc:
        most = max(
            (each.tries for each in _guardrails(run) if each.on_failure == "repair"), default=0
        )
        if run.cursor.guardrails.repairs.get(_OUTPUT_TYPE, 0) >= most:
            raise
        await _ask_again(run, call, [_malformed(exc)], {_OUTPUT_TYPE})
        return OutputDecision()
    if isinstance(outcome, Refused) and is_structured(run.agent.output_type):
        return OutputDecision(outcome=outcome)  # Guardrails of objects cannot read it.
    checks = await _examine(run, _checked(run, outcome, response))
    failing = _failing(checks)
    if not failing:
        return OutputDecision(outcome=outcome, findings=_passed(run, checks))
    if any(_ends(run, guardrail, found) for guardrail, found in failing):
        _record_call(run, call)
        await _reject(run, checks)
    places = {_place(run, guardrail) for guardrail, _ in failing}
    await _ask_again(run, call, [_finding(run, *each) for each in checks], places)
    return OutputDecision()


def _check_form(run: RunState, outcome: Done | Refused, response: ModelResponse) -> None:
    """`ModelBehaviorError` for text beside a structured answer, which no guardrail would check."""
    if isinstance(outcome, Done) and is_structured(run.agent.output_type):
        texts = [each for each in response.output if is_message(each) and checked_text([each])]
        if len(texts) > 1:
            raise ModelBehaviorError("the answer has more text than the structured output")


def _checked(run: RunState, outcome: Done | Refused, response: ModelResponse) -> Any:
    """What the guardrails are shown: all of a text, also one that declines."""
    if isinstance(outcome, Refused):
        return RefusalText(checked_text(response.output))
    return outcome.output if is_structured(run.agent.output_type) else checked_text(response.output)


async def approved(run: RunState, output: Any) -> tuple[GuardrailFinding, ...]:
    """What guardrails found of an answer that no model gave, and that may be recorded."""
    checks = await _examine(run, output)
    if _failing(checks):
        await _reject(run, checks)
    return _passed(run, checks)


@dataclass(slots=True)
class _Call:
    """A model's call whose answer is not recorded yet."""

    response: ModelResponse
    details: dict[str, Any] | None
    duration_us: int


_Found = OutputGuardrailResult | GuardrailFailed
_Checks = Checked[OutputGuardrail[Any], OutputGuardrailResult]


def _guardrails(run: RunState) -> list[OutputGuardrail[Any]]:
    return [*run.config.output_guardrails, *run.agent.output_guardrails]


async def _examine(run: RunState, output: Any) -> _Checks:
    fault_point("guardrail.output.before_call")
    checks = await examine(
        run,
        _guardrails(run),
        lambda each: each.run(run.context, run.agent, own_copy(output)),
        stage="output",
        is_enough=lambda each, found: (
            isinstance(found, GuardrailFailed) and each.on_failure != "warn"
        ),
    )
    fault_point("guardrail.output.after_call")
    return checks


def _is_no(found: _Found) -> bool:
    return isinstance(found, GuardrailFailed) or found.output.tripwire_triggered


def _failing(checks: _Checks) -> _Checks:
    """Those that do not let the answer through; a warning does."""
    return [each for each in checks if _is_no(each[1]) and each[0].on_failure != "warn"]


def _place(run: RunState, guardrail: OutputGuardrail[Any]) -> str:
    """Under which name it is counted how often an answer was repaired: two may have one name."""
    places = [n for n, each in enumerate(_guardrails(run)) if each is guardrail]
    return f"{places[0]}.{guardrail.get_name()}"


def _ends(run: RunState, guardrail: OutputGuardrail[Any], found: _Found) -> bool:
    """Whether the model is not asked again: it cannot mend a guardrail that crashes."""
    if guardrail.on_failure == "reject" or isinstance(found, GuardrailFailed):
        return True
    return run.cursor.guardrails.repairs.get(_place(run, guardrail), 0) >= guardrail.tries


def _passed(run: RunState, checks: _Checks) -> tuple[GuardrailFinding, ...]:
    """What is told of an answer that may be seen; warnings are recorded."""
    findings = tuple(_finding(run, *each) for each in checks)
    for each in findings:
        if each.result == "warned":
            record_failure(run, each)
    return findings


async def _reject(run: RunState, checks: _Checks) -> None:
    record_failures(run, [_finding(run, *each) for each in checks])
    await store_stop(run)
    failing = _failing(checks)
    for _, found in failing:
        if isinstance(found, GuardrailFailed):
            raise found
    results = [
        (guardrail, found) for guardrail, found in failing if not isinstance(found, GuardrailFailed)
    ]
    violations = [
        each
        for guardrail, found in results
        for each in violations_of(guardrail.get_name(), found.output)
    ]
    first = next((found for guardrail, found in results if _ends(run, guardrail, found)), None)
    raise OutputGuardrailTripwireTriggered(first or results[0][1], violations=violations)


async def _ask_again(
    run: RunState, call: _Call, findings: Sequence[GuardrailFinding], places: set[str]
) -> None:
    """Store the answer and what is wrong with it where the model reads it, and the turn as over.

    `places` are those for which it counts as one more try.
    """
    cursor = run.cursor
    _record_call(run, call)
    failed = [each for each in findings if each.result == "failed"]
    tried = {place: cursor.guardrails.repairs.get(place, 0) + 1 for place in sorted(places)}
    cursor.guardrails.repairs = {**cursor.guardrails.repairs, **tried}
    record_failures(run, [each for each in findings if each is not failed[-1]])
    told = correction([wrong for each in failed for wrong in each.violations])
    record_failure(run, failed[-1], items=(*call.response.output, told))
    cursor.progress.turn += 1
    fault_point("guardrail.repair.before_commit")
    await run.commit()
    fault_point("guardrail.repair.after_commit")
    run.memo = {}


def _record_call(run: RunState, call: _Call) -> None:
    """That the model was asked; what it said is not part of the event."""
    details = {**(call.details or {}), "rejected": True}
    run.record("llm_call", details=details, duration_us=call.duration_us)


def _malformed(exc: ModelBehaviorError) -> GuardrailFinding:
    return GuardrailFinding(
        type="output",
        guardrail=_OUTPUT_TYPE,
        result="failed",
        behavior="repair",
        violations=_faults(exc),
    )


def _faults(exc: ModelBehaviorError) -> tuple[Violation, ...]:
    """What pydantic says, each with its place, or else the message."""
    list_errors = getattr(exc.__cause__, "errors", None)
    if not callable(list_errors):
        return (Violation(message=str(exc)),)
    return tuple(
        Violation(
            message=str(each["msg"]), path="".join(f"/{_token(step)}" for step in each["loc"])
        )
        for each in list_errors()
    )


def _token(step: object) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _finding(run: RunState, guardrail: OutputGuardrail[Any], found: _Found) -> GuardrailFinding:
    decision = found if isinstance(found, GuardrailFailed) else found.output
    if _is_no(found):
        is_warning = guardrail.on_failure == "warn"
        return finding(
            "output",
            guardrail,
            decision,
            result="warned" if is_warning else "failed",
            behavior="reject" if not is_warning and _ends(run, guardrail, found)
            else guardrail.on_failure,
        )  # fmt: skip
    is_repaired = _place(run, guardrail) in run.cursor.guardrails.repairs
    return finding(
        "output",
        guardrail,
        decision,
        result="repaired" if is_repaired else "passed",
        behavior="allow",
    )


async def approve(
    run: RunState, output: Any, details: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """The `details` of the event with the active agent's answer, if it may be recorded.

    The agent cannot be asked again, so what would be repaired is rejected. Raises
    `OutputGuardrailTripwireTriggered` or `GuardrailFailed`, which are stored.
    """
    if run.config.output_guardrails or run.agent.output_guardrails:
        details = tell_findings(run, details, await approved(run, output))
    elif run.cursor.guardrails.found:
        details = tell_findings(run, details)
    return details
