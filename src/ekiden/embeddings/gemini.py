"""Embeddings from Google's Gemini."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.core.errors import ModelError
from ekiden.embeddings.remote import (
    DEFAULT_REST_S,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
    NO_KEY,
    RemoteEmbedder,
    Vendor,
)

if TYPE_CHECKING:
    from google.genai import Client

OFFICIAL_URL = "https://generativelanguage.googleapis.com"
_CLOSED = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
_VENDOR = Vendor(
    name="gemini",
    url=OFFICIAL_URL,
    url_variable="GOOGLE_GEMINI_BASE_URL",
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    packages=("google.genai",),
    known={"gemini-embedding-001": 3072, "gemini-embedding-2": 3072},
)


class GeminiEmbedder(RemoteEmbedder):
    """Vectors from ``:batchEmbedContents``, through the vendor's own client.

    For example::

        GeminiEmbedder("gemini-embedding-001", dimension=768).embed(["book a flight"])

    The server is asked for vectors of `dimension` numbers, and for as many as the model has by
    itself if none is given. A call that fails for a passing reason is repeated `retries` times,
    the first time after about `pause_s`; each attempt has `timeout_s`. If none goes well, `embed`
    raises `ModelError`, with the status if there is one. From then on it fails at once for
    `rest_s`, and for twice as long after each further failure. `UserError` if the key, a package or
    the dimension is missing.
    """

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        *,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        rest_s: float = DEFAULT_REST_S,
        pause_s: float = 0.5,
    ) -> None:
        super().__init__(
            _VENDOR,
            model,
            dimension=dimension,
            base_url=base_url,
            api_key=api_key,
            timeout_s=timeout_s,
            retries=retries,
            rest_s=rest_s,
        )
        self._shorten = _VENDOR.known.get(model) != self.dimensions
        self._pause_s = pause_s
        self._made: Client | None = None

    def _ask(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        from google.genai import types

        # Plain texts in a list would be parts of one content for some models: one vector for all.
        contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        config = types.EmbedContentConfig(
            output_dimensionality=self.dimensions if self._shorten else None
        )
        for left in reversed(range(self._retries + 1)):
            try:
                answer = self._client().models.embed_content(
                    model=self._model, contents=list(contents), config=config
                )
                return [each.values or [] for each in answer.embeddings or []]
            except Exception as exc:
                # The client tries again by itself, but not where a server closed the connection.
                if not (left and type(exc).__name__ in _CLOSED):
                    raise self._translated(exc) from exc
        raise AssertionError("the last attempt returns or raises")

    def _translated(self, exc: Exception) -> ModelError:
        from google.genai import errors

        if isinstance(exc, errors.APIError):
            message = f"{self._who} answered {exc.code}: {exc.message or exc.status!s:.300}"
            return ModelError(message, status=exc.code)
        # Which HTTP library raises depends on the client's version.
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
