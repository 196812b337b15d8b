"""Secrets are kept out of what is stored and shown."""

from __future__ import annotations

import pytest

from ekiden.core.privacy.masking import (
    MASK,
    cover,
    keep_secret,
    masked_keys,
    masked_names,
    secrets_of,
    without_known,
)
from tests.support.canaries import NOWHERE, SAID, openai, password, pem, pem_line, plain
from tests.support.cases import each_case

SHAPED = {
    name: make for name, make in (NOWHERE | SAID).items() if make not in (plain, password, pem_line)
}


@each_case("name", SHAPED)
def test_text_that_looks_like_an_api_key_is_masked_everywhere(name: str) -> None:
    secret = SHAPED[name]()
    value = {"a": ["before", f"the key {secret}, and more"], "n": 1, "none": None}
    assert secret not in str(masked_keys(value))
    assert secret not in cover(f"denied: {secret}")
    assert masked_keys(value)["a"][0] == "before"


def test_a_private_key_is_masked_completely() -> None:
    line = pem_line()
    assert masked_keys(f"here: {pem(line)}.") == f"here: {MASK}."


@pytest.mark.parametrize(
    "value",
    [
        "Where is my order 1042?",
        "https://shop.example/orders/1042?page=2",
        {"id": "ses_01hx2k9v7m3n4p5q6r8s", "reason": "asked for a refund", "at": 1.5},
        ["a key is needed", "the token is missing", 7, None, True],
    ],
)
def test_a_value_without_secrets_is_returned_unchanged(value: object) -> None:
    assert masked_keys(value) is value
    assert without_known(value) is value


@each_case(
    ("text", "shown"),
    [
        ("password=hunter2aa", f"password={MASK}"),
        ("{'token': 'abc12345678'}", f"{{'token': '{MASK}'}}"),
        ('"db_password": "s3cret-word"', f'"db_password": "{MASK}"'),
        ("GET /events?token=abcdef123456&x=1", f"GET /events?token={MASK}&x=1"),
        ("X-Api-Key: 9f8e7d6c5b4a", f"X-Api-Key: {MASK}"),
        ("unexpected token: identifier", "unexpected token: identifier"),
        ("the password is wrong", "the password is wrong"),
    ],
)
def test_values_of_secret_names_in_error_texts_are_masked(text: str, shown: str) -> None:
    assert masked_names(text) == cover(text) == shown


def test_secrets_are_found_in_environment_names_headers_and_addresses() -> None:
    found = secrets_of(
        {
            "SHOP_TOKEN": "aaaaaaaaaa",
            "DB_PASSWORD": "bbbbbbbbb",
            "DATABASE_URL": "postgresql://app:word-12345@db/x",
            "CACHE_URL": "redis://:postgres@cache",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=header-value-1,accept=everything",
            "SHORT_KEY": "abc",
            "PATH": "/usr/bin/something",
        }
    )
    assert found == ["header-value-1", "aaaaaaaaaa", "word-12345", "bbbbbbbbb"]


def test_environment_secrets_are_masked_in_tool_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret, other, short = plain(), plain(), "abc12345"
    monkeypatch.setenv("A_SERVICE_TOKEN", secret)
    keep_secret([other, short, "postgres"])
    assert without_known({"out": [f"x {secret} {other}"]}) == {"out": [f"x {MASK} {MASK}"]}
    assert without_known(f"{short} may be a common word") == f"{short} may be a common word"
    assert cover(f"{short} of postgres") == f"{MASK} of postgres"
    monkeypatch.delenv("A_SERVICE_TOKEN")
    assert without_known(secret) == secret


@pytest.mark.parametrize(
    "text",
    ["a-" * 100_000, "token" * 40_000, "token= " * 30_000, "://:" * 50_000, "x" * 200_000],
)
def test_hostile_texts_are_masked_in_linear_time(text: str) -> None:
    cover(text)  # What goes back and forth would take hours.


def test_masking_is_idempotent() -> None:
    once = cover(f"api_key={openai()} and password: 'abcdefg1'")
    assert cover(once) == once
