"""Places in JSON."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_POINTER = 500


def pointer(path: Iterable[str | int]) -> str:
    """The place as a JSON Pointer; one that is very long is cut."""
    whole = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    return whole if len(whole) <= _MAX_POINTER else whole[:_MAX_POINTER] + "…"
