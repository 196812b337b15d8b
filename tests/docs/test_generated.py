"""Generated pages and parts are what the code says of itself."""

from __future__ import annotations

from tests.docs.generated import generated
from tests.docs.reference import event_fields


def test_generated_pages_are_current() -> None:
    old = [path.name for path, text in generated() if path.read_text("utf-8") != text]
    assert not old, "write them anew: make pages"


def test_a_description_of_several_lines_is_shown_completely() -> None:
    assert "`Event.duration_us` has the duration in microseconds. |" in event_fields()
