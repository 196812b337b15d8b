"""Memories as entries of the store, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.core.memory import FoundBy, MemoryRecord
from ekiden.memory.limits import key_of
from ekiden.storage.base import SearchEntry


def entry_of(
    space: str,
    key: str,
    content: str,
    metadata: Mapping[str, Any],
    *,
    agent: str | None,
    stored_at_us: int,
) -> SearchEntry:
    """The entry, without a vector.

    The chosen key and tags are also found: they are placed above the content.
    """
    tags = [tag for tag in _listed(metadata.get("tags")) if isinstance(tag, str)]
    words = [] if key == key_of(content) else [key]
    heading = " ".join([*words, *(_storable(tag) for tag in tags)])
    text = f"{heading}\n{content}" if heading else content
    body: dict[str, Any] = {"v": 1, "at": stored_at_us, "head": len(text) - len(content)}
    if metadata:
        body["meta"] = dict(metadata)
    if agent is not None:
        body["by"] = agent
    return SearchEntry(space=space, key=key, text=text, body=body)


def memory_record(
    entry: SearchEntry, *, score: float | None = None, found_by: FoundBy | None = None
) -> MemoryRecord:
    """What the entry says."""
    body = entry.body if isinstance(entry.body, dict) else {}
    return MemoryRecord(
        key=entry.key,
        content=entry.text[body.get("head", 0) :],
        metadata=body.get("meta", {}),
        score=score,
        found_by=found_by,
        stored_at_us=body.get("at", entry.updated_at_us),
        agent=body.get("by"),
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", " ")
