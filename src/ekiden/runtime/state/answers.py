"""Reading what comes from outside: a model's answer and a caller's input. Neither is trusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ekiden.core.conversation.items import Item, is_message, read_items, to_item, user_message
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.values.jsonio import dumps, quick_ascii


def read_answer(output: Any, *, step: str, used_ids: set[str]) -> list[Item]:
    """A model's output as items that can be stored and sent to any model again.

    A call without an id is given one, and so is one whose id was used before in the conversation,
    as servers that count from ``call_0`` in each answer do: an id names one call. `used_ids` learns
    the new ones. Everything else that is out of order is `ModelBehaviorError`: what is no item, a
    call without a name, a message in somebody else's name, the output of a tool that we run.
    """
    if not isinstance(output, (list, tuple)):
        raise ModelBehaviorError(f"the model's output is {type(output).__name__}, not a list")
    items = [_answer_item(each, index, step, used_ids) for index, each in enumerate(output)]
    try:
        if not all(map(_is_all_text, items)):
            quick_ascii(items)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ModelBehaviorError(f"the model's output is not JSON: {exc}") from exc
    return items


def _is_all_text(item: Item) -> bool:
    """Whether the item is JSON without a look inside, as the call of a tool is."""
    for name, value in item.items():
        if type(value) is not str or type(name) is not str:
            return False
    return True


def _answer_item(value: Any, index: int, step: str, used_ids: set[str]) -> Item:
    try:
        item = to_item(value)
    except UserError as exc:
        raise ModelBehaviorError(f"item {index} of the model's output: {exc}") from exc
    kind = item.get("type")
    if kind == "function_call":
        return _call(item, index, step, used_ids)
    if kind == "function_call_output":
        raise ModelBehaviorError(f"item {index} of the model's output is the output of a tool")
    if is_message(item):
        return _message(item, index)
    if not isinstance(kind, str):
        raise ModelBehaviorError(f"item {index} of the model's output has no type")
    return item


def _call(item: Item, index: int, step: str, used_ids: set[str]) -> Item:
    name, arguments, call_id = item.get("name"), item.get("arguments"), item.get("call_id")
    if not isinstance(name, str) or not name:
        raise ModelBehaviorError(f"item {index} of the model's output calls a tool without a name")
    changes: Item = {}
    if not isinstance(arguments, str):
        try:
            changes["arguments"] = "" if arguments is None else dumps(arguments)
        except (TypeError, ValueError, RecursionError) as exc:
            raise ModelBehaviorError(f"the arguments of {name!r} are not JSON: {exc}") from exc
    if not isinstance(call_id, str) or not call_id or call_id in used_ids:
        call_id = changes["call_id"] = _fresh_id(step, index, used_ids)
    used_ids.add(call_id)
    return {**item, **changes} if changes else item


def _fresh_id(step: str, index: int, used_ids: set[str]) -> str:
    made = f"call_{step.replace('.', '_')}_{index}"
    while made in used_ids:
        made += "_"
    return made


def _message(item: Item, index: int) -> Item:
    if item.get("role", "assistant") != "assistant":
        raise ModelBehaviorError(f"item {index} of the model's output speaks as {item['role']!r}")
    content = item.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or not isinstance(
                part.get("text", ""), (str, type(None))
            ):
                raise ModelBehaviorError(f"item {index} of the model's output has unreadable text")
    elif content is not None and not isinstance(content, str):
        raise ModelBehaviorError(f"item {index} of the model's output has unreadable text")
    return item if "role" in item else {**item, "role": "assistant"}


def read_input(value: str | Iterable[Any]) -> tuple[Item, ...]:
    """A run's input as items of our own; `UserError` says which one cannot be used and why."""
    if isinstance(value, str):
        return (user_message(value),)
    if value is None or isinstance(value, (bytes, dict)) or not isinstance(value, Iterable):
        raise UserError(f"a run's input is text or a list of items, not {type(value).__name__}")
    return tuple([dict(each) for each in read_items(value, "the input")])


def call_ids(items: Iterable[Item]) -> set[str]:
    """The ids of all calls among the items."""
    return {item["call_id"] for item in items if item.get("type") == "function_call"}
