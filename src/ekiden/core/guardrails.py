"""Guardrails of inputs, answers and handoffs, their results and their errors."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

from ekiden.core.checks.fields import Name, WholeAmount, check_fields
from ekiden.core.context import RunContextWrapper, TContext
from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import EkidenError, UserError

if TYPE_CHECKING:
    from ekiden.core.handoffs import HandoffRequest

OnFailure: TypeAlias = Literal["reject", "repair", "warn"]
"""`reject`: the run ends. `repair`: the model gets the violations and answers again, a few times;
if the last answer also fails, the run ends. `warn`: the run continues, and the violation is
recorded."""
_LISTED = 20
"""How many violations a message lists."""
_LONGEST_PATH = 200
"""Longest path in messages to other agents, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation that a guardrail found.

    For example::

        wrong = Violation(message="it must not be below 0", path="/price")
        GuardrailFunctionOutput(tripwire_triggered=True, violations=(wrong,))
    """

    message: str
    path: str = ""
    """The place of the violation in the value, as a JSON Pointer. An empty text means the whole
    value."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class RefusalText(str):
    """The text of a model that declined to answer. Output guardrails check this text like any other
    text.

    For example::

        @output_guardrail
        def long_enough(ctx, agent, output):
            is_short = not isinstance(output, RefusalText) and len(str(output)) < 20
            return GuardrailFunctionOutput(tripwire_triggered=is_short)
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GuardrailFunctionOutput:
    """The result of a guardrail."""

    output_info: Any = None
    """Your own data about the decision, which is recorded as JSON."""
    tripwire_triggered: bool = False
    """Whether the guardrail blocks the input, the output or the handoff."""
    violations: tuple[Violation, ...] = ()
    """The violations that the guardrail found. If the guardrail has ``on_failure="repair"``, the
    model reads them and answers again."""


InputGuardrailFunction: TypeAlias = Callable[
    [RunContextWrapper[Any], Any, str | list[Item]],
    GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput],
]
"""A function of the context, the agent, and the agent's input (a text or a list of items)."""
OutputGuardrailFunction: TypeAlias = Callable[
    [RunContextWrapper[Any], Any, Any], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]
]
"""A function of the context, the agent, and its final output."""
HandoffGuardrailFunction: TypeAlias = Callable[
    [RunContextWrapper[Any], Any, "HandoffRequest"],
    GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput],
]
"""A function of the context, the source agent, and the request with its content."""


class NamedGuardrail:
    """Base class of guardrails: their names, and the check of their fields."""

    __slots__ = ()

    guardrail_function: Any
    name: str | None

    def __post_init__(self) -> None:
        check_fields(self)

    def get_name(self) -> str:
        """The name of the guardrail in records: `name` if it is set, otherwise the name of the
        function."""
        return self.name or name_of(self.guardrail_function)


@dataclass(frozen=True)
class InputGuardrail(NamedGuardrail, Generic[TContext]):
    """Checks an agent's input. The decorator `input_guardrail` creates this object from a
    function."""

    guardrail_function: InputGuardrailFunction
    """The function that checks the data, sync or async. A sync function runs on the event loop and
    must be fast."""
    name: Name | None = None
    run_in_parallel: bool = True
    """If true, the guardrail runs in parallel with the model call, and Ekiden discards the answer
    if the guardrail trips. If false, the guardrail runs before the model call."""

    async def run(
        self, agent: Any, input: str | list[Item], context: RunContextWrapper[TContext]
    ) -> InputGuardrailResult:
        """Call the function and return its decision. Raises the exceptions of the function, and
        `UserError` for an invalid result."""
        output = await _decision(self, self.guardrail_function(context, agent, input))
        return InputGuardrailResult(guardrail=self, output=output)


