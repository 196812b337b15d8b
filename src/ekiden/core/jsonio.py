"""JSON as it is stored: compact, UTF-8, and safe for every string that Python can hold."""

from __future__ import annotations

import json
from typing import Any

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)

loads = json.loads


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
