"""JSON in its one canonical form, and what is computed from it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

_ENCODER = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def canonical(value: Any) -> bytes:
    """The same bytes for the same JSON, whoever wrote it and in whatever order of keys.

    Raises `TypeError`, `ValueError` or `RecursionError` for what is not JSON.
    """
    return _ENCODER.encode(value).encode("ascii")


def terms_digest(collaboration_id: str, version: int, by: str, body: Any) -> str:
    """By which terms are named: no others have it, in this collaboration or elsewhere."""
    return sha256(canonical([collaboration_id, version, by, body])).hexdigest()
