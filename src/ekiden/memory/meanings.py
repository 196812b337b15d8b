"""Vectors for memories: made in threads, and made again when the embedder is another."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from time import monotonic
from typing import Any

from ekiden.core.errors.memory import NoEmbedder
from ekiden.embeddings.base import Embedder
from ekiden.memory.lanes import Resting, embedded
from ekiden.storage.base import SearchStore

EMBED_TIMEOUT_S = 15.0
"""For a batch of texts."""
_BATCH = 64
_BATCHES = 4
_RENEWAL_S = 1.0
"""So many are made anew for one question, and after so long no more; the rest with the next."""

_log = logging.getLogger("ekiden.memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What came of giving entries new vectors."""

    keys: Sequence[str] = ()
    """Those that have one now."""
    is_complete: bool = True
    """Whether all entries of the space have a vector of the embedder."""


def default_embedder() -> Embedder:
    """The one that runs in this process; `NoEmbedder` without the extra ``local``."""
    from ekiden.embeddings.local import MISSING, local_embedder

    found = local_embedder()
    if found is None:
        raise NoEmbedder(
            f"memories of the type `vector` need an embedding, and {MISSING}; or use the type "
            "`key_value`, or name another `embedding_model`"
        )
    return found


def model_of(embedder: Embedder) -> str:
    """What its vectors are filed under: they are compared with each other only."""
    length = f"/{embedder.dimensions}"
    return embedder.name if embedder.name.endswith(length) else f"{embedder.name}{length}"


async def vectors_of(embedder: Embedder, texts: Sequence[str]) -> list[list[float]] | None:
    """A vector for each text; `None` if the embedder cannot now, or gives what are no vectors of
    its length, which is logged."""
    try:
        rows = await embedded(embedder, texts, seconds=EMBED_TIMEOUT_S)
        return _checked(rows, count=len(texts), length=embedder.dimensions)
    except Resting:
        return None
    except Exception as exc:
        _log.warning("the embedder %s failed: %s: %s", embedder.name, type(exc).__name__, exc)
        return None


def _checked(rows: Any, *, count: int, length: int) -> list[list[float]]:
    found: list[list[float]] = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    if len(found) != count:
        raise ValueError(f"it made {len(found)} vectors of {count} texts")
    for row in found:
        if len(row) != length:
            raise ValueError(f"a vector has {len(row)} numbers, not {length}")
        if not all(map(isfinite, row)):
            raise ValueError("a vector has a value that is not a finite number")
    return found


async def renew(store: SearchStore, space: str, embedder: Embedder) -> Renewal:
    """Give entries of the space that have no vector of this embedder one, some hundred at most.

    They may have been stored by another embedder, by an agent that goes by words, or while the
    embedder was away.
    """
    model, after = model_of(embedder), ""
    done: list[str] = []
    end = monotonic() + _RENEWAL_S
    for number in range(_BATCHES):
        if number and monotonic() > end:
            break
        old = await store.find_entries(space, after=after, not_of_model=model, limit=_BATCH)
        if not old:
            return Renewal(keys=done)
        after = old[-1].key
        vectors = await vectors_of(embedder, [entry.text for entry in old])
        if vectors is None:
            return Renewal(keys=done, is_complete=False)
        new = [
            replace(entry, vector=vector, model=model)
            for entry, vector in zip(old, vectors, strict=True)
        ]
        done.extend(await store.put_vectors(new))
    left = await store.find_entries(space, not_of_model=model, limit=1)
    return Renewal(keys=done, is_complete=not left)
