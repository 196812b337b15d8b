"""The result of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, assert_never

from ekiden.core.agent import Agent
from ekiden.core.context import Parameterized, RunContextWrapper, TContext, TOutput
from ekiden.core.conversation.model import Item, Usage
from ekiden.core.conversation.run_items import RunItem
from ekiden.core.errors import (
    EkidenError,
    MaxTurnsExceeded,
    ModelRefused,
    OutOfBudgetError,
    UserError,
)
from ekiden.core.events import Event
from ekiden.core.guardrails import (
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from ekiden.core.runs import Conclusion, Done, Failed, Outcome, OutOfBudget, Refused, Waiting
from ekiden.runtime.conversation import has_withheld, run_items, view_for_others
from ekiden.runtime.outcome import warnings_of
from ekiden.runtime.state.findings import Stage, decided_output
from ekiden.runtime.state.state import RunState
from ekiden.sessions import is_transfer, said
from ekiden.sessions.conclusion import recorded_conclusion
from ekiden.tools.output import to_jsonable

if TYPE_CHECKING:
    from ekiden.core.guardrails import InputGuardrailResult, OutputGuardrailResult
    from ekiden.core.tools.guardrails import ToolInputGuardrailResult, ToolOutputGuardrailResult


def input_guardrail_results(run: RunState) -> list[InputGuardrailResult]:
    """The results of input guardrails, in the order in which they finished."""
    return [
        InputGuardrailResult(
            guardrail=_input_guardrail(run, agent, found["guardrail"]), output=decided_output(found)
        )
        for agent, found in _found(run, "input")
    ]


def output_guardrail_results(run: RunState) -> list[OutputGuardrailResult]:
    """The results of output guardrails. For a rejected answer, `agent_output` is `None`."""
    output = run.outcome.output if isinstance(run.outcome, Done) else None
    return [
        OutputGuardrailResult(
            guardrail=_output_guardrail(run, agent, found["guardrail"]),
            agent_output=None if found["result"] == "failed" else output,
            agent=run.find_agent(agent),
            output=decided_output(found),
        )
        for agent, found in _found(run, "output")
    ]


def _found(run: RunState, stage: Stage) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The stored findings of this stage with their agents, without crashed guardrails."""
    for event in run.events:
        details = event.details or {}
        agent = event.agent or ""
        for each in details.get("guardrails", ()):
            if each["type"] == stage and each["behavior"] != "crashed":
                yield agent, each
        is_own = event.type == "guardrail" and details.get("type") == stage
        if is_own and details["result"] == "failed" and details["behavior"] != "crashed":
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
    raise UserError("this guardrail's decision is stored, but the guardrail no longer exists")


T = TypeVar("T")


def raise_failure(run: RunState) -> None:
    """If an exception ended the run, raise it. An `EkidenError` gets the attribute `run_data`."""
    if isinstance(run.exception, EkidenError):
        run.exception.run_data = RunResult(run)
    if run.exception is not None:
        raise run.exception


