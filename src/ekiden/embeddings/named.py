"""Embedders by name: ``local``, ``hashing``, ``openai:model``, ``gemini:model``."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from ekiden.core.errors import UserError
from ekiden.core.text.wording import suggestion

if TYPE_CHECKING:
    from ekiden.embeddings.base import Embedder

_INLINE_URL = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")
_shared: dict[tuple[str, tuple[str, str | None]], Embedder] = {}
"""One for each model at each address, so that all who use it have one pool of connections and know
of its failures."""
_lock = threading.Lock()
_KNOWN = ("local", "hashing", "openai", "gemini")


def embedder_for(
    name: str,
    *,
    dimension: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Embedder:
    """The embedder with this `name`.

    ``local`` computes in this process and needs the extra ``local``. ``hashing`` also computes in
    this process, without a language model. ``openai:text-embedding-3-small`` and
    ``gemini:gemini-embedding-001`` call a vendor. Your own server is
    ``openai:model@http://host/v1``, or `base_url`. For example::

        embedder_for("openai:text-embedding-3-small", dimension=512)

    This function makes no network call. Raises `UserError` for an invalid name or dimension, and
    for a missing key or package.
    """
    check_embedder_name(name)
    provider, _, rest = name.partition(":")
    if provider in ("local", "hashing"):
        return _local(dimension) if provider == "local" else _hashing(dimension)
    return _vendor(provider, rest, dimension=dimension, base_url=base_url, api_key=api_key)


def check_embedder_name(name: str) -> None:
    """`UserError` for what no embedder is called."""
    if not isinstance(name, str) or not name:
        raise UserError(f"an embedder is named by a text: {_examples()}")
    provider, colon, rest = name.partition(":")
    if provider in ("local", "hashing") and colon:
        raise UserError(f"the embedder {provider} has no models to choose: write {provider!r}")
    if provider not in _KNOWN:
        raise UserError(
            f"no embedder is called {name[:80]!r}; there are {_examples()}"
            f"{suggestion(provider, _KNOWN)}"
        )
    if provider not in ("local", "hashing") and not rest:
        raise UserError(f"{name!r} names no model: write {_examples()}")


def _vendor(
    provider: str,
    rest: str,
    *,
    dimension: int | None,
    base_url: str | None,
    api_key: str | None,
) -> Embedder:
    from ekiden.embeddings import gemini, openai
    from ekiden.embeddings.remote import NO_KEY

    inline = _INLINE_URL.fullmatch(rest)
    if inline and base_url:
        raise UserError(
            f"{provider}:{inline['model']} has a URL in its name and in base_url=: keep one"
        )
    model, url = (inline["model"], inline["url"]) if inline else (rest, base_url)
    official = openai.OFFICIAL_URL if provider == "openai" else gemini.OFFICIAL_URL
    if inline and url != official:
        # A name may come from a file: the environment's key is not for any server it says.
        api_key = api_key or NO_KEY
    make = openai.OpenAIEmbedder if provider == "openai" else gemini.GeminiEmbedder
    made = make(model, dimension=dimension, base_url=url, api_key=api_key)
    with _lock:
        return _shared.setdefault((made.name, made.target), made)


def _local(dimension: int | None) -> Embedder:
    from ekiden.embeddings.local import MISSING, local_embedder

    embedder = local_embedder()
    if embedder is None:
        raise UserError(MISSING)
    if dimension not in (None, embedder.dimensions):
        raise UserError(
            f"the embedder local makes vectors of {embedder.dimensions} numbers, not {dimension}"
        )
    return embedder


def _hashing(dimension: int | None) -> Embedder:
    from ekiden.embeddings.remote import dimension_for, required

    required(("numpy",), who="hashing")
    from ekiden.embeddings.letters import HashingEmbedder

    return HashingEmbedder(dimension_for("hashing", "hashing", dimension, known={"hashing": 2048}))


def _examples() -> str:
    return (
        "local, hashing, openai:MODEL (such as openai:text-embedding-3-small), "
        "gemini:MODEL (such as gemini:gemini-embedding-001)"
    )
