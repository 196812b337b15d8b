"""Embeddings from OpenAI, or from any server that speaks as OpenAI does."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    from openai import OpenAI

OFFICIAL_URL = "https://api.openai.com/v1"
_PASSING = frozenset({408, 409, 429})
_LONGEST_WAIT_S = 2.0
_VENDOR = Vendor(
    name="openai",
    url=OFFICIAL_URL,
    url_variable="OPENAI_BASE_URL",
    keys=("OPENAI_API_KEY",),
    packages=("openai",),
    known={
        "text-embedding-3-large": 3072,
        "text-embedding-3-small": 1536,
        "text-embedding-ada-002": 1536,
    },
)


class OpenAIEmbedder(RemoteEmbedder):
    """Vectors from ``/embeddings``, through the vendor's own client.

    For example::

        OpenAIEmbedder("text-embedding-3-small").embed(["book a flight"])

    Where `base_url` is not OpenAI's, no key is needed, and `dimension` must be said for a model
    that OpenAI does not have. Of ``text-embedding-3-…`` a shorter `dimension` can be had; of
    another model it is what its server answers, and is checked. With `shorten` the server is
    asked for the dimension, or not, whatever the model is.

    A call that fails for a passing reason is repeated `retries` times, after as long as the server
    says or ever later; each attempt has `timeout_s`. If none goes well, or the server wants to be
    left alone for longer than two seconds, `embed` raises `ModelError`, with the status if there is
    one. From then on it fails at once for `rest_s`, and for twice as long after each further
    failure. `UserError` if the key, a package or the dimension is missing.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        rest_s: float = DEFAULT_REST_S,
        shorten: bool | None = None,
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
        if shorten is None:
            shorten = _VENDOR.known.get(model, self.dimensions) != self.dimensions
        self._shorten = shorten
        self._made: OpenAI | None = None

    def _ask(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        for attempt in range(self._retries):
            try:
                return self._ask_once(texts)
            except ModelError as exc:
                wait_s = _wait_s(exc.__cause__, attempt)
                if wait_s is None:
                    raise
                time.sleep(wait_s)
        return self._ask_once(texts)

    def _ask_once(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        import openai

        asked: dict[str, Any] = {"dimensions": self.dimensions} if self._shorten else {}
        try:
            answer = self._client().embeddings.create(model=self._model, input=list(texts), **asked)
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


def _wait_s(exc: BaseException | None, attempt: int) -> float | None:
    """How long to wait for another attempt; `None` if it makes no sense, or not so soon."""
    import openai

    if isinstance(exc, openai.APIStatusError):
        if exc.status_code not in _PASSING and exc.status_code < 500:
            return None
        for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                asked_s = float(exc.response.headers.get(name, "")) * unit_s
            except ValueError:
                continue
            return asked_s if 0 <= asked_s <= _LONGEST_WAIT_S else None
    elif not isinstance(exc, openai.APIConnectionError):
        return None
    return min(random.uniform(0.25, 0.5) * 2.0**attempt, _LONGEST_WAIT_S)
