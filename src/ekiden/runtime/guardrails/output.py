"""Checks answers with output guardrails before they are recorded. Also records and reads the
decisions of tool guardrails.

A rejected answer does not become part of the conversation. All guardrails run, even after a
rejection, so that the model gets all violations at once.

A tool guardrail that passed is listed in the event of the tool call. A tool guardrail that rejected
gets an event of its own, which is audited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ekiden.core.conversation.model import ModelResponse, is_message
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFailed,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
    RefusalText,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    Violation,
)
from ekiden.core.runs import Done, Refused
from ekiden.core.tools.guardrails import (
    GuardrailDecision,
    GuardrailStage,
    ToolInputGuardrail,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailResult,
)
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime.conversation import correction
from ekiden.runtime.guardrails.input import (
    Checked,
    all_violations,
    examine,
    finding,
    own_copy,
    rejects,
    results_of,
)
from ekiden.runtime.outcome import checked_text, final_outcome, is_structured
from ekiden.runtime.state.findings import (
    Behavior,
    GuardrailFinding,
    Result,
    record_failure,
    record_failures,
    store_stop,
    tell_findings,
)
from ekiden.runtime.state.state import RunState
from ekiden.tools import decision_of

_OUTPUT_TYPE = "output_type"
"""The name, among the repairs, for answers that do not match the agent's `output_type`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDecision:
    """The decision about a model's final answer."""

    outcome: Done | Refused | None = None
    """The outcome of the run. `None` if the model must repair the answer; this request is then
    stored."""
    findings: tuple[GuardrailFinding, ...] = ()


