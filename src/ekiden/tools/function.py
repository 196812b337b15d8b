"""Defines `function_tool`, which makes a tool from a Python function."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    overload,
)

from ekiden.core.checks.fields import Seconds, check_argument, either
from ekiden.core.context import RunContextWrapper, TContext, ToolContext, TOutput
from ekiden.core.errors import ModelBehaviorError, ToolError, ToolTimeout, UserError
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import (
    ApprovalFunction,
    Enabled,
    FunctionTool,
    ToolErrorFunction,
    check_tool_name,
    ensure_strict_json_schema,
)
from ekiden.tools.signature import (
    DocstringStyle,
    Documentation,
    Parameters,
    ParameterSchema,
    read_docstring,
    read_parameters,
    without_partial,
)
from ekiden.tools.under_way import in_thread, is_being_cancelled

if TYPE_CHECKING:
    from ekiden.core.tools.guardrails import ToolInputGuardrail, ToolOutputGuardrail


_log = logging.getLogger("ekiden.tools")

_MAX_ERROR = 2000

TPlain = TypeVar("TPlain", None, bool, int, float, str, list[str], dict[str, Any])
"""Types that `CodeContext.call` returns unchanged; all other types become JSON values."""
_Later: TypeAlias = Coroutine[Any, Any, TOutput]
_WithContext: TypeAlias = Callable[Concatenate[ToolContext[TContext], ...], TOutput]


def default_tool_error_function(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """The text that the model gets after a failure of a tool, so that the model can try again or
    give up."""
    if isinstance(error, ModelBehaviorError):
        text = str(error)
    elif isinstance(error, ToolTimeout):
        text = f"The call was given up: {error}. It may have had an effect."
    else:
        text = f"The tool failed with {type(error).__name__}: {error}"
    return text if len(text) <= _MAX_ERROR else text[:_MAX_ERROR] + " …"


def tool_error_in_words(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """The text for the model after a failure of a built-in tool. For a `ToolError`, this is the
    message of the error."""
    if isinstance(error, ToolError) and not isinstance(error, ToolTimeout):
        return f"Error: {error}"
    return default_tool_error_function(ctx, error)


class ToolOptions(TypedDict, total=False):
    """The options of `function_tool`."""

    name_override: str | None
    description_override: str | None
    docstring_style: DocstringStyle | None
    use_docstring_info: bool
    failure_error_function: ToolErrorFunction | None
    strict_mode: bool
    is_enabled: Enabled
    timeout: float | None
    confirmation: Confirmation | bool
    needs_approval: Confirmation | bool | ApprovalFunction
    tool_description: str | None
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None
    read_only: bool
    version: str | None


class ToolMaker(Protocol):
    """A decorator that makes a tool and keeps the types of context and result."""

    @overload
    def __call__(
        self, func: _WithContext[TContext, _Later[TPlain]]
    ) -> FunctionTool[TContext, TPlain]: ...
    @overload
    def __call__(self, func: _WithContext[TContext, TPlain]) -> FunctionTool[TContext, TPlain]: ...
    @overload
    def __call__(self, func: _WithContext[TContext, Any]) -> FunctionTool[TContext, Any]: ...
    @overload
    def __call__(self, func: Callable[..., _Later[TPlain]]) -> FunctionTool[Any, TPlain]: ...
    @overload
    def __call__(self, func: Callable[..., TPlain]) -> FunctionTool[Any, TPlain]: ...
    @overload
    def __call__(self, func: Callable[..., Any]) -> FunctionTool: ...


@overload
def function_tool(
    func: _WithContext[TContext, _Later[TPlain]], **options: Unpack[ToolOptions]
) -> FunctionTool[TContext, TPlain]: ...
@overload
def function_tool(
    func: _WithContext[TContext, TPlain], **options: Unpack[ToolOptions]
) -> FunctionTool[TContext, TPlain]: ...
@overload
def function_tool(
    func: _WithContext[TContext, Any], **options: Unpack[ToolOptions]
) -> FunctionTool[TContext, Any]: ...
@overload
def function_tool(
    func: Callable[..., _Later[TPlain]], **options: Unpack[ToolOptions]
) -> FunctionTool[Any, TPlain]: ...
@overload
def function_tool(
    func: Callable[..., TPlain], **options: Unpack[ToolOptions]
) -> FunctionTool[Any, TPlain]: ...
@overload
def function_tool(func: Callable[..., Any], **options: Unpack[ToolOptions]) -> FunctionTool: ...
@overload
def function_tool(func: None = None, **options: Unpack[ToolOptions]) -> ToolMaker: ...
def function_tool(
    func: Callable[..., Any] | None = None,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: DocstringStyle | None = None,
    use_docstring_info: bool = True,
    failure_error_function: ToolErrorFunction | None = default_tool_error_function,
    strict_mode: bool = True,
    is_enabled: Enabled = True,
    timeout: float | None = None,
    confirmation: Confirmation | bool = False,
    needs_approval: Confirmation | bool | ApprovalFunction = False,
    tool_description: str | None = None,
    tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None,
    tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None,
    read_only: bool = False,
    version: str | None = None,
) -> Any:
    """Turn a function into a tool. Use it as a decorator, with or without arguments::

        @function_tool
        async def refund(ctx: ToolContext[Shop], order: str, cents: int = 0) -> str:
            '''Give money back.

            Args:
                order: The order's number.
                cents: How much; 0 for all of it.
            '''
            return await ctx.context.bank.refund(order, cents, key=ctx.idempotency_key)

    The schema comes from the signature, and from the docstring in Google, NumPy or Sphinx style. A
    first parameter annotated with `RunContextWrapper` or `ToolContext` is not part of the schema.
    An async function runs on the event loop; a sync function runs in a thread with the same context
    variables. After `timeout` seconds an async function is cancelled. A thread cannot be cancelled,
    so its result is ignored. `failure_error_function` returns the text that the model gets after a
    failure. If it is `None`, a failure ends the run. ``strict_mode=False`` allows parameters with
    free keys, such as ``dict``. With `confirmation`, or ``needs_approval=True``, every call needs
    human approval; ``confirmation=True`` means a `Confirmation` with default values.
    `tool_description` is another name for `description_override`. Input guardrails run after the
    approval and before the call. Output guardrails run before the model sees the result. With
    `read_only`, the tool has no effects, so a call of it is never in doubt after an interruption.
    `version` is a text that you change when the tool does something else. By default Ekiden
    compares the code.

    Raises `UserError`, with the reason, if the function cannot be a tool.
    """
    check_argument("`timeout`", Seconds | None, timeout)
    check_argument("`name_override`", str | None, name_override)
    check_argument("`description_override`", str | None, description_override)
    check_argument("`confirmation`", Confirmation | bool, confirmation)
    if not callable(needs_approval):
        check_argument("`needs_approval`", Confirmation | bool, needs_approval)
    check_argument("`tool_description`", str | None, tool_description)
    approval_function = needs_approval if callable(needs_approval) else False
    if not approval_function:
        confirmation = either("confirmation", confirmation, "needs_approval", needs_approval)
    description_override = either(
        "description_override", description_override, "tool_description", tool_description
    )
    approval = Confirmation() if confirmation is True else confirmation or None

    def make(func: Callable[..., Any], local_names: dict[str, Any]) -> FunctionTool:
        params = read_parameters(func, local_names)
        name = checked_name(name_override or _name_of(func), func)
        doc = Documentation()
        if use_docstring_info:
            doc = read_docstring(_docstring_of(func), docstring_style)
        arguments = arguments_of(
            params.named, tool=name, descriptions=doc.parameters, strict=strict_mode
        )
        return FunctionTool(
            name=name,
            description=doc.description if description_override is None else description_override,
            params_json_schema=arguments.json_schema,
            on_invoke_tool=_invoker(func, name, params, arguments.parse),
            strict_json_schema=strict_mode,
            is_enabled=is_enabled,
            timeout_seconds=timeout,
            failure_error_function=failure_error_function,
            confirmation=approval,
            needs_approval=approval_function,
            tool_input_guardrails=tool_input_guardrails,
            tool_output_guardrails=tool_output_guardrails,
            read_only=read_only,
            version=version,
        )

    if func is not None:
        return make(func, sys._getframe(1).f_locals)
    return lambda decorated: make(decorated, sys._getframe(1).f_locals)


def _invoker(
    func: Callable[..., Any],
    name: str,
    params: Parameters,
    parse: Callable[[str], dict[str, Any]],
) -> Callable[[ToolContext[Any], str], Awaitable[Any]]:
    """The tool's `on_invoke_tool`: parses the arguments and calls the function."""
    takes_context = params.context_name is not None

    async def run_by_name(ctx: ToolContext[Any], arguments: str) -> Any:
        if takes_context:
            return await func(ctx, **parse(arguments))
        return await func(**parse(arguments))

    async def run(ctx: ToolContext[Any], arguments: str) -> Any:
        positional, named = params.bind(parse(arguments), tool=name)
        if takes_context:
            positional.insert(0, ctx)
        if params.is_async:
            return await func(*positional, **named)
        return await _in_thread(name, func, positional, named)

    return run_by_name if params.is_async and params.by_name else run


