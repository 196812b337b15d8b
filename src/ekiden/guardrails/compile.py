"""Checks and compiles JSON Schemas for guardrails.

A schema may come from an untrusted agent file. Therefore nothing is fetched, patterns run in linear
time, and size and depth are limited.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from ekiden.core.errors import UserError
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError


# The size of a schema with all references expanded is counted before the schema is used: a short
# text in which each definition refers twice to the one before needs exponentially many checks.


SINGLE = (
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""Keywords whose value is one schema."""
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords whose value is a list of schemas."""
NAMED = ("dependentSchemas", "patternProperties", "properties")
"""Keywords whose value is an object with schemas by name."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_Schema: TypeAlias = dict[str, Any]


def expansion(schema: Any, *, most: int) -> int:
    """The number of schemas after all references are expanded. If there are more than `most`, the
    result is only some number above `most`.

    A schema that refers to itself counts once, because the answer determines how often it is
    applied.
    """
    return _Expansion(schema, most).count() if isinstance(schema, dict) else 1


class _Expansion:
    def __init__(self, schema: _Schema, most: int) -> None:
        self._schema = schema
        self._most = most
        self._bases: dict[int, str] = {}
        self._places: dict[str, _Schema] = {}
        self._index(schema)

    def count(self) -> int:
        """The number of schemas; depth first, without recursion because references can be long."""
        known: dict[int, int] = {}
        root = self._schema
        path: list[tuple[_Schema, Iterator[_Schema]]] = [(root, self._inside(root))]
        sums, above = [1], {id(root)}
        while path:
            schema, inside = path[-1]
            child = next(inside, None)
            if child is None or sums[-1] > self._most:
                path.pop()
                above.discard(id(schema))
                total = known[id(schema)] = sums.pop()
                if not path:
                    return total
                sums[-1] += total
            elif id(child) in known:
                sums[-1] += known[id(child)]
            elif id(child) not in above:
                path.append((child, self._inside(child)))
                above.add(id(child))
                sums.append(1)
        return 1

    def _inside(self, schema: _Schema) -> Iterator[_Schema]:
        """The schemas that are applied with this one, including the targets of references."""
        found: list[Any] = [schema.get(key) for key in SINGLE]
        for key in LISTS:
            inner = schema.get(key)
            found += inner if isinstance(inner, list) else ()
        for key in NAMED:
            inner = schema.get(key)
            found += inner.values() if isinstance(inner, dict) else ()
        found += [self._target(schema, schema.get(key)) for key in _REFERENCES]
        return (each for each in found if isinstance(each, dict))

    def _index(self, schema: _Schema) -> None:
        """Find all places that can be referred to."""
        self._places[""] = schema
        waiting: list[tuple[Any, str]] = [(schema, "")]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, list):
                waiting.extend((each, base) for each in value)
            if not isinstance(value, dict):
                continue
            if isinstance(own := value.get("$id"), str):
                base = _joined(base, own)
                self._places.setdefault(base, value)
            self._bases[id(value)] = base
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := value.get(key), str):
                    self._places.setdefault(f"{base}#{name}", value)
            waiting.extend((each, base) for each in value.values())

    def _target(self, schema: _Schema, reference: Any) -> Any:
        if not isinstance(reference, str):
            return None
        where = _joined(self._bases.get(id(schema), ""), reference, keep_fragment=True)
        address, _, fragment = where.partition("#")
        if not fragment.startswith("/") and fragment:
            return self._places.get(where)
        found: Any = self._places.get(address)
        for part in fragment.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(name)
            elif isinstance(found, list) and name.isascii() and name.isdecimal():
                found = found[int(name)] if int(name) < len(found) else None
            else:
                return None
        return found


def _joined(base: str, reference: str, *, keep_fragment: bool = False) -> str:
    try:
        joined = urljoin(base, reference) if base else reference
    except ValueError:
        return reference
    return joined if keep_fragment else urldefrag(joined).url


_MAX_POINTER = 500


def full_pointer(path: Iterable[str | int]) -> str:
    """The path as a JSON Pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def pointer(path: Iterable[str | int]) -> str:
    """The path as a JSON Pointer for messages. A very long path is cut."""
    text = full_pointer(path)
    return text if len(text) <= _MAX_POINTER else text[:_MAX_POINTER] + "…"


class GuardrailUnusable(UserError):
    """The definition of a guardrail is wrong, or the extra `guardrails` is not installed."""

    code = "guardrail.unusable"


class SchemaUnusable(GuardrailUnusable):
    """A JSON Schema cannot be used. `problem` describes the error, and `path` is its position."""

    code = "guardrail.bad_schema"

    def __init__(self, problem: str, *, path: str = "") -> None:
        where = f" at {path[:200]}" if path else ""
        super().__init__(f"the schema cannot be used{where}: {problem}")
        self.problem = problem
        self.path = path
        """The place in the schema, as a JSON Pointer; empty: the whole."""


VALUE = "\x00"
"""The placeholder for the checked value in the validator's messages, because the value may be
secret or huge."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAX_DEPTH = 100
_MAX_VALUES = 20_000
_MAX_CHARACTERS = 500_000
_MAX_EXPANDED = 200_000
_PATTERN_BYTES = 1 << 15
"""Maximum size of a compiled pattern: larger ones can take seconds for a normal text."""
_PATTERN_CACHE_BYTES = 1 << 20
_COMPILED = 256
"""Maximum number of cached schemas."""
_SHOWN = 80
_BAD_PATTERN = (
    "is not a regular expression, or repeats too much (limit the length with maxLength "
    "instead), or has look-around or back-references, which are not supported: they can take "
    "forever"
)
_NOT_SCHEMAS = ("const", "default", "enum", "examples")


def compile_schema(schema: Mapping[str, Any] | bool) -> tuple[Draft202012Validator, str]:
    """Return the validator of a JSON Schema 2020-12, which enforces `format`, and the schema as
    text.

    Raises `SchemaUnusable`, with the position of the error, if the schema is invalid, too deep or
    too large. This error is also raised if the schema refers to anything outside of itself, or has
    a pattern or a format that cannot be checked.
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
            f"it has {len(text):,} characters of JSON; the maximum is {_MAX_CHARACTERS:,}"
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
    """The options of all validators."""
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
    """Check for faults that the validator does not report with a place: JSON, size, depth."""
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
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and dialect.rstrip("#") != _DIALECT:
        raise SchemaUnusable(
            f"schemas are read as {_DIALECT}, not {dialect[:_SHOWN]!r}: leave `$schema` out, and "
            "adapt the schema",
            path=pointer((*path, "$schema")),
        )


def _unusable(schema: Any, exc: ValidationError) -> SchemaUnusable:
    """The validator's error about a schema, with the place and a way out."""
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
