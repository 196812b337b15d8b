"""Embeddings over the network, from OpenAI, servers with OpenAI's interface, and Google's
Gemini."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from ekiden.core.errors import ModelError, UserError
from ekiden.core.integrations.lazy import is_installed

if TYPE_CHECKING:
    import numpy as np
    from google.genai import Client
    from numpy.typing import NDArray
    from openai import OpenAI

Ask: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""A function that makes one request, and returns a vector for each text, in order. It raises
`ModelError`."""

MAX_BYTES = 8_000
"""The number of bytes of a text that are sent. Vendors accept 8,192 tokens, and a token has at
least one byte. So no text is refused for its length."""

NO_KEY = "none"
"""The key that is sent to servers that need no key, because the vendors' clients require a key."""

_LONGEST_REST_S = 300.0
_BAD_TEXT = frozenset({400, 413, 422})
"""Statuses that refuse the texts and do not mean that the vendor is unavailable."""
_BATCH_TEXTS = 64
_BATCH_BYTES = 256_000

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff\s]+")


class Rest:
    """A circuit breaker, which refuses all requests for some seconds after a failure. With each
    further failure this time doubles, up to five minutes.

    So while a vendor is unavailable, most requests fail at once instead of waiting for the timeout.
    A refused text does not count as a failure.
    """

    def __init__(self, who: str, *, first_s: float) -> None:
        self._who = who
        self._first_s = first_s
        self._failures = 0
        self._until = 0.0
        self._problem = ""
        self._status: int | None = None

    def ask(self, ask: Ask, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the answer of `ask`. While requests are refused, raises `ModelError` without a
        call of `ask`."""
        left_s = self._until - time.monotonic()
        if left_s > 0:
            message = f"{self._problem} (it is asked again in {max(left_s, 1):.0f} s)"
            raise ModelError(message, status=self._status)
        try:
            answer = ask(texts)
        except ModelError as exc:
            if exc.status not in _BAD_TEXT:
                pause_s = min(self._first_s * 2.0 ** min(self._failures, 20), _LONGEST_REST_S)
                self._failures += 1
                self._problem, self._status = str(exc), exc.status
                self._until = time.monotonic() + pause_s
            raise
        self._failures = 0
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The facts about a vendor of embeddings."""

    name: str
    url: str
    """The vendor's own address. Only this address requires a key."""
    url_variable: str
    """The environment variable for another address."""
    keys: Sequence[str]
    """The environment variables for the key. The first variable that is set is used."""
    packages: Sequence[str]
    """Modules that must be installed."""
    default_model: str
    known: Mapping[str, int]
    """The length of the vectors of known models, by model name."""


class RemoteEmbedder:
    """Base class of embedders that call a vendor.

    A call that fails for a transient reason is repeated `retries` times, the first time after about
    `pause_s`. Each attempt has the timeout `timeout_s`. If no attempt succeeds, `embed` raises
    `ModelError`, with the HTTP status if there is one. For the next `rest_s` seconds all calls fail
    at once. This time doubles with each further failure. Raises `UserError` if the key, a package
    or the dimension is missing.
    """

    vendor: ClassVar[Vendor]

    def __init__(
        self,
        model: str | None = None,
        *,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 6.0,
        retries: int = 1,
        rest_s: float = 5.0,
        pause_s: float = 0.5,
    ) -> None:
        vendor = self.vendor
        self._model = model or vendor.default_model
        self._who = f"{vendor.name}:{self._model}"
        required((*vendor.packages, "numpy"), who=self._who)
        url = base_url or os.environ.get(vendor.url_variable) or vendor.url
        self._url = checked_url(url, who=self._who)
        self._key = key_for(self._who, api_key, vendor.keys, needed=self._url == vendor.url)
        self.dimensions = dimension_for(self._who, self._model, dimension, known=vendor.known)
        self.name = f"{self._who}/{self.dimensions}"
        self._timeout_s = timeout_s
        self._retries = retries
        self._pause_s = pause_s
        self._rest = Rest(self._who, first_s=rest_s)
        self._lock = threading.Lock()

    @property
    def target(self) -> tuple[str, str | None]:
        """The address and the key."""
        return self._url, self._key

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`. Only the first 8,000 bytes count."""
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
        """One request, repeated after transient failures: see `Ask`."""
        raise NotImplementedError


def required(modules: Sequence[str], *, who: str) -> None:
    """Raise `UserError` with the installation command if a module is missing."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise UserError(
            f"{who} needs the package {' and '.join(missing)}: pip install 'ekiden[models,vectors]'"
        )


def key_for(who: str, given: str | None, variables: Sequence[str], *, needed: bool) -> str | None:
    """The given key, or the key in the first variable that is set. Raises `UserError` if a needed
    key is missing."""
    key = given or next(filter(None, map(os.environ.get, variables)), None)
    if key is None and needed:
        raise UserError(f"{who} needs an API key: set {variables[0]}, or pass api_key=")
    if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
        raise UserError(
            f"the API key for {who} has spaces around it, or characters that a header "
            "cannot contain"
        )
    return key


def checked_url(url: str, *, who: str) -> str:
    """`url` without a final slash. Raises `UserError` if the address is invalid or contains a
    secret."""
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
    """The length of the model's vectors. Raises `UserError` if the length is unknown or invalid."""
    if given is None:
        if model not in known:
            raise UserError(
                f"the dimension of {who} is unknown: pass dimension=…; known: "
                f"{', '.join(sorted(known))}"
            )
        return known[model]
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= longest:
        raise UserError(f"the dimension of {who} must be a whole number from 1 to {longest:,}")
    if model in known and given > known[model]:
        raise UserError(f"{who} makes vectors of at most {known[model]} numbers, not {given}")
    return given


def _plain(text: str) -> str:
    """The text to send: without control characters and invalid Unicode, and shortened."""
    plain = _UNSEEN.sub(" ", text[:MAX_BYTES]).strip()
    return plain.encode()[:MAX_BYTES].decode(errors="ignore")


def _batches(plain: Sequence[str]) -> Iterator[list[int]]:
    """The positions of the texts in each batch; empty texts are left out."""
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
        raise ModelError(f"{who} returned {len(answer)} vectors for {count} texts")
    lengths = {len(vector) for vector in answer} - {dimensions}
    if lengths:
        raise ModelError(
            f"{who} returned a vector of {min(lengths)} numbers, not {dimensions}: "
            f"set the dimension to {min(lengths)} if that is the model's"
        )
    try:
        vectors = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise ModelError(f"{who} returned vectors that are not numbers") from exc
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(sizes).all() or not sizes.all():
        raise ModelError(f"{who} returned a vector that is zero or not finite")
    rows: NDArray[np.float32] = (vectors / sizes).astype(np.float32)
    return rows


_TRANSIENT = frozenset({408, 409, 429})
_LONGEST_WAIT_S = 2.0
_CLOSED = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
"""The names of errors for a connection that the server closed."""


class OpenAIEmbedder(RemoteEmbedder):
    """Vectors from ``/embeddings``, through the vendor's own client.

    For example::

        OpenAIEmbedder("text-embedding-3-small").embed(["book a flight"])

    With another `base_url` than OpenAI's, no key is needed. `dimension` is required for models that
    OpenAI does not have. For ``text-embedding-3-…``, `dimension` can shorten the vectors. For other
    models, it must be the length of the vectors that the server returns. `shorten` sets whether the
    request contains the dimension. By default the request contains the dimension if it differs from
    the model's known length.

    If a server asks for a delay of more than two seconds, `embed` raises `ModelError` at once.
    """

    vendor = Vendor(
        name="openai",
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        keys=("OPENAI_API_KEY",),
        packages=("openai",),
        default_model="text-embedding-3-small",
        known={
            "text-embedding-3-large": 3072,
            "text-embedding-3-small": 1536,
            "text-embedding-ada-002": 1536,
        },
    )

    def __init__(
        self, model: str | None = None, *, shorten: bool | None = None, **options: Any
    ) -> None:
        super().__init__(model, **options)
        if shorten is None:
            shorten = self.vendor.known.get(self._model, self.dimensions) != self.dimensions
        self._shorten = shorten
        self._made: OpenAI | None = None

    def _ask(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        for attempt in range(self._retries):
            try:
                return self._ask_once(texts)
            except ModelError as exc:
                wait_s = _wait_s(exc.__cause__, self._pause_s * 2.0**attempt)
                if wait_s is None:
                    raise
                time.sleep(wait_s)
        return self._ask_once(texts)

    def _ask_once(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        import openai

        options: dict[str, Any] = {"dimensions": self.dimensions} if self._shorten else {}
        try:
            answer = self._client().embeddings.create(
                model=self._model, input=list(texts), **options
            )
        except openai.APITimeoutError as exc:
            raise ModelError(f"{self._who} did not answer within {self._timeout_s:g} s") from exc
        except openai.APIStatusError as exc:
            raise ModelError(
                f"{self._who} answered {exc.status_code}: {exc.message:.300}",
                status=exc.status_code,
            ) from exc
        except (openai.OpenAIError, ValueError, TypeError) as exc:
            raise ModelError(f"{self._who}: {exc!s:.300}") from exc
        data = answer.data
        if sorted(each.index for each in data) != list(range(len(data))):
            raise ModelError(f"{self._who} returned vectors that are not numbered from 0")
        return [each.embedding for each in sorted(data, key=lambda each: each.index)]

    def _client(self) -> OpenAI:
        from openai import OpenAI

        with self._lock:
            if self._made is None:
                self._made = OpenAI(
                    api_key=self._key or NO_KEY,
                    base_url=self._url,
                    timeout=self._timeout_s,
                    max_retries=0,
                )
            return self._made


def _wait_s(exc: BaseException | None, pause_s: float) -> float | None:
    """The delay before the next attempt; `None` if another attempt is useless or too far off."""
    import openai

    if isinstance(exc, openai.APIStatusError):
        if exc.status_code not in _TRANSIENT and exc.status_code < 500:
            return None
        for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                asked_s = float(exc.response.headers.get(name, "")) * unit_s
            except ValueError:
                continue
            return asked_s if 0 <= asked_s <= _LONGEST_WAIT_S else None
    elif not isinstance(exc, openai.APIConnectionError):
        return None
    return min(random.uniform(0.5, 1.0) * pause_s, _LONGEST_WAIT_S)


class GeminiEmbedder(RemoteEmbedder):
    """Vectors from ``:batchEmbedContents``, through the vendor's own client.

    For example::

        GeminiEmbedder("gemini-embedding-001", dimension=768).embed(["book a flight"])
    """

    vendor = Vendor(
        name="gemini",
        url="https://generativelanguage.googleapis.com",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        packages=("google.genai",),
        default_model="gemini-embedding-001",
        known={"gemini-embedding-001": 3072, "gemini-embedding-2": 3072},
    )

    def __init__(self, model: str | None = None, **options: Any) -> None:
        super().__init__(model, **options)
        self._made: Client | None = None

    def _ask(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        from google.genai import types

        # Some models read a list of texts as parts of one content and return one vector for all.
        contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        is_usual = self.vendor.known.get(self._model) == self.dimensions
        config = types.EmbedContentConfig(
            output_dimensionality=None if is_usual else self.dimensions
        )
        for left in reversed(range(self._retries + 1)):
            try:
                answer = self._client().models.embed_content(
                    model=self._model, contents=list(contents), config=config
                )
                return [each.values or [] for each in answer.embeddings or []]
            except Exception as exc:
                # The client retries by itself, except if the server closed the connection.
                if not (left and type(exc).__name__ in _CLOSED):
                    raise self._translated(exc) from exc
        raise AssertionError("the last attempt returns or raises")

    def _translated(self, exc: Exception) -> ModelError:
        from google.genai import errors

        if isinstance(exc, errors.APIError):
            message = f"{self._who} answered {exc.code}: {exc.message or exc.status!s:.300}"
            return ModelError(message, status=exc.code)
        # The error's class depends on the HTTP library of the client's version.
        if "Timeout" in type(exc).__name__:
            return ModelError(f"{self._who} did not answer within {self._timeout_s:g} s")
        return ModelError(f"{self._who}: {type(exc).__name__}: {exc!s:.300}")

    def _client(self) -> Client:
        from google.genai import Client, types

        with self._lock:
            if self._made is None:
                retrying = types.HttpRetryOptions(
                    attempts=self._retries + 1,
                    initial_delay=self._pause_s,
                    max_delay=8.0,
                    jitter=self._pause_s,
                )
                self._made = Client(
                    vertexai=False,
                    api_key=self._key or NO_KEY,
                    http_options=types.HttpOptions(
                        base_url=self._url,
                        timeout=max(round(self._timeout_s * 1000), 1),
                        retry_options=retrying,
                    ),
                )
            return self._made
