"""Text of others between fences that it cannot close, and cut to a size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ekiden.core.values import dumps

_TICKS = re.compile("`+")


def fenced(text: str) -> str:
    """`text` between two lines of backticks, more of them than it has anywhere in a row."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}\n{text}\n{fence}"


def shown(data: Any) -> str:
    """The data of a result as text: a string as it is, the rest as JSON."""
    if isinstance(data, str):
        return data
    try:
        return dumps(data)
    except (TypeError, ValueError, RecursionError):
        return str(data)


def cut(text: str, room: int) -> str:
    """The first `room` characters, and how many were left out."""
    if len(text) <= room:
        return text
    return f"{text[:room]} … ({len(text) - room} more characters left out)"


def shares(texts: Sequence[str], room: int) -> list[int]:
    """How much of `room` each text gets: what the short ones leave, the long ones share."""
    given = [0] * len(texts)
    left = room
    by_length = sorted(range(len(texts)), key=lambda each: len(texts[each]))
    for done, each in enumerate(by_length):
        given[each] = min(len(texts[each]), left // (len(texts) - done))
        left -= given[each]
    return given