async def _in_thread(
    name: str, func: Callable[..., Any], positional: list[Any], named: dict[str, Any]
) -> Any:
    try:
        result = await in_thread(func, *positional, **named)
    except asyncio.CancelledError:
        if is_being_cancelled():
            _log.warning(
                "tool %r was cancelled; a thread cannot be stopped, so it may continue to run: "
                "make the tool async, or give its calls their own timeout",
                name,
            )
        raise
    return await result if inspect.isawaitable(result) else result


def _name_of(func: Any) -> str:
    func = without_partial(func)
    return getattr(func, "__name__", type(func).__name__)


def _docstring_of(func: Any) -> str | None:
    func = without_partial(func)
    if inspect.isroutine(func):
        return inspect.getdoc(func)
    return inspect.cleandoc(type(func).__call__.__doc__ or type(func).__doc__ or "")


def checked_name(name: str, func: Any) -> str:
    """Return `name` if it is a valid name of a tool. Raises `UserError` otherwise."""
    try:
        check_tool_name(name, "the name of a tool")
    except UserError as exc:
        raise UserError(f"{exc}: give name_override for {func!r}") from None
    return name


# Most tools take texts and numbers, or null. Their JSON Schema is made here, exactly as pydantic
# makes it, so that pydantic is loaded only at the first call. `tools.schema` makes all others.
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def arguments_of(
    params: Sequence[inspect.Parameter],
    *,
    tool: str,
    descriptions: Mapping[str, str],
    strict: bool,
) -> ParameterSchema:
    """The schema of `params`, and its parser. Raises `UserError` if a type has no JSON Schema."""

    @cache
    def read() -> ParameterSchema:
        from ekiden.tools.schema import read_arguments

        return read_arguments(params, tool=tool, descriptions=descriptions, strict=strict)

    if not params or not all(map(_is_plain, params)):
        return read()
    properties = {param.name: _property(param, descriptions.get(param.name)) for param in params}
    schema: dict[str, Any] = {"properties": properties}
    if required := [param.name for param in params if param.default is param.empty]:
        schema["required"] = required
    schema |= {"title": f"{tool}_args", "type": "object"}
    if strict:
        schema = ensure_strict_json_schema(schema)
    return ParameterSchema(json_schema=schema, parse=lambda text: read().parse(text))


def _is_plain(param: inspect.Parameter) -> bool:
    default = param.default
    return (
        _shape(param.annotation) is not None
        and param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY)
        and (default is None or default is param.empty or type(default) in _TYPES)
        and (not isinstance(default, str) or default.isprintable())
    )


def _shape(annotation: Any) -> dict[str, Any] | None:
    """The schema of a plain type, or of a plain type or null; `None` for all other types."""
    if get_origin(annotation) in (Union, UnionType):
        first, *others = get_args(annotation)
        shape = _shape(first) if others == [NoneType] else None
        return None if shape is None else {"anyOf": [shape, {"type": "null"}]}
    found = [name for kind, name in _TYPES.items() if annotation is kind]
    return {"type": found[0]} if found else None


def _property(param: inspect.Parameter, description: str | None) -> dict[str, Any]:
    schema = _shape(param.annotation) or {}
    schema["title"] = param.name.title().replace("_", " ").strip()
    if description:
        schema["description"] = description
    schema = dict(sorted(schema.items()))  # pydantic's order
    if param.default is not param.empty:
        schema["default"] = param.default
    return schema
