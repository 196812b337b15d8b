"""JSON for storage: compact, UTF-8, and safe for every Python string."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder as _parts
from typing import Any

_NESTED = (dict, list, tuple)

loads = json.loads


def _encoder(*, is_ascii: bool) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    """Encodes a value as compact JSON: fast for acyclic JSON, else like `json`, with its errors.

    `json` makes a new encoder for every value, which for a small value takes as long as encoding
    it; with Python's C implementation, one encoder is kept.
    """
    careful = json.JSONEncoder(ensure_ascii=is_ascii, separators=(",", ":"), allow_nan=False).encode
    make: Any = getattr(_parts, "c_make_encoder", None)
    quote: Any = _parts.encode_basestring_ascii if is_ascii else _parts.encode_basestring
    try:
        kept = make(None, json.JSONEncoder().default, quote, None, ":", ",", False, False, False)
        if "".join(kept({"a": [1, None]}, 0)) != '{"a":[1,null]}':
            return careful, careful
    except (TypeError, ValueError):
        return careful, careful
    return (lambda value: "".join(kept(value, 0))), careful


_encode, _encode_carefully = _encoder(is_ascii=False)
quick_ascii, _ascii = _encoder(is_ascii=True)
"""To ASCII, for what is JSON anyway: it does not look for circles."""

MAX_DEPTH = 200
"""How deep a value that callers store may be nested: a deeper one cannot be copied everywhere."""


def dumps(value: Any) -> str:
    """`value` as compact JSON text that any database accepts.

    Text stays readable UTF-8. A lone surrogate, which a model can produce with a broken escape and
    which no database stores, is kept as its escape. Raises `TypeError` or `ValueError` for what is
    not JSON.
    """
    try:
        text = _encode(value)
    except RecursionError:
        text = _encode_carefully(value)  # It tells a circle from what is too deep.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ascii(value)
    return text


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether more than `most` lists and objects are nested; for JSON values."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(most):
        level = [
            each
            for part in level
            for each in (part.values() if isinstance(part, dict) else part)
            if isinstance(each, _NESTED)
        ]
        if not level:
            return False
    return bool(level)
