"""Records and reads the decisions of tool guardrails.

A guardrail that passed is listed in the event of the tool call. A guardrail that rejected gets an
event of its own, which is audited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.guardrails import (
    GuardrailError,
    GuardrailFailed,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from ekiden.core.tools.guardrails import (
    GuardrailDecision,
    GuardrailStage,
    ToolInputGuardrail,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailResult,
)
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime.state.state import RunState
from ekiden.tools import decision_of


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
