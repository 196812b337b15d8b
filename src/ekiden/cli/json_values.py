"""Values on the command line: JSON, or else text."""

from __future__ import annotations

from typing import Any

from ekiden.cli.errors import UsageError
from ekiden.core.jsonio import loads


def json_or_text(text: str | None) -> Any:
    """What the words are as JSON; words that are none are text."""
    if text is None:
        return None
    try:
        return loads(text)
    except ValueError:
        return text


def json_object(text: str | None, option: str) -> dict[str, Any] | None:
    """An object of JSON; `UsageError` for anything else."""
    value = json_or_text(text)
    if value is not None and not isinstance(value, dict):
        raise UsageError(f'{option} is an object of JSON, such as {{"session_id": "s1"}}')
    return value
