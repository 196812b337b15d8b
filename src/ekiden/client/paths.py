"""Parts of addresses."""

from __future__ import annotations

from urllib.parse import quote

from ekiden.client.errors import ClientMisconfigured


def part(text: str) -> str:
    """An id or a name as one part of a path, whatever is in it."""
    if text in ("", ".", ".."):
        raise ClientMisconfigured(f"{text!r} is not an id or a name")
    try:
        return quote(text, safe=":@")
    except UnicodeError:
        raise ClientMisconfigured("an id or a name cannot be written as UTF-8") from None
