"""From a JSON Schema to something that checks with it, compiled once.

A schema may come from anybody who can write an agent file, so nothing of it is fetched, its
patterns take time in proportion to the text, and how large and deep it may be has a limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ekiden.core.values import dumps
from ekiden.guardrails.errors import GuardrailUnusable, SchemaUnusable
from ekiden.guardrails.expansion import expansion
from ekiden.guardrails.pointers import pointer

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

VALUE = "\x00"
"""Stands for the checked value in the validator's messages: it may be secret, or huge."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAX_DEPTH = 100
_MAX_VALUES = 20_000
_MAX_CHARACTERS = 500_000
_MAX_EXPANDED = 200_000
_PATTERN_BYTES = 1 << 15
"""For one compiled pattern: with much more, some take seconds for a text of ordinary length."""
_PATTERN_CACHE_BYTES = 1 << 20
_COMPILED = 256
"""Schemas that are kept compiled."""
_SHOWN = 80
_BAD_PATTERN = (
    "is not a regular expression, or repeats too much (limit the length with maxLength "
    "instead), or has look-around or back-references, which are not supported: they can take "
    "forever"
)
_NOT_SCHEMAS = ("const", "default", "enum", "examples")


def compile_schema(schema: Mapping[str, Any] | bool) -> tuple[Draft202012Validator, str]:
    """The validator of a JSON Schema 2020-12, with `format` asserted, and the schema as text.

    `SchemaUnusable`, with the place, if it is not one, is too deep or too large, refers to
    anything outside of itself, or has a pattern or a format that cannot be checked.
    """
    if not isinstance(schema, bool | Mapping):
        raise SchemaUnusable(f"it must be a mapping, not {type(schema).__name__}")
    _check(schema)
    try:
        text = dumps(schema if isinstance(schema, bool) else dict(schema))
    except (TypeError, ValueError) as exc:
        raise SchemaUnusable(f"it is not JSON: {str(exc)[:200]}") from None
    if len(text) > _MAX_CHARACTERS:
        raise SchemaUnusable(
            f"it has {len(text):,} characters of JSON, at most {_MAX_CHARACTERS:,} are taken"
        )
    return _compiled(text), text


@lru_cache(maxsize=_COMPILED)
def _compiled(text: str) -> Draft202012Validator:
    try:
        import jsonschema_rs
    except ImportError as exc:
        raise GuardrailUnusable(
            "JSON Schemas are checked with jsonschema-rs, which is not installed: "
            "pip install 'ekiden[guardrails]'"
        ) from exc
    schema = json.loads(text)
    if expansion(schema, most=_MAX_EXPANDED) > _MAX_EXPANDED:
        raise SchemaUnusable(
            f"with all references written out it has more than {_MAX_EXPANDED:,} schemas, which "
            "take too long to check: refer to each definition less often"
        )
    try:
        return jsonschema_rs.Draft202012Validator(schema, **options())
    except jsonschema_rs.ValidationError as exc:
        raise _unusable(schema, exc) from None
    except Exception as exc:
        raise SchemaUnusable(str(exc)[:200]) from None


def options() -> dict[str, Any]:
    """How every validator is made."""
    import jsonschema_rs

    return {
        "validate_formats": True,
        "ignore_unknown_formats": False,
        "retriever": _refuse,
        "mask": VALUE,
        "pattern_options": jsonschema_rs.RegexOptions(
            size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_CACHE_BYTES
        ),
    }


def _refuse(uri: str, /) -> Any:
    raise ValueError("nothing is fetched")


def _check(schema: Mapping[str, Any] | bool) -> None:
    """What the validator would not say, or not where: it must be JSON, of a decent size."""
    waiting: list[tuple[Any, tuple[str | int, ...], bool]] = [(schema, (), True)]
    seen = 0
    while waiting:
        value, path, is_schema = waiting.pop()
        seen += 1
        if seen > _MAX_VALUES:
            raise SchemaUnusable(f"it has more than {_MAX_VALUES:,} values")
        if len(path) > _MAX_DEPTH:
            raise SchemaUnusable(f"it is more than {_MAX_DEPTH} levels deep", path=pointer(path))
        if isinstance(value, Mapping):
            if is_schema:
                _check_dialect(value, path)
            for key, inner in value.items():
                _check_text(key, path)
                inside = is_schema and key not in _NOT_SCHEMAS
                waiting.append((inner, (*path, key), inside))
        elif isinstance(value, list | tuple):
            waiting.extend((inner, (*path, at), is_schema) for at, inner in enumerate(value))
        elif isinstance(value, str):
            _check_text(value, path)
        elif isinstance(value, float) and not math.isfinite(value):
            raise SchemaUnusable(f"{value} is not JSON", path=pointer(path))
        elif not isinstance(value, bool | int | float | None):
            raise SchemaUnusable(f"{type(value).__name__} is not JSON", path=pointer(path))


def _check_text(text: object, path: tuple[str | int, ...]) -> None:
    if not isinstance(text, str):
        raise SchemaUnusable(f"the key {text!r:.40} is not a text", path=pointer(path))
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise SchemaUnusable("it has half a character (a lone surrogate)", path=pointer(path))


def _check_dialect(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> None:
    said = schema.get("$schema")
    if isinstance(said, str) and said.rstrip("#") != _DIALECT:
        raise SchemaUnusable(
            f"schemas are read as {_DIALECT}, not {said[:_SHOWN]!r}: leave `$schema` out, and "
            "adapt the schema",
            path=pointer((*path, "$schema")),
        )


def _unusable(schema: Any, exc: ValidationError) -> SchemaUnusable:
    """What the validator says of a schema, in our words, with the place."""
    import jsonschema_rs

    kinds = jsonschema_rs.ValidationErrorKind
    path = tuple(exc.instance_path)
    message = exc.message
    found = repr(_at(schema, path))[:_SHOWN]
    match exc.kind:
        case kinds.Referencing():
            return _bad_reference(schema, message)
        case kinds.Format(format="regex"):
            written = found if path[-1:] == ("pattern",) else repr(path[-1])[:_SHOWN]
            return SchemaUnusable(f"the pattern {written} {_BAD_PATTERN}", path=pointer(path))
        case kinds.Custom() if path[-1:] == ("format",):
            return SchemaUnusable(
                f"the format {found} is not known, so it would not be checked: leave it out, or "
                "use `pattern`",
                path=pointer(path),
            )
    return SchemaUnusable(message.replace(VALUE, found)[:300], path=pointer(path))


def _bad_reference(schema: Any, message: str) -> SchemaUnusable:
    references = list(_references(schema))
    named = [each for each in references if each[1] in message or each[1].lstrip("#") in message]
    outside = [each for each in references if not each[1].startswith("#")]
    path, reference = (named or outside or references or [((), message)])[0]
    if reference.startswith("#"):
        problem = f"`$ref` is {reference[:_SHOWN]!r}, which is not in the schema"
    else:
        problem = (
            f"`$ref` is {reference[:_SHOWN]!r}, and nothing outside of the schema is fetched: put "
            "it under `$defs` and refer to it as #/$defs/name"
        )
    return SchemaUnusable(problem, path=pointer(path))


def _references(schema: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(schema, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in ("$ref", "$dynamicRef") and isinstance(inner, str):
                    yield (*path, key), inner
                waiting.append((inner, (*path, key)))
        elif isinstance(value, list):
            waiting.extend((inner, (*path, at)) for at, inner in enumerate(value))


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return part
    return value
