"""Reads the signature and the docstring of a function."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import field
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ModelBehaviorError, UserError

_CONTEXT_NAMES = {"RunContextWrapper": RunContextWrapper, "ToolContext": ToolContext}
"""Resolved even if a module imports them under `TYPE_CHECKING`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of a function, in order."""

    named: tuple[inspect.Parameter, ...]
    """All parameters except the context. Their annotations are types, never text."""
    context_name: str | None
    """The name of the first parameter, if it takes the context."""
    is_async: bool
    by_name: bool
    """Whether every argument can be passed by its name."""

    def bind(self, arguments: dict[str, Any], *, tool: str) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the keyword arguments of a call. This method changes
        `arguments`.

        Raises `ModelBehaviorError` if an argument for ``**kwargs`` repeats a parameter.
        """
        positional: list[Any] = []
        if self.by_name:
            return positional, arguments
        extra: dict[str, Any] = {}
        for param in self.named:
            if param.kind is param.VAR_POSITIONAL:
                positional.extend(arguments.pop(param.name, ()))
            elif param.kind is param.VAR_KEYWORD:
                extra = arguments.pop(param.name, {})
            elif param.kind is not param.KEYWORD_ONLY:
                positional.append(arguments.pop(param.name, param.default))
        names = [param.name for param in self.named if param.kind not in _BESIDE_KEYWORDS]
        for taken in (self.context_name, *names):
            if taken in extra:
                raise ModelBehaviorError(bad_arguments(tool, f"{taken!r} is given twice"))
        return positional, arguments | extra


_BESIDE_KEYWORDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)
"""Kinds of parameters whose names can also be keys of ``**kwargs``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSchema:
    """The schema of the arguments, and its parser."""

    json_schema: dict[str, Any]
    parse: Callable[[str], dict[str, Any]]
    """A function that converts JSON text to arguments by name. Missing arguments keep the
    function's defaults. Raises `ModelBehaviorError` with a message for the model."""


def bad_arguments(tool: str, problems: str) -> str:
    """The message for the model if its arguments are invalid."""
    return (
        f"the arguments of tool {tool!r} do not fit: {problems}. "
        "The tool was not run: correct the arguments and call it again"
    )


def read_parameters(func: Callable[..., Any], local_names: Mapping[str, Any]) -> Parameters:
    """The parameters of a function, bound method, `functools.partial` or object with ``__call__``.

    `local_names` are the local variables at the place where the tool is made. They resolve
    annotations that are text. The model neither sees nor sets arguments that a partial has bound.
    Raises `UserError` if `func` cannot be a tool.
    """
    if inspect.isclass(func) or not callable(func):
        raise UserError(f"a tool is made from a function, not from {_label(func)}")
    target = _target(func)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise UserError(
            f"{_label(func)} is a generator: a tool returns one result, so collect what it yields "
            "and return that"
        )
    fixed = func.keywords if isinstance(func, functools.partial) else {}
    try:
        signature = inspect.signature(func)
    except ValueError as exc:
        raise UserError(f"{_label(func)} has no readable signature: wrap it in a def") from exc
    hints = _type_hints(target, local_names)
    named = [
        param.replace(annotation=hints.get(param.name, Any))
        for param in signature.parameters.values()
        if param.name not in fixed
    ]
    if named and named[0].name in ("self", "cls") and named[0].name not in hints:
        raise UserError(
            f"{_label(func)} is a method without its object: make the tool from the bound method, "
            f"as in function_tool(obj.{target.__name__})"
        )
    context_name = None
    if named and _is_context(named[0].annotation):
        context_name = named.pop(0).name
    for param in named:
        if _is_context(param.annotation):
            raise UserError(
                f"{_label(func)} takes the context as {param.name!r}: make it the first parameter"
            )
    return Parameters(
        named=tuple(named),
        context_name=context_name,
        is_async=inspect.iscoroutinefunction(target),
        by_name=not any(param.kind in _BESIDE_KEYWORDS for param in named),
    )


def without_partial(func: Any) -> Any:
    """The function inside `functools.partial` objects."""
    while isinstance(func, functools.partial):
        func = func.func
    return func


def _target(func: Any) -> Any:
    """The plain function that has the annotations and decides whether a call is async."""
    func = without_partial(func)
    return func if inspect.isroutine(func) else type(func).__call__


def _type_hints(target: Any, local_names: Mapping[str, Any]) -> dict[str, Any]:
    wrapped = inspect.unwrap(target)
    wanted = SimpleNamespace(
        __annotations__={
            name: hint
            for name, hint in getattr(target, "__annotations__", {}).items()
            if name != "return"
        }
    )
    namespace = getattr(wrapped, "__globals__", {})
    try:
        return typing.get_type_hints(wanted, namespace, include_extras=True)
    except NameError:
        pass
    try:
        return typing.get_type_hints(
            wanted, {**_CONTEXT_NAMES, **namespace}, dict(local_names), include_extras=True
        )
    except NameError as exc:
        raise UserError(
            f"the annotations of {_label(target)} cannot be read: {exc}; import the name at run "
            "time, not only for type checkers"
        ) from exc


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, RunContextWrapper)


def _label(func: Any) -> str:
    return getattr(func, "__qualname__", None) or repr(func)


DocstringStyle: TypeAlias = Literal["google", "numpy", "sphinx"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """The parts of a docstring for the model."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The descriptions of parameters, by name. The names ``*args`` and ``**kwargs`` are without
    stars."""


def read_docstring(text: str | None, style: DocstringStyle | None = None) -> Documentation:
    """Parse a docstring from `inspect.getdoc`. Without `style`, the style is detected.

    A docstring without a known style is used as the description.
    """
    if not text or ("\n" not in text and ":" not in text):
        return Documentation(description=text or "")
    import docstring_parser as parser

    styles = {
        "google": parser.DocstringStyle.GOOGLE,
        "numpy": parser.DocstringStyle.NUMPYDOC,
        "sphinx": parser.DocstringStyle.REST,
        None: parser.DocstringStyle.AUTO,
    }
    try:
        # The parser cleans again. The line break keeps the indentation after the first line.
        parsed = parser.parse("\n" + text, styles[style])
    except parser.ParseError:
        return Documentation(description=text)
    described = {
        name.strip().lstrip("*"): param.description
        for param in parsed.params
        if param.description
        for name in param.arg_name.split(",")
    }
    return Documentation(description=(parsed.description or "").strip(), parameters=described)
