"""What calls of known models cost."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from ekiden.core.conversation.model import Usage
from ekiden.models import prices
from ekiden.models.prices import cost_of, has_price_list
from ekiden.runtime import Price

CALL = Usage(requests=1, input_tokens=1_000, output_tokens=100, cached_tokens=400)


@pytest.fixture(autouse=True)
def _nothing_is_found_twice() -> None:
    prices._find.cache_clear()


@pytest.mark.parametrize(
    "name", ["openai:gpt-5-mini", "openai-chat:gpt-5-mini", "gpt-5-mini-2025-08-07", "gpt-5-mini"]
)
def test_a_model_is_found_by_all_its_names(name: str) -> None:
    assert cost_of([name], CALL) == pytest.approx(600 * 0.25e-6 + 400 * 0.025e-6 + 100 * 2e-6)


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-4-5", "google:gemini-2.5-flash"])
def test_every_provider_has_prices_in_the_list(name: str) -> None:
    cost = cost_of([name], CALL)
    assert cost is not None
    assert 0 < cost < 0.01


@pytest.mark.parametrize("name", ["", ":", "nobody", "nobody:knows", "openai:", "a:b:c", "\ud800"])
def test_an_unknown_model_has_no_price(name: str) -> None:
    assert cost_of([name], CALL) is None
    assert cost_of([], CALL) is None


def test_given_prices_override_the_list_under_any_name() -> None:
    prices = {"mine": Price(input=1.0, output=2.0)}
    names = ["openai:gpt-5-mini", "mine"]
    assert cost_of(names, CALL, prices) == pytest.approx(0.0012)


def test_the_next_name_is_used_if_the_first_is_unknown() -> None:
    assert cost_of(["desk", "gpt-5-mini"], CALL) == cost_of(["gpt-5-mini"], CALL)


def test_a_local_model_costs_nothing() -> None:
    assert cost_of(["local:model.gguf", "gpt-5-mini"], CALL) == 0.0


def test_a_custom_server_has_no_price_unless_given() -> None:
    name = "openai:gpt-5-mini@http://localhost:1/v1"
    assert cost_of([name, "gpt-5-mini"], CALL) is None
    assert cost_of([name], CALL, {name: Price(input=1, output=1)}) == pytest.approx(0.0011)


def test_inconsistent_token_counts_have_a_price() -> None:
    odd = Usage(input_tokens=10, cached_tokens=400)
    assert cost_of(["gpt-5-mini"], odd) == pytest.approx(400 * 0.025e-6)
    assert cost_of(["gpt-5-mini"], Usage()) == 0.0
    only_total = Usage(input_tokens=10, total_tokens=110)
    assert cost_of(["gpt-5-mini"], only_total) == pytest.approx(10 * 0.25e-6 + 100 * 2e-6)
    assert cost_of(["gpt-5-mini"], CALL, at_us=10**30) is None


def test_the_price_of_the_given_day_is_used() -> None:
    assert cost_of(["gpt-5-mini"], CALL, at_us=1_760_000_000_000_000) is not None


def test_without_the_extra_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "has_price_list", lambda: False)
    assert cost_of(["gpt-5-mini"], CALL) is None
    assert cost_of(["local:x"], CALL) == 0.0


def test_no_price_is_fetched_over_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert has_price_list()
    assert cost_of(["gpt-5-mini"], CALL) is not None


def test_the_price_list_is_loaded_on_first_use() -> None:
    code = (
        "import sys, ekiden.models.prices, ekiden.sessions.costs, ekiden.runtime; "
        "sys.exit('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
