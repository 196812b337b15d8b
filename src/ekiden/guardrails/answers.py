"""A guardrail that checks answers with a JSON Schema, and lists violations in bounded time.

The validator decides quickly whether an answer is valid. But its list contains the violations of
every alternative of `anyOf` and `oneOf`, and of the alternatives inside these alternatives. For a
schema that refers to itself, this list grows exponentially with each level. Therefore violations
are listed with a copy of the schema in which each set of alternatives is one check that only passes
or fails. Only the nearest alternative is explained further.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.context import RunContextWrapper
from ekiden.core.guardrails import (
    GuardrailFunctionOutput,
    OnFailure,
    OutputGuardrail,
    RefusalText,
    Violation,
)
from ekiden.guardrails.compile import (
    LISTS,
    NAMED,
    SINGLE,
    VALUE,
    compile_schema,
    full_pointer,
    options,
    pointer,
)

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

_KEYWORD = "ekiden:alternatives"
_NAMED = ("$defs", "definitions", *NAMED)
"""Keywords with schemas by name, including definitions."""
_DEPEND_ON_ALTERNATIVES = ("unevaluatedItems", "unevaluatedProperties")
_MAX_STEPS = 25
"""Maximum nesting of alternatives that are explained."""

_Path: TypeAlias = tuple[str | int, ...]

_MAX_VALUE = 200
_MAX_MESSAGE = 600


def violation_of(error: ValidationError, value: Any, above: Iterable[str | int] = ()) -> Violation:
    """Convert a validator's error to a violation. `value` is the checked part of the answer, and
    `above` is its path."""
    found = shown(at(value, error.instance_path))
    message = error.message[:_MAX_MESSAGE].replace(VALUE, found, 1)
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + "…"
    return Violation(message=message, path=pointer((*above, *error.instance_path)))


def at(value: Any, path: Iterable[str | int]) -> Any:
    """The part of a value at a path."""
    for part in path:
        value = value[part]
    return value


def shown(value: Any) -> str:
    """A shortened text of the value."""
    if isinstance(value, dict):
        return "the object"
    if isinstance(value, list):
        return "the array"
    if isinstance(value, str) and len(value) > _MAX_VALUE:
        return json.dumps(value[:_MAX_VALUE] + "…", ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alternatives:
    keyword: Literal["anyOf", "oneOf"]
    whole: tuple[str, ...]
    """Their places in the schema."""
    flat: tuple[str, ...]
    """Their places in the copy."""


class Explainer:
    """Lists the violations of values that do not match a schema.

    Raises `ValueError` for a schema that cannot be copied, because a `$ref` points into one of its
    alternatives.
    """

    def __init__(self, schema: dict[str, Any] | bool) -> None:
        import jsonschema_rs

        self._all: list[_Alternatives] = []
        flat = self._copy(schema, (), ())
        self._whole = jsonschema_rs.validator_map_for(schema, **options())
        self._flat = jsonschema_rs.validator_map_for(
            flat, **options(), keywords={_KEYWORD: self._keyword()}
        )
        whole = {"#", *(place for each in self._all for place in each.whole)}
        flattened = {"#", *(place for each in self._all for place in each.flat)}
        if not (whole <= set(self._whole.keys()) and flattened <= set(self._flat.keys())):
            raise ValueError("the schema refers to places that the copy does not have")

    def first(self, value: Any) -> Violation | None:
        """The first violation."""
        from jsonschema_rs import ValidationError

        try:
            self._flat["#"].validate(value)
        except ValidationError as exc:
            number = _number(exc)
            if number is None:
                return violation_of(exc, value)
            inner = at(value, exc.instance_path)
            return self._misfit(self._all[number], inner, tuple(exc.instance_path))
        return None

    def violations(self, value: Any) -> Iterator[Violation]:
        """All violations, in the validator's order."""
        return self._explain("#", value, (), 0)

    def _explain(self, place: str, value: Any, above: _Path, step: int) -> Iterator[Violation]:
        for error in self._flat[place].iter_errors(value):
            number = _number(error)
            if number is None:
                yield violation_of(error, value, above)
                continue
            path = (*above, *error.instance_path)
            inner = at(value, error.instance_path)
            alternatives = self._all[number]
            yield self._misfit(alternatives, inner, path)
            if step < _MAX_STEPS and not self._fitting(alternatives, inner):
                nearest = min(alternatives.flat, key=lambda each: self._distance(each, inner))
                yield from self._explain(nearest, inner, path, step + 1)

    def _misfit(self, alternatives: _Alternatives, value: Any, path: _Path) -> Violation:
        count, fitting = len(alternatives.whole), self._fitting(alternatives, value)
        how = f"{fitting} of the {count} alternatives of `oneOf`, and must fit one"
        if not fitting:
            how = f"none of the {count} alternatives of `{alternatives.keyword}`"
        return Violation(message=f"{shown(value)} fits {how}", path=pointer(path))

    def _fitting(self, alternatives: _Alternatives, value: Any) -> int:
        return sum(self._whole[place].is_valid(value) for place in alternatives.whole)

    def _distance(self, place: str, value: Any) -> tuple[bool, bool, int]:
        """How far a value is from an alternative: another type, another constant, other errors."""
        errors = list(self._flat[place].iter_errors(value))
        return (
            any(each.kind.name == "type" and not each.instance_path for each in errors),
            any(each.kind.name in ("const", "enum") for each in errors),
            len(errors),
        )

    def _keyword(self) -> type[Any]:
        explainer = self

        class Keyword:
            def __init__(self, parent: Any, value: int, path: list[str | int]) -> None:
                self.number = value

            def validate(self, instance: Any) -> None:
                alternatives = explainer._all[self.number]
                fitting = explainer._fitting(alternatives, instance)
                if not fitting or (fitting > 1 and alternatives.keyword == "oneOf"):
                    raise ValueError(str(self.number))

        return Keyword

    def _copy(self, schema: Any, whole: _Path, flat: _Path) -> Any:
        """The copy of the schema at `whole`, for the place `flat` in the copy.

        In the copy, alternatives are a keyword of ours; keywords that depend on them are left out.
        """
        if not isinstance(schema, dict):
            return schema
        made: dict[str, Any] = {}
        checks: list[dict[str, int]] = []
        for key, value in schema.items():
            inside, copied = (*whole, key), (*flat, key)
            if key in _NAMED and isinstance(value, dict):
                named = {
                    name: self._copy(each, (*inside, name), (*copied, name))
                    for name, each in value.items()
                }
                made[key] = {**made.get(key, {}), **named}
            elif key in ("anyOf", "oneOf"):
                named = self._alternatives(key, value, whole, flat)
                made["$defs"] = {**made.get("$defs", {}), **named}
                checks.append({_KEYWORD: len(self._all) - 1})
            elif key in LISTS and isinstance(value, list):
                made[key] = [
                    self._copy(each, (*inside, n), (*copied, n)) for n, each in enumerate(value)
                ]
            elif key in SINGLE:
                if key not in _DEPEND_ON_ALTERNATIVES:
                    made[key] = self._copy(value, inside, copied)
            else:
                made[key] = value
        if checks:
            made["allOf"] = [*made.get("allOf", []), *checks]
        return made

    def _alternatives(
        self, key: Literal["anyOf", "oneOf"], branches: list[Any], whole: _Path, flat: _Path
    ) -> dict[str, Any]:
        """Copies of the alternatives by name; appends them to `_all`."""
        copies: dict[str, Any] = {}
        for n, each in enumerate(branches):
            name = f"ekiden:{key}:{n}"
            copies[name] = self._copy(each, (*whole, key, n), (*flat, "$defs", name))
        self._all.append(
            _Alternatives(
                keyword=key,
                whole=tuple(_place((*whole, key, n)) for n in range(len(branches))),
                flat=tuple(_place((*flat, "$defs", name)) for name in copies),
            )
        )
        return copies


def _place(path: _Path) -> str:
    return f"#{full_pointer(path)}"


def _number(error: Any) -> int | None:
    """The position in `_all` of the alternatives that an error is about, if it is about any."""
    if getattr(error.kind, "keyword", None) != _KEYWORD:
        return None
    return int(error.message)


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
    """Return the answer's JSON value. Raises `NotJson`.

    A text is parsed as JSON, which may be in one fenced code block. With `is_text`, a text is the
    value itself. Other values are converted to JSON. For example, dataclasses and Pydantic models
    become objects, and dates become texts.
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

    This call compiles the schema. Equal schemas are compiled only once. A `$ref` can only point
    into the schema itself, because no schema is downloaded. Raises `SchemaUnusable` with the
    position of the error, and `GuardrailUnusable` if the extra ``guardrails`` is not installed.
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

    try:
        return Explainer(json.loads(text))
    except (LookupError, TypeError, ValueError):
        return None
