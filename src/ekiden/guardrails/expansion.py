"""How much a JSON Schema is when every reference is written out.

A few definitions that each refer twice to the one before are a short text, and more checks than
anybody can wait for. So this is counted before a schema is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

SINGLE = (
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""Keywords with one schema."""
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords with several."""
NAMED = ("dependentSchemas", "patternProperties", "properties")
"""Keywords with schemas by name."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_Schema: TypeAlias = dict[str, Any]


def expansion(schema: Any, *, most: int) -> int:
    """How many schemas it has with all references written out, or something above `most`.

    One that refers to itself counts once: how often it is applied depends on the answer.
    """
    return _Counting(schema, most).count() if isinstance(schema, dict) else 1


class _Counting:
    def __init__(self, schema: _Schema, most: int) -> None:
        self._schema = schema
        self._most = most
        self._bases: dict[int, str] = {}
        self._places: dict[str, _Schema] = {}
        self._index(schema)

    def count(self) -> int:
        """The number; depth first and without recursion, for a chain of references may be long."""
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
        """The schemas that are applied with this one, a reference's target included."""
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
        """Note where everything is that can be referred to."""
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
        """What a reference leads to; `None` if that is not known here."""
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
