"""Events as lines, and what is said around them."""

from __future__ import annotations

from typing import Any

from ekiden.cli.views.live import event_line, event_text
from ekiden.core.events import Event
from tests.support.cases import each_case


def event(**fields: Any) -> Event:
    return Event(**{"session_id": "s1", "seq": 1, "type": "message", "at_us": 0, **fields})


USER = {"role": "user", "content": "Where is\nmy order?"}
CALL = {"type": "function_call", "call_id": "c", "name": "lookup", "arguments": '{"order": 7}'}


@each_case(
    ("fields", "text"),
    [
        ({"items": (USER,)}, "user: Where is\nmy order?"),
        ({"type": "llm_call", "agent": "orders", "items": (CALL,)}, "orders: lookup(order=7)"),
        ({"type": "agent_start"}, ""),
        ({"type": "agent_complete", "details": {"outcome": "waiting"}}, "waiting"),
        ({"type": "agent_error", "error": "it broke"}, "!: it broke"),
        ({"type": "tool_call", "details": {"tool": "t"}, "error": "too slow"}, "t too slow"),
        (
            {"type": "handoff", "details": {"from": "a", "to": "b", "status": "transferring"}},
            "a → b (transferring)",
        ),
        (
            {"type": "handoff", "details": {"from": "a", "to": "b", "reason": "because"}},
            "a → b because",
        ),
        (
            {"type": "handoff", "details": {"from": "a", "to": "b"}, "error": "no such agent"},
            "a → b no such agent",
        ),
        ({"type": "handoff"}, ""),
        ({"type": "route", "details": {"agent": "b", "method": "named"}}, "named → b"),
        ({"details": {"from_agent": "a", "to_agent": "b", "subject": "why"}}, "a → b why"),
        (
            {"type": "inbox", "details": {"change": "posted", "kind": "approval", "item": "inb_1",
                                          "subject": "10 % off?"}},
            "posted approval inb_1 10 % off?",
        ),
        ({"type": "inbox", "details": {"change": "answered", "choice": "yes"}}, "answered → yes"),
        ({"type": "inbox"}, ""),
    ],
)  # fmt: skip
def test_an_event_text_describes_what_happened(fields: dict[str, Any], text: str) -> None:
    assert event_text(event(**fields)) == text


def test_an_event_line_is_one_line_of_limited_length() -> None:
    line = event_line(event(agent="triage", items=({"role": "user", "content": "a\nb" * 300},)))
    assert "\n" not in line
    assert "  s1  triage  message  user: a ba b" in line
    assert line.endswith("more characters)")
    assert event_line(event(session_id="")).split("  ")[1:] == ["-", "-", "message"]


def test_changed_variables_are_named_without_their_values() -> None:
    told = {"set": {"colour": "red"}, "deleted": ["size"], "user": ["language"]}
    event = Event(session_id="s", seq=1, type="message", at_us=0, details={"state": told})
    assert event_text(event) == "changes colour, size, user:language"
    odd = Event(session_id="s", seq=1, type="message", at_us=0, details={"state": {}})
    assert event_text(odd) == ""
    odd.details = {"state": 7}
    assert event_text(odd) == ""
