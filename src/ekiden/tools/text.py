"""Text of others, made fit to be shown: no control characters, and not too long."""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028\u2029\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What steers a terminal, reorders the text around it, or cannot be seen at all."""


def spelled_out(text: str) -> str:
    """`text` with every hidden character as its escape; line breaks and tabs stay."""
    return _HIDDEN.sub(
        lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), text
    )


def without_hidden(text: str) -> str:
    """`text` without hidden characters; line breaks and tabs stay."""
    return _HIDDEN.sub("", text)


def shortened(text: str, limit: int) -> str:
    """The beginning of `text`, with a note of how much is left out if it is longer."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text) - limit:,} more characters)"
