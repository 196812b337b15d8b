"""What guardrails of agents found in a run, read from its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from ekiden.core.errors import UserError
from ekiden.core.guardrails import (
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from ekiden.core.outcomes import Done
from ekiden.runtime.findings import Stage, decided_output
from ekiden.runtime.state import RunState

_OPEN = frozenset({"failed"})


def input_guardrail_results(run: RunState) -> list[InputGuardrailResult]:
    """What input guardrails found, in the order in which they were done."""
    return [
        InputGuardrailResult(
            guardrail=_input_guardrail(run, agent, found["guardrail"]),
            output=decided_output(found),
        )
        for agent, found in _found(run, "input")
    ]


def output_guardrail_results(run: RunState) -> list[OutputGuardrailResult]:
    """The same for outputs; of an answer that nobody was given, `agent_output` is `None`."""
    output = run.outcome.output if isinstance(run.outcome, Done) else None
    return [
        OutputGuardrailResult(
            guardrail=_output_guardrail(run, agent, found["guardrail"]),
            agent_output=None if found["result"] in _OPEN else output,
            agent=run.find_agent(agent),
            output=decided_output(found),
        )
        for agent, found in _found(run, "output")
    ]


def _found(run: RunState, stage: Stage) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Agent and finding, but for guardrails that could not decide."""
    for event in run.events:
        details = event.details or {}
        agent = event.agent or ""
        for each in details.get("guardrails", ()):
            if each["type"] == stage and each["behavior"] != "crashed":
                yield agent, each
        is_told = event.type == "guardrail" and details.get("type") == stage
        if is_told and details["result"] in _OPEN and details["behavior"] != "crashed":
            yield agent, details


def _input_guardrail(run: RunState, agent: str, name: str) -> InputGuardrail[Any]:
    for each in (*run.config.input_guardrails, *run.find_agent(agent).input_guardrails):
        if each.get_name() == name:
            return each
    return InputGuardrail(_gone, name)


def _output_guardrail(run: RunState, agent: str, name: str) -> OutputGuardrail[Any]:
    for each in (*run.config.output_guardrails, *run.find_agent(agent).output_guardrails):
        if each.get_name() == name:
            return each
    return OutputGuardrail(_gone, name)


def _gone(*_: object) -> NoReturn:
    raise UserError("this guardrail's decision is stored, but nobody has the guardrail any more")
