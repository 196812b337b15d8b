"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ekiden.client import streams as sse
from ekiden.client.errors import ServerProblem
from ekiden.client.streams import SseMessage, SseReader

TEXT = (
    "retry: 1000\n\n: alive\n\n"
    'id: 7\nevent: message\ndata: {"a":1}\n\n'
    "event: delta\ndata: 你\r\n\r\n"
    "data: one\rdata: two\r\r"
    "id: 9\nnothing: here\n\n"
)
FOUND = [
    SseMessage(event="message", data='{"a":1}', id="7"),
    SseMessage(event="delta", data="你"),
    SseMessage(event="message", data="one\ntwo"),
]


@given(st.lists(st.integers(min_value=0, max_value=len(TEXT.encode())), max_size=12))
def test_messages_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    reader, data = SseReader(), TEXT.encode()
    places = [0, *sorted(cuts), len(data)]
    found: list[SseMessage] = []
    for start, end in pairwise(places):
        found += reader.feed(data[start:end])
    assert found == FOUND


def test_an_incomplete_message_is_not_delivered() -> None:
    reader = SseReader()
    assert list(reader.feed(b"id: 1\ndata: half")) == []
    assert list(reader.feed(b"\n")) == []
    assert list(reader.feed(b"\n")) == [SseMessage(event="message", data="half", id="1")]


def test_invalid_utf_8_does_not_end_the_stream() -> None:
    assert list(SseReader().feed(b"data: \xff\n\n")) == [SseMessage(event="message", data="\ufffd")]


def test_an_endless_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_MESSAGE", 100)
    reader = SseReader()
    with pytest.raises(ServerProblem, match="longer than"):
        for _ in range(10):
            list(reader.feed(b"data: 0123456789012345\n"))
