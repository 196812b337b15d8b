"""What a validator found, in words that a model can use."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ekiden.core.guardrails import Violation
from ekiden.guardrails.compiling import VALUE
from ekiden.guardrails.pointers import pointer

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MAX_VALUE = 200
_MAX_MESSAGE = 600


def told(error: ValidationError, value: Any, above: Iterable[str | int] = ()) -> Violation:
    """The violation that the validator found in `value`, whose own place is `above`."""
    found = shown(at(value, error.instance_path))
    message = error.message[:_MAX_MESSAGE].replace(VALUE, found, 1)
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + "…"
    return Violation(message=message, path=pointer((*above, *error.instance_path)))


def at(value: Any, path: Iterable[str | int]) -> Any:
    """What of the value is at the place."""
    for part in path:
        value = value[part]
    return value


def shown(value: Any) -> str:
    """The value, shortened."""
    if isinstance(value, dict):
        return "the object"
    if isinstance(value, list):
        return "the array"
    if isinstance(value, str) and len(value) > _MAX_VALUE:
        return json.dumps(value[:_MAX_VALUE] + "…", ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)
