"""A filter that masks sensitive data, such as card numbers, telephone numbers and keys."""

from __future__ import annotations

from typing import Any

from ekiden.core.conversation.model import Item, is_message
from ekiden.core.handoffs import HandoffInputData
from ekiden.core.privacy.redaction import (
    DEFAULT_MASK,
    SENSITIVE_KINDS,
    check_kinds,
    check_mask,
    redact_json,
    redact_text,
)
from ekiden.handoff.filters import SyncFilter
from ekiden.handoff.selection import visible_entries, with_entries
from ekiden.handoff.transcript import parse_transcript, render_transcript


def redact(*kinds: str, mask: str = DEFAULT_MASK) -> SyncFilter:
    """Mask sensitive data in all texts that the target sees: messages, tool calls, tool outputs and
    reasoning.

    By default all `SENSITIVE_KINDS` are masked. ``{kind}`` in `mask` is replaced by the kind.
    Arguments and outputs that are JSON are still valid JSON afterwards. Images, files, encrypted
    reasoning and the ids that link items are not changed. Raises `UserError` for an unknown kind,
    and for a `mask` that itself looks like sensitive data. For example::

        handoff(billing, input_filter=redact("card", "phone") | keep_last(20))
    """
    check_kinds(kinds)
    check_mask(mask)
    return _Redact(tuple(dict.fromkeys(kinds)), mask)


class _Redact(SyncFilter):
    def __init__(self, kinds: tuple[str, ...], mask: str) -> None:
        named = [*kinds, *([f"mask={mask!r}"] if mask != DEFAULT_MASK else [])]
        super().__init__(self._redact, f"redact({', '.join(named)})")
        self._kinds = kinds or SENSITIVE_KINDS
        self._mask = mask

    def filter_texts(self, words: dict[str, Any]) -> dict[str, Any]:
        covered: dict[str, Any] = self._value("", words)
        return covered

    def _redact(self, data: HandoffInputData) -> HandoffInputData:
        if isinstance(data.input_history, str):
            data = data.clone(input_history=self._text(data.input_history))
        entries = visible_entries(data)
        for place, entry in enumerate(entries):
            item = entry.item
            covered = self._item(item)
            if covered is not item:
                entries[place] = entry.with_item(covered)
        return with_entries(data, entries)

    def _item(self, item: Item) -> Item:
        inner = parse_transcript(item)
        if inner is not None:
            item = self._nested(item, inner)
        covered: Item = self._value("", item)
        # `name` is sealed because it is usually a tool's name; in a message it can be a person's.
        name = item.get("name")
        if is_message(item) and isinstance(name, str) and self._text(name) != name:
            covered = {**covered, "name": self._text(name)}
        return covered

    def _nested(self, item: Item, inner: list[Item]) -> Item:
        """A nested history, masked item by item, so that the JSON of its items stays JSON."""
        covered = [self._item(each) for each in inner]
        if all(now is was for now, was in zip(covered, inner, strict=True)):
            return item
        return {**item, "content": render_transcript(covered)}

    def _value(self, key: str, value: Any) -> Any:
        """A masked copy of `value`, or `value` itself if nothing in it is sensitive."""
        if isinstance(value, str):
            return self._json(value) if key == "arguments" else self._text(value)
        if isinstance(value, list):
            covered = [self._value("", one) for one in value]
            return covered if _differ(covered, value) else value
        if isinstance(value, dict):
            return self._object(value)
        return value

    def _object(self, part: dict[str, Any]) -> dict[str, Any]:
        sealed = _SEALED.get(str(part.get("type")), _SEALED_ALWAYS)
        covered = {
            key: one if key in sealed else self._value(key, one) for key, one in part.items()
        }
        if not _differ(list(covered.values()), list(part.values())):
            return part
        # These fields repeat the text, or have positions in it.
        return {key: [] if key in ("logprobs", "annotations") else covered[key] for key in covered}

    def _text(self, text: str) -> str:
        return redact_text(text, kinds=self._kinds, mask=self._mask)

    def _json(self, text: str) -> str:
        return redact_json(text, kinds=self._kinds, mask=self._mask)


def _differ(now: list[Any], was: list[Any]) -> bool:
    return any(one is not other for one, other in zip(now, was, strict=True))


_SEALED_ALWAYS = frozenset(
    {
        "type", "role", "id", "call_id", "approval_request_id", "status", "name", "namespace",
        "encrypted_content", "image_url", "file_url", "file_data", "file_id", "input_audio",
        "container_id", "server_label", "created_by",
    }
)  # fmt: skip
"""Fields that are not texts: names, ids, and data for machines."""

_SEALED = {"image_generation_call": _SEALED_ALWAYS | {"result"}}
