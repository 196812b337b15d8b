"""Guardrails of tools. They check a call before the tool runs, and the output before the model sees
it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Generic, Literal, TypeAlias, TypedDict, cast, overload

from ekiden.core.checks.fields import Name, check_fields
from ekiden.core.context import TContext, ToolContext
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.privacy.masking import masked_keys


class AllowBehavior(TypedDict):
    """The guardrail's decision to allow the call or the output."""

    type: Literal["allow"]


class RejectContentBehavior(TypedDict):
    """The guardrail's decision to give the model `message` instead of the tool's output. The run
    continues."""

    type: Literal["reject_content"]
    message: str


class RaiseExceptionBehavior(TypedDict):
    """The guardrail's decision to end the run."""

    type: Literal["raise_exception"]


ToolGuardrailBehavior: TypeAlias = AllowBehavior | RejectContentBehavior | RaiseExceptionBehavior


def _allowed() -> ToolGuardrailBehavior:
    return {"type": "allow"}


@dataclass(frozen=True, slots=True)
class ToolGuardrailFunctionOutput:
    """The decision of a tool guardrail. Create a decision with `allow`, `reject_content` or
    `raise_exception`."""

    output_info: Any = None
    """Additional facts about the decision. They are recorded as JSON."""
    behavior: ToolGuardrailBehavior = field(default_factory=_allowed)

    @classmethod
    def allow(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Allow the tool call or, in an output guardrail, let the model see the output."""
        return cls(output_info)

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Continue the run, but give the model `message` instead of the tool's output. If an input
        guardrail rejects the call, the tool does not run."""
        return cls(output_info, {"type": "reject_content", "message": message})

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """End the run with `ToolInputGuardrailTripwireTriggered` or
        `ToolOutputGuardrailTripwireTriggered`."""
        return cls(output_info, {"type": "raise_exception"})


@dataclass(frozen=True, slots=True)
class ToolInputGuardrailData:
    """The argument of a tool input guardrail's function."""

    context: ToolContext[Any]
    """The context of the call. ``context.tool_arguments`` is the JSON text of the arguments, which
    may be malformed."""
    agent: Any
    """The agent that calls the tool."""


@dataclass(frozen=True, slots=True)
class ToolOutputGuardrailData(ToolInputGuardrailData):
    """The argument of a tool output guardrail's function."""

    output: Any
    """The result of the tool. If the tool failed, this is the error text for the model."""


ToolInputGuardrailFunction: TypeAlias = Callable[
    [ToolInputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]
ToolOutputGuardrailFunction: TypeAlias = Callable[
    [ToolOutputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]


@dataclass(frozen=True, slots=True)
class ToolInputGuardrail(Generic[TContext]):
    """Checks a tool call before the tool runs. The decorator `tool_input_guardrail` creates this
    object from a function."""

    guardrail_function: ToolInputGuardrailFunction
    """The function that checks the call, sync or async. A sync function runs on the event loop and
    must be fast."""
    name: Name | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def get_name(self) -> str:
        """The name of the guardrail in records: `name` if it is set, otherwise the name of the
        function."""
        return self.name or _name_of(self.guardrail_function)

    async def run(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        """Call the function and return its decision. Raises the exceptions of the function, and
        `UserError` for an invalid result."""
        return await _decision(self.get_name(), self.guardrail_function(data))


@dataclass(frozen=True, slots=True)
class ToolOutputGuardrail(Generic[TContext]):
    """Checks a tool's output before the model sees it. The decorator `tool_output_guardrail`
    creates this object from a function."""

    guardrail_function: ToolOutputGuardrailFunction
    """The function that checks the output, sync or async. A sync function runs on the event loop
    and must be fast."""
    name: Name | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def get_name(self) -> str:
        """The name of the guardrail in records: `name` if it is set, otherwise the name of the
        function."""
        return self.name or _name_of(self.guardrail_function)

    async def run(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        """Call the function and return its decision. Raises the exceptions of the function, and
        `UserError` for an invalid result."""
        return await _decision(self.get_name(), self.guardrail_function(data))


@dataclass(frozen=True, slots=True)
class ToolInputGuardrailResult:
    """A tool guardrail with its decision about one call."""

    guardrail: ToolInputGuardrail[Any]
    output: ToolGuardrailFunctionOutput


@dataclass(frozen=True, slots=True)
class ToolOutputGuardrailResult:
    """A tool guardrail with its decision about the output of one call."""

    guardrail: ToolOutputGuardrail[Any]
    output: ToolGuardrailFunctionOutput


GuardrailStage: TypeAlias = Literal["tool_input", "tool_output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailDecision:
    """A recorded decision, as JSON values."""

    type: GuardrailStage
    guardrail: str
    """The guardrail's name."""
    behavior: Literal["allow", "reject_content", "raise_exception"]
    message: str | None = None
    """The text for the model, if the content was rejected."""
    info: Any = None
    """The `output_info` of the decision as JSON."""

    @property
    def passed(self) -> bool:
        """Whether the guardrail allowed the call or the output."""
        return self.behavior == "allow"

    def to_json(self, *, sensitive: bool = True) -> dict[str, Any]:
        """Return the decision in the form that events contain. Keys and tokens are masked. Without
        `sensitive`, all texts are left out."""
        data: dict[str, Any] = {
            "type": self.type,
            "guardrail": self.guardrail,
            "result": "passed" if self.passed else "failed",
            "behavior": self.behavior,
        }
        if sensitive and self.message is not None:
            data["message"] = masked_keys(self.message)
        if sensitive and self.info is not None:
            data["info"] = masked_keys(self.info)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuardrailDecision:
        """The inverse of `to_json`."""
        return cls(
            type=data["type"],
            guardrail=data["guardrail"],
            behavior=data["behavior"],
            message=data.get("message"),
            info=data.get("info"),
        )

    @property
    def output(self) -> ToolGuardrailFunctionOutput:
        """Return the decision in the form of a guardrail function's result."""
        behavior: dict[str, Any] = {"type": self.behavior}
        if self.behavior == "reject_content":
            behavior["message"] = self.message or ""
        return ToolGuardrailFunctionOutput(self.info, cast("ToolGuardrailBehavior", behavior))


@overload
def tool_input_guardrail(func: ToolInputGuardrailFunction, /) -> ToolInputGuardrail[Any]: ...
@overload
def tool_input_guardrail(
    *, name: str | None = None
) -> Callable[[ToolInputGuardrailFunction], ToolInputGuardrail[Any]]: ...
def tool_input_guardrail(
    func: ToolInputGuardrailFunction | None = None, /, *, name: str | None = None
) -> Any:
    """Turn a function into a guardrail for tool calls. Use this as a decorator, with or without
    arguments::

        @tool_input_guardrail
        def small_sums(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            if json.loads(data.context.tool_arguments)["cents"] > 10_000:
                return ToolGuardrailFunctionOutput.reject_content("At most 100.00 at a time.")
            return ToolGuardrailFunctionOutput.allow()

        @function_tool(tool_input_guardrails=[small_sums])
        async def refund(order: str, cents: int) -> str: ...

    The guardrails of a tool run one after the other, until one of them does not allow the call. If
    a guardrail raises an exception, the run ends with `GuardrailFailed`, and the tool is not
    called.
    """
    if func is not None:
        return ToolInputGuardrail(func, name)
    return lambda decorated: ToolInputGuardrail(decorated, name)


@overload
def tool_output_guardrail(func: ToolOutputGuardrailFunction, /) -> ToolOutputGuardrail[Any]: ...
@overload
def tool_output_guardrail(
    *, name: str | None = None
) -> Callable[[ToolOutputGuardrailFunction], ToolOutputGuardrail[Any]]: ...
def tool_output_guardrail(
    func: ToolOutputGuardrailFunction | None = None, /, *, name: str | None = None
) -> Any:
    """Turn a function into a guardrail for tool outputs, including error texts. The function is
    called after the tool has run::

        @tool_output_guardrail(name="no keys")
        async def no_keys(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
            if "sk-" in str(data.output):
                return ToolGuardrailFunctionOutput.reject_content("The output has a key in it.")
            return ToolGuardrailFunctionOutput.allow()

    Pass the guardrail to ``function_tool(tool_output_guardrails=[no_keys])``.
    """
    if func is not None:
        return ToolOutputGuardrail(func, name)
    return lambda decorated: ToolOutputGuardrail(decorated, name)


def check_guardrails(
    tool: str,
    inputs: Sequence[ToolInputGuardrail[Any]] | None,
    outputs: Sequence[ToolOutputGuardrail[Any]] | None,
) -> None:
    """Raise `UserError` for objects that are not guardrails. Without this check, such an object
    would never run, and no error would report it."""
    for which, given, kind in (
        ("input", inputs, ToolInputGuardrail),
        ("output", outputs, ToolOutputGuardrail),
    ):
        if given is not None and not isinstance(given, list | tuple):
            raise UserError(f"`tool_{which}_guardrails` of tool {tool!r} must be a list")
        for each in given or ():
            if not isinstance(each, kind):
                raise UserError(
                    f"`tool_{which}_guardrails` of tool {tool!r} has {type(each).__name__} "
                    f"{_name_of(each)!r}: make it with @tool_{which}_guardrail"
                )


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


async def _decision(name: str, given: object) -> ToolGuardrailFunctionOutput:
    """The awaited decision of a guardrail; `UserError` for an invalid one."""
    if inspect.isawaitable(given):
        given = await given
    if not isinstance(given, ToolGuardrailFunctionOutput):
        raise UserError(
            f"guardrail {name!r} returned {type(given).__name__}, not a "
            "ToolGuardrailFunctionOutput: return ToolGuardrailFunctionOutput.allow(), "
            ".reject_content(…) or .raise_exception()"
        )
    match given.behavior:
        case {"type": "allow" | "raise_exception"} | {"type": "reject_content", "message": str()}:
            return given
    raise UserError(
        f"guardrail {name!r} returned a behavior that does not exist; there are: allow, "
        "reject_content with a message that is text, raise_exception"
    )
