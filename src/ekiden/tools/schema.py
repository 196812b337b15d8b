"""The JSON Schema of a tool's arguments, and the validator that reads them from JSON text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.tools.tool import ensure_strict_json_schema
from ekiden.tools.signature import ParameterSchema, bad_arguments

_typed_dict: Any = TypedDict
"""Type checkers reject `TypedDict`s that are made at run time."""

_MAX_PROBLEMS = 8
_MAX_TEXT = 300


def read_arguments(
    params: Sequence[inspect.Parameter],
    *,
    tool: str,
    descriptions: Mapping[str, str],
    strict: bool,
) -> ParameterSchema:
    """The schema of `params`, and its parser. Raises `UserError` if a type has no JSON Schema."""
    fields = {param.name: _field(param, descriptions.get(param.name)) for param in params}
    shape: Any = _typed_dict(f"{tool}_args", fields)
    shape.__pydantic_config__ = ConfigDict(extra="ignore")
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticUserError, SchemaError) as exc:
        raise UserError(
            f"tool {tool!r} has a parameter whose type has no JSON Schema: {exc}"
        ) from exc
    for param in params:
        _add_default(schema["properties"], param)
    if strict:
        try:
            schema = ensure_strict_json_schema(schema)
        except UserError as exc:
            raise UserError(f"tool {tool!r}: {exc} (strict_mode=False)") from exc
    return ParameterSchema(json_schema=schema, parse=_parser(tool, adapter))


def _field(param: inspect.Parameter, description: str | None) -> Any:
    """The parameter as a field of a `TypedDict`; a description in its type wins."""
    kind: Any = param.annotation
    texts = [text for text in _metadata(kind) if isinstance(text, str)]
    if param.kind is param.VAR_POSITIONAL:
        kind = list[kind]
    elif param.kind is param.VAR_KEYWORD:
        kind = dict[str, kind]
    described = texts[0] if texts else description
    if described and not any(
        isinstance(info, FieldInfo) and info.description
        for info in (*_metadata(kind), param.default)
    ):
        kind = Annotated[kind, Field(description=described)]
    if isinstance(param.default, FieldInfo):
        kind = Annotated[kind, param.default]
        optional = not param.default.is_required()
    else:
        optional = param.default is not param.empty or param.kind in _VARIADIC
    return NotRequired[kind] if optional else kind


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _metadata(kind: Any) -> tuple[Any, ...]:
    return get_args(kind)[1:] if get_origin(kind) is Annotated else ()


def _add_default(properties: dict[str, Any], param: inspect.Parameter) -> None:
    """Show the function's default to the model, if JSON can express it."""
    shown = properties.get(param.name)
    if shown is None or param.default is param.empty or isinstance(param.default, FieldInfo):
        return
    try:
        shown.setdefault("default", to_jsonable_python(param.default))
    except PydanticSerializationError:
        return


def _parser(tool: str, adapter: TypeAdapter[dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    validate = adapter.validator.validate_json

    def parse(text: str) -> dict[str, Any]:
        try:
            arguments: dict[str, Any] = validate(_NOTHING.get(text, text))
        except ValidationError as exc:
            raise ModelBehaviorError(_explain(tool, exc)) from exc
        return arguments

    return parse


_NOTHING = {"": "{}", "null": "{}"}
"""The arguments that some models send to a tool without arguments."""


def _explain(tool: str, error: ValidationError) -> str:
    """The problems with their places, without the input, which may be megabytes."""
    problems = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(map(str, problem["loc"]))
        text = f"{place}: {problem['msg']}" if place else problem["msg"]
        problems.append(text[:_MAX_TEXT])
    more = len(problems) - _MAX_PROBLEMS
    listed = "; ".join(problems[:_MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    return bad_arguments(tool, listed)
