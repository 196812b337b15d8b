"""A function's signature and docstring as a JSON Schema, and its arguments read from JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.core.context import RunContextWrapper
from ekiden.tools.signature import read_docstring, without_partial

DocstringStyle: TypeAlias = Literal["google", "numpy", "sphinx"]
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass
class FuncSchema:
    """What a model is told to give for a call of a function, and how it is read."""

    name: str
    description: str | None
    params_pydantic_model: type[BaseModel]
    params_json_schema: dict[str, Any]
    signature: inspect.Signature
    takes_context: bool = False
    strict_json_schema: bool = True

    def to_call_args(self, data: BaseModel) -> tuple[list[Any], dict[str, Any]]:
        """Validated data as the positional and keyword arguments of a call."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        is_after_args = False
        params = list(self.signature.parameters.values())[1 if self.takes_context else 0 :]
        for param in params:
            value = data.__dict__.get(param.name)
            if param.kind is param.VAR_POSITIONAL:
                positional.extend(value or [])
                is_after_args = True
            elif param.kind is param.VAR_KEYWORD:
                self._check_free(value or {})
                named.update(value or {})
            elif param.kind in _POSITIONAL and not is_after_args:
                positional.append(value)
            else:
                named[param.name] = value
        return positional, named

    def _check_free(self, given: dict[str, Any]) -> None:
        for param in self.signature.parameters.values():
            if param.name in given and param.kind in _BY_NAME:
                raise ModelBehaviorError(
                    f"Invalid input for tool {self.name}: {param.name!r} is given twice"
                )


@dataclass
class FuncDocumentation:
    """What a docstring says of a function."""

    name: str
    description: str | None
    param_descriptions: dict[str, str] | None


def generate_func_documentation(
    func: Callable[..., Any], style: DocstringStyle | None = None
) -> FuncDocumentation:
    """Take the docstring apart; without `style` it is found out which one it is."""
    name = getattr(func, "__name__", type(func).__name__)
    text = inspect.getdoc(func)
    if not text:
        return FuncDocumentation(name, None, None)
    found = read_docstring(text, style)
    return FuncDocumentation(name, found.description or None, dict(found.parameters) or None)


def function_schema(
    func: Callable[..., Any],
    docstring_style: DocstringStyle | None = None,
    name_override: str | None = None,
    description_override: str | None = None,
    use_docstring_info: bool = True,
    strict_json_schema: bool = True,
) -> FuncSchema:
    """The schema of a function; a first parameter that is the context is no part of it."""
    plain = without_partial(func)
    doc = generate_func_documentation(plain, docstring_style) if use_docstring_info else None
    name = str(name_override or getattr(plain, "__name__", type(plain).__name__))
    signature = inspect.signature(func)
    hints = _hints(plain)
    params = list(signature.parameters.values())
    takes_context = bool(params) and _is_context(hints.get(params[0].name, params[0].annotation))
    for param in params[1:]:
        if _is_context(hints.get(param.name, param.annotation)):
            raise UserError(
                "RunContextWrapper/ToolContext param found at non-first position in function "
                f"{name}"
            )
    described = (doc.param_descriptions if doc else None) or {}
    fields = {
        param.name: _field(param, hints.get(param.name, param.annotation), described, name)
        for param in params[1 if takes_context else 0 :]
    }
    model = create_model(f"{name}_args", __base__=BaseModel, **fields)  # type: ignore[call-overload]
    schema = model.model_json_schema()
    if strict_json_schema:
        schema = ensure_strict_json_schema(schema)
    return FuncSchema(
        name=name,
        description=description_override or (doc.description if doc else None),
        params_pydantic_model=model,
        params_json_schema=schema,
        signature=signature,
        takes_context=takes_context,
        strict_json_schema=strict_json_schema,
    )


def _hints(func: Any) -> dict[str, Any]:
    target = func if inspect.isroutine(func) else type(func).__call__
    return get_type_hints(target, include_extras=True)


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, RunContextWrapper)


def _field(
    param: inspect.Parameter, kind: Any, described: dict[str, str], function: str
) -> tuple[Any, Any]:
    """Type and field of a parameter, as `create_model` takes them."""
    if kind is param.empty:
        kind = Any
    about = described.get(param.name)
    if about is None and get_origin(kind) is Annotated:
        about = next((part for part in get_args(kind)[1:] if isinstance(part, str)), None)
    more: dict[str, Any] = {} if about is None else {"description": about}
    if param.kind is param.VAR_POSITIONAL:
        _check_each(kind, function)
        return list[kind], Field(default_factory=list, **more)
    if param.kind is param.VAR_KEYWORD:
        return dict[str, kind], Field(default_factory=dict, **more)
    default = param.default
    if isinstance(default, FieldInfo):
        return kind, FieldInfo.merge_field_infos(default, **more) if more else default
    return kind, Field(... if default is param.empty else default, **more)


def _check_each(kind: Any, function: str) -> None:
    """`UserError` for a type of ``*args`` that cannot be that of each argument."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    args = get_args(kind)
    if get_origin(kind) is tuple and not (len(args) == 2 and args[1] is Ellipsis):
        raise UserError(
            f"*args of {function} is annotated with a tuple of a fixed length, which cannot be the "
            "type of each argument: use tuple[T, ...] or list[T] instead"
        )
