"""Reading text out of items, and making items out of results."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from ekiden.core.items import Item, function_output, to_item, user_message
from ekiden.core.run_items import MessageOutputItem, RunItem, raw_field


class ItemHelpers:
    """Functions on raw items (plain or of the `openai` package) and run items."""

    @staticmethod
    def extract_last_content(message: Any) -> str:
        """The last part of a message, text or refusal; empty for anything else."""
        parts = _parts(message)
        if not parts:
            return ""
        kind = raw_field(parts[-1], "type")
        return raw_field(parts[-1], "refusal" if kind == "refusal" else "text") or ""

    @staticmethod
    def extract_last_text(message: Any) -> str | None:
        """The last part of a message if it is text."""
        parts = _parts(message)
        if not parts or raw_field(parts[-1], "type") != "output_text":
            return None
        text: str | None = raw_field(parts[-1], "text")
        return text

    @staticmethod
    def extract_text(message: Any) -> str | None:
        """All text of a message; `None` if there is none."""
        return _text(message) or None

    @staticmethod
    def extract_refusal(message: Any) -> str | None:
        """All refusals of a message; `None` if there is none."""
        parts = [part for part in _parts(message) if raw_field(part, "type") == "refusal"]
        return "".join(raw_field(part, "refusal") or "" for part in parts) or None

    @staticmethod
    def input_to_new_input_list(input: str | Iterable[Any]) -> list[Item]:
        """A run's input as a list of its own: changing it changes nothing of the caller's."""
        if isinstance(input, str):
            return [user_message(input)]
        return [_plain(to_item(item)) for item in input]

    @staticmethod
    def text_message_output(message: MessageOutputItem) -> str:
        """All text of one message of a run."""
        return _text(message.raw_item)

    @staticmethod
    def text_message_outputs(items: Iterable[RunItem]) -> str:
        """All text of the messages among a run's items."""
        return "".join(
            _text(item.raw_item) for item in items if isinstance(item, MessageOutputItem)
        )

    @staticmethod
    def tool_call_output_item(tool_call: Any, output: Any) -> Item:
        """The item that answers `tool_call`; lists of content parts stay, the rest is text."""
        structured = isinstance(output, str | list)
        return function_output(
            raw_field(tool_call, "call_id"), output if structured else str(output)
        )


def _parts(message: Any) -> list[Any]:
    """The parts of an output message; none for other items."""
    if raw_field(message, "type") != "message":
        return []
    content = raw_field(message, "content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    return content if isinstance(content, list) else []


def _text(message: Any) -> str:
    parts = [part for part in _parts(message) if raw_field(part, "type") == "output_text"]
    return "".join(raw_field(part, "text") or "" for part in parts)


def _plain(value: Any) -> Any:
    """A deep copy in which iterators, as pydantic leaves them in typed dicts, became lists."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str | bytes | int | float) or value is None:
        return value
    if isinstance(value, Iterable):
        return [_plain(part) for part in value]
    return deepcopy(value)
