"""Keys and tokens covered in texts that leave the process, which are cut to a length, too."""

from __future__ import annotations

from functools import lru_cache

from ekiden.core.privacy.covering import MASK
from ekiden.core.privacy.redaction import redact_text

_MAX_READ = 100_000
"""So much of a text is looked at; what comes after it is not shown."""
_LONGEST_SECRET = 8_000
_SHORT = 120
"""Names and ids come again and again: texts up to this length are looked at once."""


def covered(text: str, most: int) -> str:
    """The text without what looks like a key or a token, no longer than `most` and a few words."""
    if len(text) <= _SHORT:
        shown = _looked_at(text)
    else:
        shown = redact_text(text[:_MAX_READ], kinds=("api_key",), mask=MASK)
    if len(text) > _MAX_READ:
        # The end may be half a key, which looks like none.
        most = max(min(most, len(shown) - _LONGEST_SECRET), 0)
    return shown if len(shown) <= most else f"{shown[:most]}… (of {len(text)} characters)"


@lru_cache(maxsize=4096)
def _looked_at(text: str) -> str:
    return redact_text(text, kinds=("api_key",), mask=MASK)