@dataclass(frozen=True)
class OutputGuardrail(NamedGuardrail, Generic[TContext]):
    """Checks an agent's final output. The decorator `output_guardrail` creates this object from a
    function."""

    guardrail_function: OutputGuardrailFunction
    """The function that checks the data, sync or async. A sync function runs on the event loop and
    must be fast."""
    name: Name | None = None
    on_failure: OnFailure = "reject"
    tries: WholeAmount = 2
    """If `on_failure` is ``repair``, the maximum number of times that the model is asked for a new
    answer."""

    async def run(
        self, context: RunContextWrapper[TContext], agent: Any, agent_output: Any
    ) -> OutputGuardrailResult:
        """Call the function and return its decision. Raises the exceptions of the function, and
        `UserError` for an invalid result."""
        output = await _decision(self, self.guardrail_function(context, agent, agent_output))
        return OutputGuardrailResult(
            guardrail=self, agent_output=agent_output, agent=agent, output=output
        )


@dataclass(frozen=True)
class HandoffGuardrail(NamedGuardrail, Generic[TContext]):
    """Checks the content of a handoff. The decorator `handoff_guardrail` creates this object from a
    function.

    `on_failure` says what happens when the guardrail trips: `reject` ends the run, `repair` refuses
    the handoff and gives the model the reason, and `warn` allows the handoff and marks it.
    """

    guardrail_function: HandoffGuardrailFunction
    name: Name | None = None
    on_failure: OnFailure = "repair"

    async def run(
        self, context: RunContextWrapper[TContext], agent: Any, request: HandoffRequest
    ) -> HandoffGuardrailResult:
        """Call the function and return its decision. Raises the exceptions of the function, and
        `UserError` for an invalid result."""
        output = await _decision(self, self.guardrail_function(context, agent, request))
        return HandoffGuardrailResult(guardrail=self, request=request, output=output)


@dataclass(frozen=True)
class InputGuardrailResult:
    """The result of an input guardrail."""

    guardrail: InputGuardrail[Any]
    output: GuardrailFunctionOutput


@dataclass(frozen=True)
class OutputGuardrailResult:
    """The result of an output guardrail."""

    guardrail: OutputGuardrail[Any]
    agent_output: Any
    agent: Any
    output: GuardrailFunctionOutput


@dataclass(frozen=True)
class HandoffGuardrailResult:
    """The result of a handoff guardrail."""

    guardrail: HandoffGuardrail[Any]
    request: HandoffRequest
    output: GuardrailFunctionOutput


@overload
def input_guardrail(function: InputGuardrailFunction, /) -> InputGuardrail[Any]: ...
@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[InputGuardrailFunction], InputGuardrail[Any]]: ...
def input_guardrail(
    function: InputGuardrailFunction | None = None,
    /,
    *,
    name: Name | None = None,
    run_in_parallel: bool = True,
) -> InputGuardrail[Any] | Callable[[InputGuardrailFunction], InputGuardrail[Any]]:
    """A decorator that makes a function an input guardrail.

    For example::

        @input_guardrail(run_in_parallel=False)
        async def no_homework(ctx, agent, input):
            return GuardrailFunctionOutput(tripwire_triggered="homework" in str(input))
    """
    if function is not None:
        return InputGuardrail(function)
    return lambda each: InputGuardrail(each, name, run_in_parallel)


@overload
def output_guardrail(function: OutputGuardrailFunction, /) -> OutputGuardrail[Any]: ...
@overload
def output_guardrail(
    *, name: str | None = None, on_failure: OnFailure = "reject", tries: int = 2
) -> Callable[[OutputGuardrailFunction], OutputGuardrail[Any]]: ...
def output_guardrail(
    function: OutputGuardrailFunction | None = None,
    /,
    *,
    name: Name | None = None,
    on_failure: OnFailure = "reject",
    tries: WholeAmount = 2,
) -> OutputGuardrail[Any] | Callable[[OutputGuardrailFunction], OutputGuardrail[Any]]:
    """A decorator that makes a function an output guardrail.

    For example::

        @output_guardrail(on_failure="repair")
        def polite(ctx, agent, output):
            return GuardrailFunctionOutput(tripwire_triggered="please" not in str(output))
    """
    if function is not None:
        return OutputGuardrail(function)
    return lambda each: OutputGuardrail(each, name, on_failure, tries)


