"""JSON as it is stored: compact, UTF-8, and safe for every string that Python can hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder as _parts
from typing import Any

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)

_NESTED = (dict, list, tuple)

loads = json.loads

MAX_DEPTH = 200
"""So many lists and objects may stand one in the other in a value that somebody gives to be stored:
what goes further cannot be copied everywhere where it would have to be."""


def dumps(value: Any) -> str:
    """`value` as compact JSON text that any database takes.

    Text stays readable UTF-8. A lone surrogate, which a model can produce with a broken escape
    and which no database stores, is kept as its escape. Raises `TypeError` or `ValueError` for
    what is not JSON.
    """
    text = _COMPACT.encode(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ASCII.encode(value)
    return text


def quick_ascii_encoder() -> Callable[[Any], str]:
    """An encoder to compact ASCII for what is JSON anyway: it does not look for circles.

    `json` makes a new encoder for every value, which for a small one takes as long as encoding it;
    where Python's own C part is there, one is kept.
    """
    plain = json.JSONEncoder(
        ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False
    )
    make: Any = getattr(_parts, "c_make_encoder", None)
    try:
        kept = make(
            None, plain.default, _parts.encode_basestring_ascii, None, ":", ",", False, False, False
        )
        if "".join(kept({"a": [1, None]}, 0)) != '{"a":[1,null]}':
            return plain.encode
    except (TypeError, ValueError):
        return plain.encode
    return lambda value: "".join(kept(value, 0))


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether more than `most` lists and objects stand one in the other; for what is JSON."""
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
