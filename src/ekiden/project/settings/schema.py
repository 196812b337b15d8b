"""The JSON Schema of settings files, for editors."""

from __future__ import annotations

from typing import Any

from ekiden.project.settings.keys import Setting
from ekiden.project.settings.loaded import plain
from ekiden.project.settings.places import ROOT, Group

SCHEMA_KEY = "$schema"
"""The key by which a file tells editors its schema; it sets nothing."""


def settings_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 for a settings file; a new copy each time.

    It follows from the table that the reader uses. Keys in camelCase, which the reader takes too,
    are not in it.
    """
    found = _schema(ROOT)
    found["properties"] = {SCHEMA_KEY: {"type": "string"}, **found["properties"]}
    return {
        SCHEMA_KEY: "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:ekiden:settings",
        "title": "Ekiden settings",
        **found,
    }


def _schema(place: Group | Setting) -> dict[str, Any]:
    if isinstance(place, Setting):
        known = {"description": place.meaning, "default": plain(place.default)}
        return {**place.kind.schema(), **known}
    return {
        "type": "object",
        "properties": {key: _schema(each) for key, each in place.children.items()},
        "additionalProperties": False,
    }
