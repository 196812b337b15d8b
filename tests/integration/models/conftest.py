"""Real clients against servers on loopback; nothing here may reach a real provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from ekiden.core.conversation.model import Model, ModelDelta, ModelRequest, ModelResponse
from ekiden.models import RetryPolicy

Answered: TypeAlias = tuple[list[ModelDelta], ModelResponse]
Ask: TypeAlias = Callable[[Model, ModelRequest], Awaitable[Answered]]

_VARIABLES = (
    "ALL_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)


@pytest.fixture(autouse=True)
def no_real_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EKIDEN_BLOCK_MODELS", "1")


@pytest.fixture(params=["openai", "openai-chat"])
def api(request: pytest.FixtureRequest) -> str:
    """Both of OpenAI's wire formats."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def ask() -> Ask:
    """Drain one call: its deltas, and the one response that comes last."""

    async def drain(model: Model, request: ModelRequest) -> Answered:
        *deltas, response = [event async for event in model.respond(request)]
        assert isinstance(response, ModelResponse)
        assert all(isinstance(delta, ModelDelta) for delta in deltas)
        return [delta for delta in deltas if isinstance(delta, ModelDelta)], response

    return drain


class Waits:
    """Records how long a model would have slept, and does not sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def policy(self, retries: int = 3) -> RetryPolicy:
        return RetryPolicy(retries=retries, sleep=self.sleep, jitter=lambda: 1.0)


@pytest.fixture
def waits() -> Waits:
    return Waits()
