"""Any Python string as text that PostgreSQL takes, and back.

PostgreSQL refuses NUL and lone surrogates in text. Such a character is written as U+0010 (“data
link escape”) and four hexadecimal digits, and so is U+0010 itself; all other text stays as it is,
readable and in order, and a prefix of the string is a prefix of what is written.
"""

from __future__ import annotations

import re

_REFUSED = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")


def to_column(text: str) -> str:
    """`text` as it is stored."""
    if _REFUSED.search(text) is None:
        return text
    return _REFUSED.sub(lambda found: f"\x10{ord(found[0]):04x}", text)


def to_column_or_null(text: str | None) -> str | None:
    """`text` as it is stored; `None` stays `None`."""
    return None if text is None else to_column(text)


def from_column(stored: str) -> str:
    """The string that `to_column` made `stored` from."""
    if "\x10" not in stored:
        return stored
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), stored)


def from_column_or_null(stored: str | None) -> str | None:
    """The string that `to_column_or_null` made `stored` from."""
    return None if stored is None else from_column(stored)
