"""A guardrail that checks answers with a JSON Schema."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from ekiden.core.context import RunContextWrapper
from ekiden.core.guardrails import (
    GuardrailFunctionOutput,
    OnFailure,
    OutputGuardrail,
    RefusalText,
    Violation,
)
from ekiden.guardrails.compile import compile_schema

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

    from ekiden.guardrails.schema_errors import Explainer

MAX_VIOLATIONS = 50
"""Maximum number of reported violations."""

_MAX_LISTED = 5_000
"""For an answer with more values only the first violation is reported: the validator finds either
one or all, and all can take seconds."""
_EXPLAINED = 256
"""Maximum number of cached explainers."""
_MISFIT = Violation(message="the answer does not fit the schema")

MAX_CHARACTERS = 2_000_000
"""Maximum length of an answer, because parsing blocks the event loop."""

_FENCE = "```"


class NotJson(Exception):
    """The answer is not JSON; `violation` has the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.violation = Violation(message=message)


def read_answer(output: Any, *, is_text: bool) -> Any:
    """The answer's JSON value. Raises `NotJson`.

    A text is parsed as JSON; it may also be one fenced code block. With `is_text` a text is the
    value itself. Other values are converted to JSON: dataclasses and Pydantic models become
    objects, dates become texts.
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
    from pydantic_core import to_json

    try:
        text = to_json(output, inf_nan_mode="constants").decode()
    except Exception as exc:
        raise NotJson(f"the answer cannot be written as JSON: {str(exc)[:200]}") from None
    _check_length(len(text))
    return text


def _without_fence(text: str) -> str:
    """The content of the fenced block if the text is one, otherwise the text."""
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
    """JSON that Python accepts, but other parsers reject or read differently."""


def _constant(name: str) -> Any:
    raise _Refused(f"{name} is not a number")


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


def schema_guardrail(
    schema: Mapping[str, Any] | bool,
    *,
    on_failure: OnFailure = "reject",
    tries: int = 2,
    name: str | None = None,
) -> OutputGuardrail[Any]:
    """A guardrail that accepts only answers that fit a JSON Schema (2020-12).

    For example::

        invoice = {"type": "object", "required": ["total"], "properties": {"total": {"minimum": 0}}}
        clerk = Agent("clerk", output_guardrails=[schema_guardrail(invoice, on_failure="repair")])

    A text answer is parsed as JSON. A text that is one fenced code block is accepted, but the fence
    stays in the answer. If the schema's `type` is ``string``, the text itself is checked. A refusal
    of the model is not checked. The keyword `format` of the schema is enforced. The guardrail
    reports at most `MAX_VIOLATIONS` violations, each with a JSON Pointer. For a very large answer
    it reports only the first violation.

    This call compiles the schema; equal schemas are compiled only once. A `$ref` can only point
    into the schema itself, because no schema is downloaded. Raises `SchemaUnusable` with the place
    of the error, and `GuardrailUnusable` without the extra ``guardrails``.
    """
    validator, text = compile_schema(schema)
    is_text = isinstance(schema, Mapping) and schema.get("type") == "string"

    def fits_schema(
        ctx: RunContextWrapper[Any], agent: Any, output: Any
    ) -> GuardrailFunctionOutput:
        if isinstance(output, RefusalText):
            return GuardrailFunctionOutput()
        violations = tuple(_violations(validator, text, output, is_text=is_text))
        return GuardrailFunctionOutput(tripwire_triggered=bool(violations), violations=violations)

    return OutputGuardrail(fits_schema, name or "output_schema", on_failure, tries)


def _violations(
    validator: Draft202012Validator, text: str, output: Any, *, is_text: bool
) -> list[Violation]:
    try:
        value = read_answer(output, is_text=is_text)
    except NotJson as exc:
        return [exc.violation]
    try:
        if validator.is_valid(value):
            return []
        explainer = _explainer(text)
        if explainer is None:
            return [_MISFIT]
        if _is_large(value):
            return _first(explainer, value)
        return _listed(explainer.violations(value))
    except UnicodeEncodeError:
        return [Violation(message="a text has half a character (a lone surrogate)")]
    except ValueError:
        return [Violation(message="the answer is nested too deep to be checked")]


def _is_large(value: Any) -> bool:
    seen, waiting = 0, [iter((value,))]
    while waiting:
        for each in waiting[-1]:
            seen += 1
            if seen > _MAX_LISTED:
                return True
            if isinstance(each, dict):
                waiting.append(iter(each.values()))
                break
            if isinstance(each, list):
                waiting.append(iter(each))
                break
        else:
            waiting.pop()
    return False


def _first(explainer: Explainer, value: Any) -> list[Violation]:
    found = explainer.first(value)
    more = Violation(
        message="there may be more: for such a large answer only the first is reported"
    )
    return [_MISFIT if found is None else found, more]


def _listed(found: Iterator[Violation]) -> list[Violation]:
    violations = list(islice(found, MAX_VIOLATIONS))
    if next(found, None) is not None:
        violations.append(
            Violation(message=f"and more: only the first {MAX_VIOLATIONS} are reported")
        )
    return violations or [_MISFIT]


@lru_cache(maxsize=_EXPLAINED)
def _explainer(text: str) -> Explainer | None:
    """The explainer of a schema; `None` for a schema that cannot be explained, which is rare."""
    from ekiden.guardrails.schema_errors import Explainer

    try:
        return Explainer(json.loads(text))
    except (LookupError, TypeError, ValueError):
        return None
