"""Values of a document that anybody may have written: each is of its kind, or refused by place."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ekiden.core.errors import EkidenError
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.core.usage import Usage

MAX_NAME = 500
_LAST_US = 10**17
_MOST = 2**53


def mapping(value: Any, place: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise SessionImportInvalid(place, "it is missing" if value is None else "it is no object")
    return value


def objects(value: Any, place: str) -> list[dict[str, Any]]:
    """A list of objects."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise SessionImportInvalid(place, "it is not a list of objects")
    return value


def texts(value: Any, place: str) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SessionImportInvalid(place, "it is not a list of texts")
    return value


def text(value: Any, place: str) -> str:
    """A text that may be a name."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise SessionImportInvalid(place, f"it is not a text of 1 to {MAX_NAME} characters")
    return value


def text_or_none(value: Any, place: str, *, longest: int | None = None) -> str | None:
    """A text, if there is one."""
    if value is not None and (
        not isinstance(value, str) or (longest is not None and len(value) > longest)
    ):
        raise SessionImportInvalid(place, "it is not a text")
    return value


def whole(value: Any, place: str) -> int:
    """A whole number."""
    if type(value) is not int:
        raise SessionImportInvalid(place, "it is not a whole number")
    return value


def count(value: Any, place: str) -> int:
    """A whole number from 0 on."""
    if not 0 <= whole(value, place) < _MOST:
        raise SessionImportInvalid(place, "it is not a count")
    return int(value)


def amount(value: Any, place: str) -> float:
    """Something that was spent or may be: finite, and not negative."""
    if type(value) not in (int, float) or not isfinite(value) or not 0 <= value < _MOST:
        raise SessionImportInvalid(place, "it is not an amount: a finite number from 0 on")
    return float(value)


def amounts(value: Any, place: str) -> None:
    """An object of amounts."""
    for name, each in mapping(value, place).items():
        amount(each, f"{place}.{name}")


def usage(value: Any, place: str) -> None:
    """What models used: counts, and a cost."""
    amounts(value, place)
    try:
        Usage.from_json(value)
    except TypeError as exc:
        raise SessionImportInvalid(place, "it is not what models use") from exc


def micros(value: Any, factor: float, place: str) -> int:
    """A time or a duration, in microseconds."""
    if type(value) not in (int, float) or not isfinite(value):
        raise SessionImportInvalid(place, "it is not a number")
    found: int = round(value * factor)
    if not 0 <= found < _LAST_US:
        raise SessionImportInvalid(place, "it is no time")
    return found


def findings(value: Any, place: str) -> None:
    """What guardrails found."""
    for number, each in enumerate(objects(value, place)):
        finding(each, f"{place}[{number}]")


def finding(value: dict[str, Any], place: str) -> None:
    """What one guardrail found, or what one of a tool decided."""
    for name in ("type", "guardrail", "behavior"):
        text(value.get(name), f"{place}.{name}")
    text_or_none(value.get("result"), f"{place}.result")
    text_or_none(value.get("message"), f"{place}.message")
    for number, each in enumerate(objects(value.get("violations", []), f"{place}.violations")):
        for name in ("message", "path"):
            if not isinstance(each.get(name), str):
                raise SessionImportInvalid(
                    f"{place}.violations[{number}].{name}", "it is not a text"
                )


def read_by(reader: Any, value: Any, place: str) -> Any:
    """What `reader` makes of the value."""
    try:
        return reader(value)
    except (EkidenError, KeyError, TypeError, ValueError, AttributeError) as exc:
        raise SessionImportInvalid(place, f"it cannot be read ({type(exc).__name__})") from exc
