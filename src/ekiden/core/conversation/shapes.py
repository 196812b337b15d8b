"""Checks the shapes of values in untrusted documents with pydantic.

Import this module inside a function, or from a module that is imported inside a function: pydantic
is slow to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Required, TypeAlias, TypeVar

from annotated_types import Ge, Lt
from pydantic import AfterValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import EkidenError
from ekiden.core.errors.stored_data import SessionImportInvalid

T = TypeVar("T")

_MOST = 2**53
_LONGEST = 500


def _at_most(value: str) -> str:
    # The `max_length` of pydantic refuses lone surrogates, which names may have.
    if len(value) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    return value


def _not_empty(value: str) -> str:
    if not value:
        raise ValueError("it is empty")
    return _at_most(value)


Name: TypeAlias = Annotated[str, AfterValidator(_not_empty)]
Key: TypeAlias = Annotated[str, AfterValidator(_at_most)]
Count: TypeAlias = Annotated[int, Ge(0), Lt(_MOST)]
Amount: TypeAlias = Annotated[float, Ge(0), Lt(_MOST)]
"""An amount spent or allowed: finite, and not negative."""
Amounts: TypeAlias = dict[str, Amount]
Object: TypeAlias = dict[str, Any]


def _is_usage(value: Object) -> Object:
    try:
        Usage.from_json(value)
    except TypeError as exc:
        raise ValueError("it is not what models use") from exc
    return value


Used: TypeAlias = Annotated[Amounts, AfterValidator(_is_usage)]
"""The usage of models: counts, and a cost."""


def shape(name: str, fields: Mapping[str, Any]) -> Any:
    """Return a `TypedDict` with these fields. Use this function for computed names, and for names
    that are not Python names."""
    return TypedDict(name, dict(fields), total=False)  # type: ignore[operator]


_WORDS: Final[Mapping[str, str]] = {
    "missing": "it is missing",
    "string_type": "it is not a text",
    "dict_type": "it is not an object",
    "list_type": "it is not a list",
    "int_type": "it is not a whole number",
    "float_type": "it is not a number",
    "finite_number": "it is not a finite number",
}
"""The message for each error type of pydantic."""


def check(kind: Any, value: Any, place: str) -> Any:
    """Return `value` unchanged. Raises `SessionImportInvalid`, with the position of the error, if
    `value` does not have the shape."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_input=False)[0]
        at = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in found["loc"])
        message = found["msg"].removeprefix("Value error, ")
        words = _WORDS.get(found["type"]) or f"{message[:1].lower()}{message[1:200]}"
        raise SessionImportInvalid(f"{place}{at}".lstrip("."), words) from exc
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_by(reader: Callable[[Any], T], value: Any, place: str) -> T:
    """Return `reader(value)`. Raises `SessionImportInvalid`, with the position of the error, if
    `reader` fails."""
    try:
        return reader(value)
    except (EkidenError, KeyError, TypeError, ValueError, AttributeError) as exc:
        raise SessionImportInvalid(place, f"it cannot be read ({type(exc).__name__})") from exc


class ViolationShape(TypedDict):
    """A violation of a schema."""

    message: str
    path: str


class FindingShape(TypedDict, total=False):
    """The result of a guardrail."""

    type: Required[Name]
    guardrail: Required[Name]
    behavior: Required[Name]
    result: str | None
    message: str | None
    violations: list[ViolationShape]


Received: Any = shape(
    "Received", {"from": Required[Name], "reason": str | None, "summary": str | None}
)
"""The content of a handoff to an agent."""


class RouteShape(TypedDict, total=False):
    """The cause of a routing decision."""

    cause: Required[Name]
    options: Object | None
