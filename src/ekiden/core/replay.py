"""What an item looks like when it is sent back to a model."""

from __future__ import annotations

from typing import Any

from ekiden.core.items import Item, to_item

_OUTPUT_ONLY = "created_by"
"""Set by the provider on what it gives; refused in what it is given."""


def to_input_item(value: Any) -> Item:
    """`value` as an input item: without what providers only put on their output.

    A plain item that has nothing to lose is returned as it is; nothing is ever changed in place.
    """
    item = to_item(value)
    if _OUTPUT_ONLY in item:
        item = {key: part for key, part in item.items() if key != _OUTPUT_ONLY}
    if item.get("type") == "shell_call_output" and isinstance(item.get("output"), list):
        item = {**item, "output": [_without_author(chunk) for chunk in item["output"]]}
    return item


def _without_author(chunk: Any) -> Any:
    if isinstance(chunk, dict) and _OUTPUT_ONLY in chunk:
        return {key: part for key, part in chunk.items() if key != _OUTPUT_ONLY}
    return chunk