class RunResult(Parameterized, Generic[TContext, TOutput]):
    """The result of a run: its outcome, its output and its events.

    For example::

        match result.outcome:
            case Done(output):
                print(result.last_agent.name, "said", output)
            case OutOfBudget(limit):
                result = await Runner.resume(triage, session, max_turns=50)
    """

    def __init__(self, run: RunState) -> None:
        if run.outcome is None:
            raise UserError("the run is not over yet: read its stream to the end first")
        self._run = run
        self.outcome: Outcome[TOutput] = run.outcome
        self.last_agent: Agent[TContext] = run.agent
        self.session_id: str = run.session_id
        self.usage: Usage = run.cursor.budget.usage

    @property
    def context_wrapper(self) -> RunContextWrapper[TContext]:
        """The context that the code of the agents got. It contains the caller's own object and the
        usage."""
        return self._run.context

    @property
    def final_output(self) -> TOutput | None:
        """The answer: a text, or an object of the agent's `output_type`. `None` if there is no
        answer."""
        return self.outcome.output if isinstance(self.outcome, Done) else None

    @property
    def conclusion(self) -> Conclusion | None:
        """How well the run went; `None` if it waits for people."""
        return recorded_conclusion(self._run.events)

    @property
    def chain(self) -> list[str]:
        """The text ``user``, and then the agents that handled the session in this run, in order."""
        return list(self._run.cursor.handoffs.chain)

    @property
    def events(self) -> list[Event]:
        """The events of this run."""
        self._run.cursor.audit.seal(self._run.events)
        return list(self._run.events)

    @property
    def handoffs(self) -> list[str]:
        """The ids of the handoffs of this run, including rolled-back handoffs."""
        return [
            event.details["id"]
            for event in self._run.events
            if is_transfer(event) and event.details
        ]

    @property
    def warnings(self) -> list[str]:
        """Errors in your own code that did not end the run, for example exceptions in a filter, a
        hook, `on_handoff`, a guardrail or an aggregator.

        Each entry names the function that failed. The log has the tracebacks.
        """
        return warnings_of(self._run.events)

    @property
    def input(self) -> list[Item]:
        """The input of the run."""
        return list(self._run.events[0].items) if self._run.events else []

    @property
    def new_items(self) -> list[RunItem]:
        """The output of the run, as items."""
        produced = [
            event for event in said(self._run.events) if event.seq > self._run.cursor.progress.first
        ]
        return run_items(produced, self._run.find_agent)

    @property
    def tool_input_guardrail_results(self) -> list[ToolInputGuardrailResult]:
        """The decisions of guardrails on tool calls in this run. A decision that ended the run is
        not included.

        The decisions are read from the events, so they are available after a restart. If an
        `output_info` was not JSON, its stored value is an approximation in JSON. With
        ``RunConfig(events=False)``, only decisions that allowed a call are included.
        """
        from ekiden.runtime.guardrails.output import input_results

        return input_results(self._run)

    @property
    def tool_output_guardrail_results(self) -> list[ToolOutputGuardrailResult]:
        """The decisions of guardrails on tool outputs, as in `tool_input_guardrail_results`."""
        from ekiden.runtime.guardrails.output import output_results

        return output_results(self._run)

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """The results of input guardrails in this run, including a result that ended the run. The
        results are read from the events, like `tool_input_guardrail_results`.
        """
        return input_guardrail_results(self._run)

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """The results of output guardrails in this run. They include results for rejected answers,
        which the model had to write again."""
        return output_guardrail_results(self._run)

    def to_input_list(self) -> list[Item]:
        """The conversation so far, as the last agent sees it. Use it as the input of another run.
        The list does not contain content that guardrails blocked.
        """
        run = self._run
        return view_for_others(run) if has_withheld(run) else list(run.visible)

    def final_output_as(self, kind: type[T]) -> T:
        """Return the answer of the run. Raises `TypeError` if the answer does not have the type
        `kind`."""
        output = self.final_output
        if not isinstance(output, kind):
            raise TypeError(f"the output is {type(output).__name__}, not {kind.__name__}")
        return output

    def raise_for_outcome(self) -> Self:
        """Return this result if it has an answer; otherwise raise the outcome as an exception."""
        match self.outcome:
            case Done():
                return self
            case Refused(reason):
                raise self._with_data(ModelRefused(reason))
            case OutOfBudget("turns", allowed, used):
                raise self._with_data(MaxTurnsExceeded("turns", allowed, used))
            case OutOfBudget(limit, allowed, used, scope=scope):
                raise self._with_data(OutOfBudgetError(limit, allowed, used, scope=scope))
            case Waiting(reason):
                raise self._with_data(EkidenError(f"the run waits: {reason}"))
            case Failed(_, error):
                raise self._with_data(EkidenError(error))
            case _ as never:
                assert_never(never)

    def _with_data(self, error: EkidenError) -> EkidenError:
        error.run_data = self
        return error

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, in the form that the command line prints."""
        data = {
            "session_id": self.session_id,
            "agent": self.last_agent.name,
            "output": to_jsonable(self.final_output),
            "outcome": self.outcome.kind,
            "conclusion": self.conclusion,
            "chain": self.chain,
            "handoffs": self.handoffs,
            "usage": self.usage.to_json(),
        }
        warnings = self.warnings
        return {**data, "warnings": warnings} if warnings else data

    def __repr__(self) -> str:
        return (
            f"<RunResult {self.outcome.kind} session={self.session_id!r} "
            f"agent={self.last_agent.name!r} output={self.final_output!r}>"
        )
