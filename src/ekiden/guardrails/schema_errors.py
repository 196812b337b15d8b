"""Lists the violations of an answer in bounded time.

The validator decides quickly whether an answer is valid. To list violations, it lists those of
every alternative of `anyOf` and `oneOf`, and again of the alternatives inside: for a schema that
refers to itself this grows exponentially with each level. Therefore violations are listed with a
copy of the schema in which alternatives are one check that only says yes or no. Only the nearest
alternative is explained further.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.guardrails import Violation
from ekiden.guardrails.compile import LISTS, NAMED, SINGLE, VALUE, full_pointer, options, pointer

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

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
    """The violation of a validator's error in `value`, which is at the place `above`."""
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
    """The value, shortened."""
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

    Raises `ValueError` for a schema that cannot be copied because it refers into its alternatives.
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
