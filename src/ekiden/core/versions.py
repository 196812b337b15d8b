"""Digests: short names of values, to tell whether something is still what it was."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

DIGEST_BYTES = 16


def digest(value: Any) -> str:
    """The digest of a JSON value. The order of keys does not count.

    Raises `TypeError` or `ValueError` if the value is not JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()
