"""The window: a stretch of the feed, without gaps and bounded."""

from __future__ import annotations

from hypothesis import given, strategies as st

from ekiden.core.events import Event
from ekiden.hub.reader import HubEvent, Window

SAID = Event(session_id="s", seq=1, type="message", at_us=1)


def found(number: int) -> HubEvent:
    return HubEvent(id=str(number), event=SAID)


def walk(window: Window, place: str) -> list[str]:
    """The ids that come after a place."""
    ids = []
    while (event := window.after(place)) is not None:
        ids.append(event.id)
        place = event.id
    return ids


@given(
    size=st.integers(1, 5),
    pages=st.lists(st.integers(0, 7), max_size=8),
    anew=st.sets(st.integers(0, 7)),
)
def test_the_window_returns_all_later_events_from_every_position_in_it(
    size: int, pages: list[int], anew: set[int]
) -> None:
    window = Window(size)
    assert window.end is None
    assert "0" not in window
    last = first = 0
    window.begin("0")
    for number, length in enumerate(pages):
        if number in anew:
            last = first = last + 10
            window.begin(str(last))
        window.extend(found(last + each) for each in range(1, length + 1))
        last += length
        first = max(first, last - size)
        assert window.end == str(last)
        for place in range(first, last + 1):
            assert walk(window, str(place)) == [str(each) for each in range(place + 1, last + 1)]
        for gone in range(max(0, first - 12), first):
            assert str(gone) not in window