@overload
def handoff_guardrail(function: HandoffGuardrailFunction, /) -> HandoffGuardrail[Any]: ...
@overload
def handoff_guardrail(
    *, name: str | None = None, on_failure: OnFailure = "repair"
) -> Callable[[HandoffGuardrailFunction], HandoffGuardrail[Any]]: ...
def handoff_guardrail(
    function: HandoffGuardrailFunction | None = None,
    /,
    *,
    name: Name | None = None,
    on_failure: OnFailure = "repair",
) -> HandoffGuardrail[Any] | Callable[[HandoffGuardrailFunction], HandoffGuardrail[Any]]:
    """A decorator that makes a function a handoff guardrail.

    For example::

        @handoff_guardrail
        def no_cards(ctx, agent, request):
            return GuardrailFunctionOutput(tripwire_triggered="4111" in request.reason)
    """
    if function is not None:
        return HandoffGuardrail(function)
    return lambda each: HandoffGuardrail(each, name, on_failure)


def name_of(function: object) -> str:
    """The name of a guardrail's function."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


async def _decision(
    guardrail: InputGuardrail[Any] | OutputGuardrail[Any] | HandoffGuardrail[Any],
    result: GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput],
) -> GuardrailFunctionOutput:
    """The awaited result of a guardrail; `UserError` for an invalid one."""
    output = await result if inspect.isawaitable(result) else result
    if not isinstance(output, GuardrailFunctionOutput):
        raise UserError(
            f"guardrail {guardrail.get_name()!r} returned {type(output).__name__}, not a "
            "GuardrailFunctionOutput"
        )
    problem = _problem(output)
    if problem is not None:
        raise UserError(f"guardrail {guardrail.get_name()!r} returned {problem}")
    return output


def _problem(output: GuardrailFunctionOutput) -> str | None:
    """The fault of a guardrail's result; `None` if it is valid."""
    tripped: object = output.tripwire_triggered
    if not isinstance(tripped, bool):
        return f"a `tripwire_triggered` that is {type(tripped).__name__}, not True or False"
    violations: object = output.violations
    if not isinstance(violations, tuple | list):
        return f"`violations` that are {type(violations).__name__}, not a tuple"
    for each in violations:
        if not isinstance(each, Violation):
            return f"{type(each).__name__} among its `violations`, not a Violation"
        if not isinstance(each.message, str) or not isinstance(each.path, str):
            return "a Violation whose `message` or `path` is not text"
    return None


class GuardrailError(EkidenError):
    """A guardrail ended the run. Earlier work is kept."""

    code = "guardrail.error"
    violations: tuple[Violation, ...] = ()
    """The violations that the guardrail found."""
    outside = "a guardrail blocked it"
    """The error text for other agents. It contains the name of the guardrail and the paths, but no
    values."""


class GuardrailFailed(GuardrailError):
    """The guardrail raised an exception, returned an unusable value, or exceeded `tool_timeout_s`.
    Correct the guardrail and resume.

    Guardrails fail closed; `__cause__` is the original exception.
    """

    code = "guardrail.failed"

    def __init__(
        self, guardrail: str, tool: str, problem: str, *, stage: str, agent: str = ""
    ) -> None:
        whose = f"agent {agent!r}" if agent else f"tool {tool!r}"
        what = f"the {stage}" if agent else f"the call's {stage}"
        self.outside = (
            f"guardrail {guardrail!r} of {whose} could not decide on {what}, which blocks it"
        )
        super().__init__(f"{self.outside}: {problem}; correct the guardrail and resume the session")
        self.guardrail, self.tool, self.agent, self.stage = guardrail, tool, agent, stage


class InputGuardrailTripwireTriggered(GuardrailError):
    """An input guardrail rejected the input of an agent.

    `guardrail_result.output` is the result of the guardrail.
    """

    code = "guardrail.input"

    def __init__(
        self, guardrail_result: Any, *, agent: str = "", violations: Sequence[Violation] = ()
    ) -> None:
        name = guardrail_result.guardrail.get_name()
        self.violations = tuple(violations) or guardrail_result.output.violations
        blocked = f"the input of agent {agent!r}" if agent else "the input"
        fact = f"guardrail {name!r} blocked {blocked}"
        self.outside = f"{fact}{_places(self.violations)}"
        super().__init__(f"{fact}{shown(self.violations)}; start again with another request")
        self.guardrail_result = guardrail_result


