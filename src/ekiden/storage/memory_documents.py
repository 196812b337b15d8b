"""The documents of the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ekiden.core.errors import StaleDocument
from ekiden.storage.base import Document, DocumentWrite
from ekiden.storage.values import checked_copy, copy_json

Staged: TypeAlias = Mapping[tuple[str, str], Document | None]
"""Documents as they will be, by collection and key; `None` is deleted."""


class MemoryDocuments:
    """Versioned documents; bodies are copied in and out."""

    __slots__ = ("_documents",)

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], Document] = {}

    def get(self, collection: str, key: str) -> Document | None:
        """The document, or `None`."""
        document = self._documents.get((collection, key))
        return None if document is None else _copy(document)

    def page(self, collection: str, *, prefix: str, after: str, limit: int) -> list[Document]:
        """Documents by key, those above `after`."""
        keys = sorted(
            key
            for within, key in self._documents
            if within == collection and key.startswith(prefix) and key > after
        )
        return [_copy(self._documents[collection, key]) for key in keys[:limit]]

    def stage(self, writes: Sequence[DocumentWrite], *, now_us: int) -> Staged:
        """What the writes come to; `StaleDocument`, `UserError` before anything is changed."""
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

    def apply(self, staged: Staged) -> None:
        """Make it so."""
        for at, document in staged.items():
            if document is None:
                self._documents.pop(at, None)
            else:
                self._documents[at] = document


def _copy(document: Document) -> Document:
    return replace(document, body=copy_json(document.body))
