"""Ids that every reader finds alike, and the W3C trace context."""

from __future__ import annotations

from typing import Any

from ekiden.tracing import parse_traceparent
from ekiden.tracing.spans import ask_span_id, session_span_id, span_id_of, trace_id_of
from tests.support.cases import each_case

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_ids_equal_those_of_the_first_release() -> None:
    assert trace_id_of("s1", 7) == "236a6648614dcc14a54185669fda1419"
    assert session_span_id("s1") == "0f03330714c751b0"
    assert span_id_of("s1", "r1") == "ef0e86ccfe91d156"
    assert ask_span_id("s1", "msg_1") == span_id_of("s1", "ask/msg_1")
    assert len(trace_id_of("\ud800 会话", 0)) == 32


def test_a_traceparent_is_parsed() -> None:
    found = parse_traceparent(f"00-{TRACE}-{SPAN}-01")
    assert found is not None
    assert (found.trace_id, found.parent_id, found.is_sampled) == (TRACE, SPAN, True)
    assert found.is_remote
    unsampled = parse_traceparent(f"00-{TRACE}-{SPAN}-00")
    assert unsampled is not None
    assert not unsampled.is_sampled


def test_a_traceparent_of_a_later_version_may_have_more_fields() -> None:
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-more") is not None
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-01-more") is None


@each_case(
    "value",
    [
        None,
        7,
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01" * 40,
    ],
)
def test_an_invalid_traceparent_is_ignored(value: Any) -> None:
    assert parse_traceparent(value) is None
