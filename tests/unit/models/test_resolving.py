"""From a name to a model: providers, URLs, keys, and what is said when something is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ekiden import models
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    assistant_message,
    user_message,
)
from ekiden.core.errors import UserError
from ekiden.models import (
    ModelOptions,
    RetryPolicy,
    check_not_blocked,
    known_providers,
    real_models_blocked,
    register_provider,
    registry,
    resolve_model,
)
from ekiden.models.providers import BUILT_IN
from ekiden.models.registry import Target, target_of


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in BUILT_IN.values():
        for name in (backend.url_variable, *backend.key_variables):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))


class Echo:
    """A user's own model."""

    def __init__(self, options: ModelOptions) -> None:
        self.options = options

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ModelResponse(output=[assistant_message(str(request.input[-1]["content"]))])


def target(name: str, **options: Any) -> Target:
    prefix, _, model = name.partition(":")
    return target_of(ModelOptions(provider=prefix, model=model, **options), BUILT_IN[prefix])


async def test_a_registered_provider_creates_the_model() -> None:
    register_provider("acme", Echo)
    model = resolve_model(
        "acme:big:v2", base_url="https://acme.example", api_key="k", timeout_s=5, retries=1
    )
    assert isinstance(model, Echo)
    assert model.options == ModelOptions(
        provider="acme",
        model="big:v2",
        base_url="https://acme.example",
        api_key="k",
        timeout_s=5,
        retry=RetryPolicy(retries=1),
    )
    (response,) = [
        event
        async for event in model.respond(ModelRequest(instructions=None, input=[user_message("x")]))
    ]
    assert isinstance(response, ModelResponse)
    assert "acme" in known_providers()


def test_a_built_in_provider_can_be_replaced() -> None:
    assert set(BUILT_IN) <= set(known_providers())
    register_provider("openai", Echo)
    assert isinstance(resolve_model("openai:anything"), Echo)


@pytest.mark.parametrize("prefix", ["", "Big", "a:b", "a b", "-a"])
def test_an_invalid_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(UserError, match="cannot be a provider's prefix"):
        register_provider(prefix, Echo)


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'opnai'; known: anthropic, .*google, local, openai"):
        resolve_model("opnai:gpt-5")


@pytest.mark.parametrize("name", ["gpt5", "openai:", ":gpt-5", ""])
def test_an_invalid_model_name_is_refused_with_the_format(name: str) -> None:
    with pytest.raises(UserError, match="write provider:model"):
        resolve_model(name)


def test_a_url_in_the_name_is_the_address_of_the_model() -> None:
    register_provider("acme", Echo)
    model: Any = resolve_model("acme:llama@3@http://127.0.0.1:8080/v1")
    assert model.options.model == "llama@3"
    assert model.options.base_url == "http://127.0.0.1:8080/v1"
    assert model.options.base_url_is_inline
    with pytest.raises(UserError, match="keep one"):
        resolve_model("acme:llama@http://127.0.0.1/v1", base_url="http://127.0.0.1/v1")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai-chat:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude", "ANTHROPIC_API_KEY"),
        ("google:gemini", "GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_is_reported_with_its_variable(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"set {variable}, or pass api_key="):
        resolve_model(name)
    monkeypatch.setenv(variable, "k")
    assert name in repr(resolve_model(name))


def test_urls_and_keys_of_the_nearest_source_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment")
    assert target("openai:m").base_url == "https://api.openai.com/v1"
    assert target("openai:m").source == "openai"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1/")
    assert target("openai:m").base_url == "https://gateway.example/v1"
    assert target("openai:m").source == "openai@gateway.example"
    assert target("openai:m").api_key == "environment"
    nearest = target("openai:m", base_url="http://127.0.0.1:1/v1", api_key="argument")
    assert (nearest.base_url, nearest.api_key) == ("http://127.0.0.1:1/v1", "argument")


def test_the_environment_key_is_not_sent_to_urls_in_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment")
    inline = {"base_url": "https://elsewhere.example", "base_url_is_inline": True}
    assert target("openai:m", **inline).api_key is None
    own = {"base_url": "https://api.openai.com/v1", "base_url_is_inline": True}
    assert target("openai:m", **own).api_key == "environment"


@pytest.mark.parametrize(
    "url", ["ftp://x/v1", "x", "http://", "https://h/v1?key=1", "https://h/#a", "http://h:99999/"]
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="must look like https://host/v1"):
        target("openai:m", base_url=url)


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(UserError, match=r"for h:1 holds a user name or password") as info:
        target("openai:m", base_url="https://me:canary@h:1/v1")
    assert "canary" not in str(info.value)


def test_every_repr_hides_the_api_key() -> None:
    options = ModelOptions(provider="openai", model="m", api_key="canary")
    for value in (options, target_of(options, BUILT_IN["openai"])):
        assert "canary" not in repr(value)
    assert "canary" not in repr(resolve_model("openai:m", api_key="canary"))


@pytest.mark.parametrize(
    ("name", "missing"),
    [("openai:m", "pydantic_ai"), ("openai:m", "openai"), ("google:m", "google.genai")],
)
def test_a_missing_package_is_reported_with_the_install_command(
    name: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, missing, raising=False)
    monkeypatch.setitem(sys.modules, missing.partition(".")[0], None)
    with pytest.raises(UserError, match=rf"needs {missing}: pip install 'ekiden\[models\]'"):
        resolve_model(name, api_key="k")


def test_resolving_a_model_imports_no_provider() -> None:
    program = (
        "import sys; from ekiden.models import resolve_model; "
        "resolve_model('openai:gpt-5', api_key='k'); "
        "print([m for m in ('pydantic_ai', 'pydantic', 'openai', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("value", "blocked"), [("1", True), ("yes", True), ("0", False), ("", False), ("off", False)]
)
def test_models_are_blocked_by_an_environment_variable(
    value: str, blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_BLOCK_MODELS", value)
    assert real_models_blocked() is blocked


@pytest.mark.parametrize(
    "host", ["127.0.0.1:80", "localhost", "[::1]:1", "127.8.9.1", "a.localhost"]
)
def test_models_on_localhost_are_never_blocked(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_BLOCK_MODELS", "1")
    check_not_blocked(f"http://{host}/v1")


@pytest.mark.parametrize(
    "host", ["api.openai.com", "10.0.0.1", "localhost.evil.example", "[::2]:1"]
)
def test_models_on_other_hosts_are_blocked(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_BLOCK_MODELS", "1")
    with pytest.raises(UserError, match="not on this machine"):
        check_not_blocked(f"https://{host}/v1")


def test_retry_delays_grow_are_capped_and_end() -> None:
    policy = RetryPolicy(retries=8, jitter=lambda: 1.0)
    waits = [policy.wait_s(failed, None) for failed in range(1, 10)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, None]


def test_jitter_shortens_a_delay_by_at_most_half() -> None:
    assert RetryPolicy(jitter=lambda: 0.0).wait_s(1, None) == 0.25


def test_a_retry_after_of_the_provider_is_followed_up_to_the_cap() -> None:
    policy = RetryPolicy(cap_s=10)
    assert policy.wait_s(1, 9.5) == 9.5
    assert policy.wait_s(1, 10.5) is None
    assert policy.wait_s(4, 1) is None


def test_the_public_names_are_listed() -> None:
    assert sorted(models.__all__) == [
        "ModelOptions",
        "ProviderFactory",
        "RetryPolicy",
        "check_not_blocked",
        "known_providers",
        "real_models_blocked",
        "register_provider",
        "resolve_model",
    ]
