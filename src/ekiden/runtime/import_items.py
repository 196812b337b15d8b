"""What was said in an imported session: every item has the form that readers rely on."""

from __future__ import annotations

from typing import Any

from ekiden.core.items import Item, is_message
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.runtime.import_values import objects, text, text_or_none


def check_items(value: Any, place: str) -> list[Item]:
    """The items, if each is a message, a call, an output, or something of a model's own."""
    items = objects(value, place)
    for number, item in enumerate(items):
        _check(item, f"{place}[{number}]")
    return items


def _check(item: Item, place: str) -> None:
    text_or_none(item.get("type"), f"{place}.type")
    text_or_none(item.get("role"), f"{place}.role")
    _parts(item.get("content"), f"{place}.content")
    if is_message(item):
        text(item.get("role"), f"{place}.role")
    elif item.get("type") == "function_call":
        text(item.get("call_id"), f"{place}.call_id")
        if not isinstance(item.get("name"), str):
            raise SessionImportInvalid(f"{place}.name", "it is not a text")
        text_or_none(item.get("arguments"), f"{place}.arguments")
    elif item.get("type") == "function_call_output":
        text(item.get("call_id"), f"{place}.call_id")
        _parts(item.get("output"), f"{place}.output")
    elif "type" not in item:
        raise SessionImportInvalid(place, "it has neither a type nor a role")


def _parts(value: Any, place: str) -> None:
    """Text, or a list of parts."""
    if value is None or isinstance(value, str):
        return
    for number, part in enumerate(objects(value, place)):
        for name in ("type", "text", "refusal"):
            text_or_none(part.get(name), f"{place}[{number}].{name}")