async def judge(
    run: RunState, response: ModelResponse, details: dict[str, Any] | None, duration_us: int
) -> OutputDecision:
    """Decide whether a model's final answer is recorded, or whether the model must repair the
    answer.

    If a guardrail ends the run, its findings are stored, and `OutputGuardrailTripwireTriggered` or
    `GuardrailFailed` is raised. Raises `ModelBehaviorError` for an answer that does not match the
    agent's `output_type`.
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
        return OutputDecision(outcome=outcome)  # Guardrails expect the structured output.
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
    """Raise `ModelBehaviorError` for text next to a structured answer: no guardrail checks it."""
    if isinstance(outcome, Done) and is_structured(run.agent.output_type):
        texts = [each for each in response.output if is_message(each) and checked_text([each])]
        if len(texts) > 1:
            raise ModelBehaviorError("the answer has more text than the structured output")


def _checked(run: RunState, outcome: Done | Refused, response: ModelResponse) -> Any:
    """The value for the guardrails: the structured output, or the whole text."""
    if isinstance(outcome, Refused):
        return RefusalText(checked_text(response.output))
    return outcome.output if is_structured(run.agent.output_type) else checked_text(response.output)


@dataclass(slots=True)
class _Call:
    """A model call whose answer is not recorded yet."""

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


def _failing(checks: _Checks) -> _Checks:
    """The guardrails that reject the answer; a warning does not."""
    return [each for each in checks if rejects(each[1]) and each[0].on_failure != "warn"]


def _place(run: RunState, guardrail: OutputGuardrail[Any]) -> str:
    """The key under which the repairs for this guardrail are counted. It contains the position,
    because two guardrails may have the same name."""
    places = [n for n, each in enumerate(_guardrails(run)) if each is guardrail]
    return f"{places[0]}.{guardrail.get_name()}"


def _ends(run: RunState, guardrail: OutputGuardrail[Any], found: _Found) -> bool:
    """Whether the answer is rejected without another repair: a model cannot repair a crash."""
    if guardrail.on_failure == "reject" or isinstance(found, GuardrailFailed):
        return True
    return run.cursor.guardrails.repairs.get(_place(run, guardrail), 0) >= guardrail.tries


def _passed(run: RunState, checks: _Checks) -> tuple[GuardrailFinding, ...]:
    """The findings for the event of an accepted answer; warnings get events of their own."""
    findings = tuple(_finding(run, *each) for each in checks)
    for each in findings:
        if each.result == "warned":
            record_failure(run, each)
    return findings


async def _reject(run: RunState, checks: _Checks) -> None:
    record_failures(run, [_finding(run, *each) for each in checks])
    await store_stop(run)
    results = results_of(_failing(checks))
    first = next((found for guardrail, found in results if _ends(run, guardrail, found)), None)
    raise OutputGuardrailTripwireTriggered(
        first or results[0][1], violations=all_violations(results)
    )


async def _ask_again(
    run: RunState, call: _Call, findings: Sequence[GuardrailFinding], places: set[str]
) -> None:
    """Store the rejected answer with a correction for the model, and end the turn.

    A repair is counted for each of the `places`.
    """
    cursor = run.cursor
    _record_call(run, call)
    failed = [each for each in findings if each.result == "failed"]
    tried = {place: cursor.guardrails.repairs.get(place, 0) + 1 for place in sorted(places)}
    repairs = {**cursor.guardrails.repairs, **tried}
    cursor.guardrails = replace(cursor.guardrails, repairs=repairs)
    record_failures(run, [each for each in findings if each is not failed[-1]])
    instruction = correction([violation for each in failed for violation in each.violations])
    # The last event also adds the answer and its correction to the agent's view.
    record_failure(run, failed[-1], items=(*call.response.output, instruction))
    cursor.progress.turn += 1
    fault_point("guardrail.repair.before_commit")
    await run.commit()
    fault_point("guardrail.repair.after_commit")
    run.memo = {}


def _record_call(run: RunState, call: _Call) -> None:
    """Record the model call without the rejected answer."""
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
    """The errors of pydantic with their paths, or else the message of the exception."""
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
    if not rejects(found):
        is_repaired = _place(run, guardrail) in run.cursor.guardrails.repairs
        result: Result = "repaired" if is_repaired else "passed"
        return finding("output", guardrail, found, result=result, behavior="allow")
    if guardrail.on_failure == "warn":
        return finding("output", guardrail, found, result="warned", behavior="warn")
    behavior: Behavior = "reject" if _ends(run, guardrail, found) else guardrail.on_failure
    return finding("output", guardrail, found, result="failed", behavior=behavior)


async def approve(
    run: RunState, output: Any, details: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """Check the answer of an agent without a model, and return the `details` of its event.

    Such an agent cannot repair its answer, so an answer that needs repair is rejected. After a
    rejection, the findings are stored, and `OutputGuardrailTripwireTriggered` or `GuardrailFailed`
    is raised.
    """
    if run.config.output_guardrails or run.agent.output_guardrails:
        checks = await _examine(run, output)
        if _failing(checks):
            await _reject(run, checks)
        details = tell_findings(run, details, _passed(run, checks))
    elif run.cursor.guardrails.found:
        details = tell_findings(run, details)
    return details


def record_rejection(
    run: RunState, tool: str, call_id: str, decisions: Sequence[GuardrailDecision]
) -> None:
    """Record each guardrail that rejected a tool call or its output."""
    for each in decisions:
        if not each.passed:
            run.record("guardrail", details=_details(run, tool, call_id, each))


async def record_stop(run: RunState, tool: str, call_id: str, exc: GuardrailError) -> None:
    """Store, before the step is discarded, that a guardrail ends the run."""
    match exc:
        case ToolInputGuardrailTripwireTriggered():
            decision = decision_of("tool_input", exc.guardrail.get_name(), exc.output)
            details = _details(run, tool, call_id, decision)
        case ToolOutputGuardrailTripwireTriggered():
            decision = decision_of("tool_output", exc.guardrail.get_name(), exc.output)
            details = _details(run, tool, call_id, decision)
        case GuardrailFailed():
            details = {"tool": tool, "call_id": call_id, "type": f"tool_{exc.stage}"}
            details |= {"guardrail": exc.guardrail, "result": "failed", "behavior": "crashed"}
        case _:
            return
    run.record("guardrail", details=details, error=str(exc))
    await run.commit()


def input_results(run: RunState) -> list[ToolInputGuardrailResult]:
    """The results of tool input guardrails in this run, except for one that ended the run."""
    return [
        ToolInputGuardrailResult(_input_guardrail(run, event, decision.guardrail), decision.output)
        for event, decision in _decisions(run.events, "tool_input")
    ]


def output_results(run: RunState) -> list[ToolOutputGuardrailResult]:
    """The results of tool output guardrails in this run, except for one that ended the run."""
    return [
        ToolOutputGuardrailResult(
            _output_guardrail(run, event, decision.guardrail), decision.output
        )
        for event, decision in _decisions(run.events, "tool_output")
    ]


def _details(run: RunState, tool: str, call_id: str, decision: GuardrailDecision) -> dict[str, Any]:
    sensitive = run.config.trace_include_sensitive_data
    return {"tool": tool, "call_id": call_id, **decision.to_json(sensitive=sensitive)}


def _decisions(
    events: Sequence[Event], stage: GuardrailStage
) -> Iterator[tuple[Event, GuardrailDecision]]:
    for event in events:
        details = event.details or {}
        if event.type == "tool_call":
            found = details.get("guardrails", ())
        elif event.type == "guardrail" and details.get("behavior") == "reject_content":
            found = [details]
        else:
            continue
        for each in found:
            if each["type"] == stage:
                yield event, GuardrailDecision.from_json(each)


def _input_guardrail(run: RunState, event: Event, name: str) -> ToolInputGuardrail[Any]:
    for tool in _tools(run, event):
        for guardrail in tool.tool_input_guardrails or ():
            if guardrail.get_name() == name:
                return guardrail
    return ToolInputGuardrail(_gone, name)


def _output_guardrail(run: RunState, event: Event, name: str) -> ToolOutputGuardrail[Any]:
    for tool in _tools(run, event):
        for guardrail in tool.tool_output_guardrails or ():
            if guardrail.get_name() == name:
                return guardrail
    return ToolOutputGuardrail(_gone, name)


def _tools(run: RunState, event: Event) -> list[FunctionTool]:
    """The tool of the event, in a list; empty if its agent no longer has the tool."""
    name = (event.details or {}).get("tool")
    return [tool for tool in run.find_agent(event.agent or "").tools if tool.name == name]


def _gone(data: object) -> NoReturn:
    raise UserError("this guardrail's decision is stored, but the tool no longer has the guardrail")
