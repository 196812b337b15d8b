"""The documents of the in-memory store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ekiden.core.errors import StaleDocument
from ekiden.storage.base import Document, DocumentWrite
from ekiden.storage.values import checked_copy, copy_json

StagedDocuments: TypeAlias = Mapping[tuple[str, str], Document | None]
"""The documents after a write, by collection and key; `None` marks a deleted document."""


class MemoryDocuments:
    """Versioned documents; bodies are copied in and out."""

    __slots__ = ("_documents", "_keys")

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], Document] = {}
        self._keys: dict[str, list[str]] = {}
        """The keys of each collection, in order."""

    def get(self, collection: str, key: str) -> Document | None:
        """The document, or `None`."""
        document = self._documents.get((collection, key))
        return None if document is None else _copy(document)

    def page(self, collection: str, *, prefix: str, after: str, limit: int) -> list[Document]:
        """Documents with keys above `after`, ordered by key."""
        keys = self._keys.get(collection, [])
        page: list[Document] = []
        for place in range(max(bisect_left(keys, prefix), bisect_right(keys, after)), len(keys)):
            if len(page) >= limit or not keys[place].startswith(prefix):
                break
            page.append(_copy(self._documents[collection, keys[place]]))
        return page

    def stage(self, writes: Sequence[DocumentWrite], *, now_us: int) -> StagedDocuments:
        """The result of the writes, for `apply`; raises `StaleDocument` or `UserError`."""
        staged: dict[tuple[str, str], Document | None] = {}
        for write in writes:
            at = (write.collection, write.key)
            current = staged[at] if at in staged else self._documents.get(at)
            found = 0 if current is None else current.version
            if write.expected_version is not None and write.expected_version != found:
                raise StaleDocument(
                    write.collection, write.key, expected=write.expected_version, found=found
                )
            staged[at] = None
            if write.body is not None:
                staged[at] = Document(
                    collection=write.collection,
                    key=write.key,
                    body=checked_copy(write.body, "document {}/{}", write.collection, write.key),
                    version=found + 1,
                    updated_at_us=now_us,
                )
        return staged

    def apply(self, staged: StagedDocuments) -> None:
        """Store the result of `stage`."""
        for at, document in staged.items():
            collection, key = at
            if document is not None:
                if at not in self._documents:
                    insort(self._keys.setdefault(collection, []), key)
                self._documents[at] = document
            elif self._documents.pop(at, None) is not None:
                keys = self._keys[collection]
                del keys[bisect_left(keys, key)]
                if not keys:
                    del self._keys[collection]


def _copy(document: Document) -> Document:
    return replace(document, body=copy_json(document.body))
