"""Generated pages and parts are what the code says of itself."""

from __future__ import annotations

from tests.docs.generated import generated


def test_generated_pages_are_current() -> None:
    old = [path.name for path, text in generated() if path.read_text("utf-8") != text]
    assert not old, "write them anew: make pages"