class OutputGuardrailTripwireTriggered(GuardrailError):
    """An output guardrail rejected the answer. The answer was not shown. With
    ``on_failure="repair"``, the error is raised after `tries` failed repairs.

    `guardrail_result` has the answer and the guardrail's result. `violations` are the violations
    that all failed guardrails found.
    """

    code = "guardrail.output"

    def __init__(self, guardrail_result: Any, *, violations: Sequence[Violation] = ()) -> None:
        name = guardrail_result.guardrail.get_name()
        agent = getattr(guardrail_result.agent, "name", "")
        self.violations = tuple(violations) or guardrail_result.output.violations
        fact = f"guardrail {name!r} blocked the answer of agent {agent!r}"
        self.outside = f"{fact}{_places(self.violations)}"
        super().__init__(
            f"{fact}{shown(self.violations)}; resume the session for a new answer, or give the "
            "guardrail on_failure='repair' to tell its model what is wrong"
        )
        self.guardrail_result = guardrail_result


class HandoffGuardrailTripwireTriggered(GuardrailError):
    """A handoff guardrail rejected the data of a handoff. The handoff was not made.

    `guardrail_result` has the request and the guardrail's result. `violations` are the violations
    that all failed guardrails found.
    """

    code = "guardrail.handoff"

    def __init__(self, guardrail_result: Any, *, violations: Sequence[Violation] = ()) -> None:
        name, request = guardrail_result.guardrail.get_name(), guardrail_result.request
        self.violations = tuple(violations) or guardrail_result.output.violations
        fact = f"guardrail {name!r} blocked what {request.source!r} passes on to {request.target!r}"
        self.outside = f"{fact}{_places(self.violations)}"
        super().__init__(
            f"{fact}{shown(self.violations)}; give the guardrail on_failure='repair' to tell "
            "the model instead"
        )
        self.guardrail_result = guardrail_result


class ToolInputGuardrailTripwireTriggered(GuardrailError):
    """A guardrail rejected a tool call, and the tool did not run. `output.output_info` has the
    facts."""

    code = "guardrail.tool_input"

    def __init__(self, guardrail: Any, output: Any, *, tool: str = "") -> None:
        name = f" {tool!r}" if tool else ""
        super().__init__(
            f"{type(guardrail).__name__} {guardrail.get_name()!r} ended the run before the "
            f"tool{name} was run; `output.output_info` says what it found: start again with "
            "another request, or let the guardrail use reject_content to tell the model instead"
        )
        self.outside = f"guardrail {guardrail.get_name()!r} blocked the tool{name}"
        self.guardrail, self.output, self.tool = guardrail, output, tool


class ToolOutputGuardrailTripwireTriggered(GuardrailError):
    """A guardrail rejected the output of a tool. The tool has already run."""

    code = "guardrail.tool_output"

    def __init__(self, guardrail: Any, output: Any, *, tool: str = "") -> None:
        name = f" {tool!r}" if tool else ""
        super().__init__(
            f"{type(guardrail).__name__} {guardrail.get_name()!r} ended the run because of what "
            f"the tool{name} returned, which was not shown; `output.output_info` says what it "
            "found: start again with another request, or let the guardrail use reject_content "
            "to tell the model instead"
        )
        self.outside = f"guardrail {guardrail.get_name()!r} blocked the output of the tool{name}"
        self.guardrail, self.output, self.tool = guardrail, output, tool


def _places(violations: Sequence[Violation]) -> str:
    """The paths of the violations, without values, for another agent."""
    paths = list(dict.fromkeys(each.path[:_LONGEST_PATH] for each in violations if each.path))
    if not paths:
        return ""
    more = [f"{len(paths) - _LISTED} more places"] if len(paths) > _LISTED else []
    return f" (at {', '.join([*paths[:_LISTED], *more])})"


def shown(violations: Sequence[Violation]) -> str:
    """The violations as the end of a sentence. The text is empty if there are no violations."""
    if not violations:
        return ""
    listed = [str(each) for each in violations[:_LISTED]]
    if len(violations) > _LISTED:
        listed.append(f"and {len(violations) - _LISTED} more")
    return f": {'; '.join(listed)}"
