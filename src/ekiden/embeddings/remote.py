"""What embedders over the network share: texts in batches, and vectors that are checked."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from ekiden.core.errors import ModelError, UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Ask: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""One request: a vector for each text, in order; `ModelError`."""

MAX_BYTES = 8_000
"""What comes after is not sent. A token is at least a byte, so this is less than the 8,192 tokens
that the vendors take, in every language: no text can be refused for its length."""

DEFAULT_TIMEOUT_S = 6.0
DEFAULT_RETRIES = 1

NO_KEY = "none"
"""Sent where none is needed: the vendors' clients insist on one."""

DEFAULT_REST_S = 5.0

_LONGEST_REST_S = 300.0
_THE_TEXTS_OWN = frozenset({400, 413, 422})
_BATCH_TEXTS = 64
_BATCH_BYTES = 256_000

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff\s]+")


class Rest:
    """Leaves a vendor that failed alone: for some seconds, then twice as long, up to five minutes.

    So whoever needs a vector while the vendor is away learns it at once, and waits only once for an
    answer that does not come. A text that is refused as it is says nothing of the others.
    """

    def __init__(self, who: str, *, first_s: float) -> None:
        self._who = who
        self._first_s = first_s
        self._failures = 0
        self._until = 0.0
        self._problem = ""
        self._status: int | None = None

    def ask(self, ask: Ask, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """What `ask` gives; `ModelError` without asking while the vendor is left alone."""
        left_s = self._until - time.monotonic()
        if left_s > 0:
            message = f"{self._problem} (it is asked again in {max(left_s, 1):.0f} s)"
            raise ModelError(message, status=self._status)
        try:
            answer = ask(texts)
        except ModelError as exc:
            if exc.status not in _THE_TEXTS_OWN:
                pause_s = min(self._first_s * 2.0 ** min(self._failures, 20), _LONGEST_REST_S)
                self._failures += 1
                self._problem, self._status = str(exc), exc.status
                self._until = time.monotonic() + pause_s
            raise
        self._failures = 0
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor of embeddings: what its embedders have in common."""

    name: str
    url: str
    url_variable: str
    """The variable of the environment with another address."""
    keys: Sequence[str]
    """The variables of the environment that may have the key; only the vendor itself needs one."""
    packages: Sequence[str]
    known: Mapping[str, int]
    """Models, with the length of their vectors."""


class RemoteEmbedder:
    """Base class of embedders that ask a vendor. `UserError` if something to do so is missing."""

    def __init__(
        self,
        vendor: Vendor,
        model: str,
        *,
        dimension: int | None,
        base_url: str | None,
        api_key: str | None,
        timeout_s: float,
        retries: int,
        rest_s: float,
    ) -> None:
        self._who = f"{vendor.name}:{model}"
        required((*vendor.packages, "numpy"), who=self._who)
        url = base_url or os.environ.get(vendor.url_variable) or vendor.url
        self._url = checked_url(url, who=self._who)
        self._key = key_for(self._who, api_key, vendor.keys, needed=self._url == vendor.url)
        self.dimensions = dimension_for(self._who, model, dimension, known=vendor.known)
        self.name = f"{self._who}/{self.dimensions}"
        self._model = model
        self._timeout_s = timeout_s
        self._retries = retries
        self._rest = Rest(self._who, first_s=rest_s)
        self._lock = threading.Lock()

    @property
    def target(self) -> tuple[str, str | None]:
        """Where it asks, and with which key."""
        return self._url, self._key

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `Embedder.embed`. Of a long text the first 8,000 bytes count."""
        import numpy as np

        plain = [_plain(text) for text in texts]
        vectors = np.zeros((len(plain), self.dimensions), dtype=np.float32)
        for rows in _batches(plain):
            answer = self._rest.ask(self._ask, [plain[row] for row in rows])
            vectors[rows] = _checked(
                answer, count=len(rows), dimensions=self.dimensions, who=self._who
            )
        return vectors

    def _ask(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One request, repeated if it fails for a passing reason: see `Ask`."""
        raise NotImplementedError


def required(modules: Sequence[str], *, who: str) -> None:
    """`UserError` that says how to install what is missing."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        raise UserError(
            f"{who} needs the package {' and '.join(missing)}: pip install 'ekiden[models,vectors]'"
        )


def key_for(who: str, given: str | None, variables: Sequence[str], *, needed: bool) -> str | None:
    """The key that was given, or that of the first variable that is set."""
    key = given or next(filter(None, map(os.environ.get, variables)), None)
    if key is None and needed:
        raise UserError(f"{who} needs an API key: set {variables[0]}, or pass api_key=")
    if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
        raise UserError(
            f"the API key for {who} has spaces around it, or signs that no header can carry"
        )
    return key


def checked_url(url: str, *, who: str) -> str:
    """`url` without a final slash; `UserError` if it cannot be a base URL or holds a secret."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, fits = urlsplit(""), None
    if not fits or parts.query or parts.fragment or parts.username or parts.password:
        raise UserError(
            f"the base URL of {who} must look like https://host/v1, without a user, a password, "
            "a query or a fragment"
        )
    return url.rstrip("/")


def dimension_for(
    who: str, model: str, given: int | None, *, known: Mapping[str, int], longest: int = 65_536
) -> int:
    """How long the vectors of `model` are; `UserError` if nobody says."""
    if given is None:
        if model not in known:
            raise UserError(
                f"how long are the vectors of {who}? Say dimension=…; known are those of "
                f"{', '.join(sorted(known))}"
            )
        return known[model]
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= longest:
        raise UserError(f"the dimension of {who} is a whole number from 1 to {longest:,}")
    if model in known and given > known[model]:
        raise UserError(f"{who} makes vectors of at most {known[model]} numbers, not {given}")
    return given


def _plain(text: str) -> str:
    """What is sent of a text: no control characters, nothing that is not Unicode, not too much."""
    plain = _UNSEEN.sub(" ", text[:MAX_BYTES]).strip()
    return plain.encode()[:MAX_BYTES].decode(errors="ignore")


def _batches(plain: Sequence[str]) -> Iterator[list[int]]:
    """The rows of the texts that go together; empty texts go nowhere."""
    rows: list[int] = []
    size = 0
    for row, text in enumerate(plain):
        if not text:
            continue
        length = len(text.encode())
        if rows and (len(rows) == _BATCH_TEXTS or size + length > _BATCH_BYTES):
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += length
    if rows:
        yield rows


def _checked(
    answer: Sequence[Sequence[float]], *, count: int, dimensions: int, who: str
) -> NDArray[np.float32]:
    import numpy as np

    if len(answer) != count:
        raise ModelError(f"{who} answered {len(answer)} vectors for {count} texts")
    lengths = {len(vector) for vector in answer} - {dimensions}
    if lengths:
        raise ModelError(
            f"{who} answered a vector of {min(lengths)} numbers, not {dimensions}: "
            f"set the dimension to {min(lengths)} if that is the model's"
        )
    try:
        vectors = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise ModelError(f"{who} answered vectors that are not made of numbers") from exc
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(sizes).all() or not sizes.all():
        raise ModelError(f"{who} answered a vector that has no direction")
    rows: NDArray[np.float32] = (vectors / sizes).astype(np.float32)
    return rows


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
