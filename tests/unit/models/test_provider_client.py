"""Requests and failures in the provider's words, without a call."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelTimeoutError

from ekiden.core.conversation.model import (
    ModelRequest,
    OutputSpec,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.errors import ModelBehaviorError, ModelError, ModelTimeout
from ekiden.models import ModelOptions
from ekiden.models.provider_client import ProviderClient
from ekiden.models.providers import BUILT_IN
from ekiden.models.registry import target_of

SECRET = "sk-canary-1"


@pytest.fixture
async def exchange() -> AsyncIterator[ProviderClient]:
    options = ModelOptions(provider="openai", model="gpt-5.2", api_key=SECRET, timeout_s=9)
    made = ProviderClient(target_of(options, BUILT_IN["openai"]))
    yield made
    await made.aclose()


async def test_openai_gets_its_own_reasoning_back(exchange: ProviderClient) -> None:
    thought = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "sealed"}
    called = {**function_call("c", "f", "{}"), "id": "fc_9"}
    items = [user_message("hi"), thought, called, function_output("c", "1")]
    call = exchange.prepare(ModelRequest(instructions=None, input=items))
    assert [part.id for part in call.messages[1].parts] == ["rs_9", "fc_9"]


async def test_own_timeout_and_retries_replace_those_of_the_client(
    exchange: ProviderClient,
) -> None:
    call = exchange.prepare(ModelRequest(instructions=None, input=[user_message("hi")]))
    assert call.settings["timeout"] == 9
    assert call.settings["max_retries"] == 0


async def test_a_model_without_native_output_gets_the_schema_in_the_prompt() -> None:
    options = ModelOptions(provider="anthropic", model="claude-3-haiku-20240307", api_key="k")
    exchange = ProviderClient(target_of(options, BUILT_IN["anthropic"]))
    output = OutputSpec(name="o", json_schema={"type": "object", "properties": {}})
    call = exchange.prepare(
        ModelRequest(instructions=None, input=[user_message("hi")], output=output)
    )
    assert call.parameters.output_mode == "prompted"
    await exchange.aclose()


async def test_a_connect_timeout_differs_from_a_response_timeout(
    exchange: ProviderClient,
) -> None:
    slow = exchange.failure_of(ModelTimeoutError("m", "timed out", phase="read"))
    assert isinstance(slow.error, ModelTimeout)
    unreachable = exchange.failure_of(ModelTimeoutError("m", "timed out", phase="connect"))
    assert not isinstance(unreachable.error, ModelTimeout)
    assert "connection to openai:gpt-5.2 at api.openai.com failed" in str(unreachable.error)
    assert slow.is_transient
    assert unreachable.is_transient


@pytest.mark.parametrize(
    ("hint", "again"), [({"x-should-retry": "false"}, False), ({"x-should-retry": "true"}, True)]
)
async def test_a_retry_hint_of_the_provider_is_followed(
    exchange: ProviderClient, hint: dict[str, str], again: bool
) -> None:
    failure = exchange.failure_of(ModelHTTPError(500, "m", None, headers=hint))
    assert failure.is_transient is again


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "one"}}, "one"),
        ({"type": "error", "error": {"type": "x", "message": "two"}}, "two"),
        ([{"error": {"message": "three"}}], "three"),
        ({"detail": "four"}, "four"),
        ({"error": "five"}, "five"),
        ("six", "six"),
        (None, "no reason given"),
        ({"error": {"code": 1}}, "no reason given"),
        ({"message": f"the key {SECRET} is bad"}, r"the key \*\*\* is bad"),
        ({"message": "x" * 5000}, "x{600}…"),
    ],
)
async def test_the_error_message_of_every_provider_is_found(
    exchange: ProviderClient, body: object, said: str
) -> None:
    error = exchange.failure_of(ModelHTTPError(418, "m", body)).error
    with pytest.raises(ModelError, match=f"openai:gpt-5.2 answered 418: {said}"):
        raise error


async def test_a_secret_in_the_chain_of_causes_is_masked(exchange: ProviderClient) -> None:
    inner = ValueError(f"header Bearer {SECRET}")
    outer = ModelAPIError("m", "it failed")
    outer.__cause__ = inner
    failure = exchange.failure_of(outer)
    assert failure.error.__cause__ is None
    assert not failure.is_transient


async def test_a_placeholder_key_masks_no_words() -> None:
    options = ModelOptions(provider="openai", model="m", api_key="any")
    exchange = ProviderClient(target_of(options, BUILT_IN["openai"]))
    error = exchange.failure_of(ModelHTTPError(400, "m", "too many")).error
    assert "too many" in str(error)
    assert error.__cause__ is not None
    await exchange.aclose()


async def test_validation_errors_of_an_answer_are_summarized(exchange: ProviderClient) -> None:
    class Strict(BaseModel):
        a: int
        b: int

    with pytest.raises(ValidationError) as info:
        Strict.model_validate({})
    error = exchange.failure_of(info.value).error
    assert isinstance(error, ModelBehaviorError)
    assert "2 fields are wrong or missing" in str(error)
