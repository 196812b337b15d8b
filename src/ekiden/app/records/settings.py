"""Settings as JSON, without the secrets in them."""

from __future__ import annotations

from typing import Any

from ekiden.app.settings import Entry, Origin, redacted


def setting_record(entry: Entry) -> dict[str, Any]:
    """A setting with its value and where that comes from."""
    return {
        "key": entry.name,
        "value": redacted(entry.name, entry.value),
        "origin": origin_record(entry.origin),
    }


def origin_record(origin: Origin) -> dict[str, Any]:
    """Where a value comes from."""
    return {"kind": origin.kind, "where": origin.where, "line": origin.line}
