"""Conversation items: plain JSON in the shape of OpenAI Responses items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

from ekiden.core.errors import UserError

Item: TypeAlias = dict[str, Any]
"""One item, e.g. ``{"role": "user", "content": "hi"}``; never changed once it was said."""


class ItemView(Sequence[Item]):
    """The first `length` items of an append-only list: O(1) to make, safe against later appends."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Item], length: int | None = None) -> None:
        self._items = items
        self._length = len(items) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._items[index]

    def __iter__(self) -> Iterator[Item]:
        items = self._items
        for index in range(self._length):
            yield items[index]


def user_message(text: str) -> Item:
    """A message from a person."""
    return {"role": "user", "content": text}


def assistant_message(text: str) -> Item:
    """A message from an agent."""
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def function_call(call_id: str, name: str, arguments: str) -> Item:
    """A request to run a tool; `arguments` is JSON text."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def function_output(call_id: str, output: Any) -> Item:
    """The answer to `function_call` with the same `call_id`."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def to_item(value: Any) -> Item:
    """`value` as a plain item; a pydantic object of the `openai` package is dumped to JSON."""
    if isinstance(value, dict):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise UserError(f"an item must be a JSON object, not {type(value).__name__}")
    dumped: Item = dump(mode="json", exclude_unset=True)
    return dumped


def to_items(value: str | Iterable[Any]) -> list[Item]:
    """A run's input as items: a string is one message of the user's."""
    if isinstance(value, str):
        return [user_message(value)]
    return [to_item(each) for each in value]


def read_items(value: Iterable[Any], what: str) -> list[Item]:
    """The items as plain items; `UserError` names the first invalid one, and why."""
    found = []
    for number, each in enumerate(value):
        item = to_item(each)
        fault = item_fault(item)
        if fault is not None:
            raise UserError(f"item {number} of {what} {fault}")
        found.append(item)
    return found


def item_fault(item: Mapping[str, Any]) -> str | None:
    """Why this is not a conversation item, as the end of a sentence; `None` if it is one."""
    kind = item.get("type")
    if kind is None and "role" not in item:
        return (
            'has neither a `type` nor a `role`: write a message as {"role": "user", "content": "…"}'
        )
    if kind is not None and (not isinstance(kind, str) or not kind):
        return "has a `type` that is not text"
    if kind in (None, "message"):
        return _message_fault(item)
    for name in _NEEDED.get(kind, ()):
        if not isinstance(item.get(name), str) or not item[name]:
            return f"is a {kind} without `{name}`"
    if kind == "function_call" and not isinstance(item.get("arguments", ""), str):
        return "is a function_call whose `arguments` are not JSON text"
    if kind == "function_call_output" and "output" not in item:
        return "is a function_call_output without `output`"
    return None


def _message_fault(item: Mapping[str, Any]) -> str | None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        return f"has the role {role!r:.40}: a message has one of {', '.join(_ROLES)}"
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return "is a message without `content`: give a text, or a list of parts"
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            return 'has a part of `content` without a `type`, such as {"type": "input_text"}'
        if not isinstance(part.get("text", ""), str | None):
            return "has a part of `content` whose `text` is not text"
    return None


_ROLES = ("user", "assistant", "system", "developer")
_NEEDED = {"function_call": ("call_id", "name"), "function_call_output": ("call_id",)}


def is_message(item: Item) -> bool:
    """Whether the item is a message, not a call, an output or reasoning."""
    kind = item.get("type")
    return kind == "message" or (kind is None and "role" in item)


def text_of(item: Item) -> str:
    """All text of a message, in order; empty for other items."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        part.get("text") or ""
        for part in content
        if isinstance(part, dict) and part.get("type") in _TEXT_PARTS
    )


def refusal_of(item: Item) -> str | None:
    """The refusal in a message, if there is one."""
    content = item.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and part.get("type") == "refusal":
                return str(part.get("refusal") or "")
    return None


_TEXT_PARTS = frozenset({"output_text", "input_text", "text"})


_OUTPUT_ONLY = "created_by"
"""Fields that the provider sets on its output and refuses in its input."""


def to_input_item(value: Any) -> Item:
    """`value` as an input item, without output-only fields.

    A plain item without such fields is returned as it is; nothing is changed in place.
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


def call_ids(items: Iterable[Item]) -> set[str]:
    """The ids of all calls among the items."""
    return {item["call_id"] for item in items if item.get("type") == "function_call"}
