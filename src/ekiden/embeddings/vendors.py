"""Embeddings from OpenAI, from servers with its interface, and from Google's Gemini."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ekiden.core.errors import ModelError
from ekiden.embeddings.remote import NO_KEY, RemoteEmbedder, Vendor

if TYPE_CHECKING:
    from google.genai import Client
    from openai import OpenAI

_TRANSIENT = frozenset({408, 409, 429})
_LONGEST_WAIT_S = 2.0
_CLOSED = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
"""The names of errors for a connection that the server closed."""


class OpenAIEmbedder(RemoteEmbedder):
    """Vectors from ``/embeddings``, through the vendor's own client.

    For example::

        OpenAIEmbedder("text-embedding-3-small").embed(["book a flight"])

    With another `base_url` than OpenAI's, no key is needed, and `dimension` is required for models
    that OpenAI does not have. The vectors of ``text-embedding-3-…`` can be shortened with
    `dimension`; for other models it is the size that the server returns, and is checked. `shorten`
    overrides whether the request contains the dimension.

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
            raise ModelError(f"{self._who} answered vectors that are not numbered from 0")
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
