"""Any string can be stored as text."""

import pytest
from hypothesis import given, strategies as st

from ekiden.storage.postgres.rows import from_column, to_column

ANY = st.text(st.characters(categories=None) | st.sampled_from("\x00\x10\ud800\udfff0010"))


@given(ANY)
def test_text_is_read_back_unchanged(text: str) -> None:
    stored = to_column(text)
    assert from_column(stored) == text
    assert "\x00" not in stored
    stored.encode()


@given(ANY, ANY)
def test_a_prefix_stays_a_prefix(prefix: str, rest: str) -> None:
    assert to_column(prefix + rest) == to_column(prefix) + to_column(rest)


@pytest.mark.parametrize("text", ["", "plain", "naïve 訳 🏃 \\ \x01"])
def test_ordinary_text_is_stored_unchanged(text: str) -> None:
    assert to_column(text) == text
