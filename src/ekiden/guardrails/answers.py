"""An agent's answer as JSON: what is not is one violation, never an exception."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from ekiden.core.guardrails import Violation

MAX_CHARACTERS = 2_000_000
"""Of an answer; more would keep everybody else waiting while it is read."""

_FENCE = "```"


class NotJson(Exception):
    """The answer is not JSON; `violation` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.violation = Violation(message=message)


def read_answer(output: Any, *, is_text: bool) -> Any:
    """The answer's JSON value; `NotJson` if it has none.

    A text is read as JSON, also one that is nothing but a single fenced block of JSON: a model
    that writes one means its content, and there is no doubt which. With `is_text` a text is the
    value itself. Everything else is what it becomes as JSON: dataclasses and Pydantic models are
    objects, dates texts.
    """
    if isinstance(output, str):
        _check_length(len(output))
        if is_text:
            return output
        return _parsed(_without_fence(output.strip()))
    return _parsed(_written(output))


def _check_length(length: int) -> None:
    if length > MAX_CHARACTERS:
        raise NotJson(
            f"the answer has {length:,} characters, more than the {MAX_CHARACTERS:,} that are "
            "checked"
        )


def _written(output: Any) -> str:
    """JSON text of an object."""
    from pydantic_core import to_json

    try:
        text = to_json(output, inf_nan_mode="constants").decode()
    except Exception as exc:
        raise NotJson(f"the answer cannot be written as JSON: {str(exc)[:200]}") from None
    _check_length(len(text))
    return text


def _without_fence(text: str) -> str:
    """What is in the one fenced block that the text is; else the text."""
    if not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return text
    first, newline, rest = text.partition("\n")
    is_json = first.removeprefix(_FENCE).strip().lower() in ("", "json")
    if not newline or not is_json or not rest[: -len(_FENCE)].endswith("\n"):
        return text
    return rest[: -len(_FENCE)].strip()


def _parsed(text: str) -> Any:
    if not text:
        raise NotJson("the answer is empty; JSON is wanted")
    try:
        return _DECODER.decode(text)
    except _Refused as exc:
        raise NotJson(f"the answer is not JSON: {exc}") from None
    except json.JSONDecodeError as exc:
        raise NotJson(
            f"the answer is not JSON: {exc.msg} (line {exc.lineno}, column {exc.colno}); answer "
            "with the JSON alone"
        ) from None
    except RecursionError:
        raise NotJson("the answer is not usable JSON: it is nested too deep") from None
    except ValueError:
        raise NotJson("the answer is not usable JSON: a number has too many digits") from None


class _Refused(Exception):
    """What Python reads as JSON, and others do not, or not the same."""


def _constant(name: str) -> Any:
    raise _Refused(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"the number {text[:40]} is too large")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _Refused(f"an object has the key {twice[:80]!r} twice")
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite
)
