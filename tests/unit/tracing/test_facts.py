"""What of an event are facts, and what are words."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.tracing.spans import split_details, text, usage_of


def test_unknown_details_count_as_content() -> None:
    facts, words = split_details({"tool": "t", "brand_new": "who knows", "hash": "x"})
    assert (facts, words) == ({"tool": "t"}, {"brand_new": "who knows"})


def test_nested_details_are_split_into_facts_and_content() -> None:
    facts, words = split_details(
        {
            "asks": {"id": "m", "to": "b", "subject": "a secret", "session": None},
            "tasks": [{"task_id": "t", "description": "a secret"}],
            "guardrails": [{"guardrail": "g", "result": "passed"}],
            "trigger": "when it rains",
        }
    )
    assert facts == {
        "asks": {"id": "m", "to": "b", "session": None},
        "tasks": [{"task_id": "t"}],
        "guardrails": [{"guardrail": "g", "result": "passed"}],
    }
    assert words["asks"] == {"subject": "a secret"}
    assert words["trigger"] == "when it rains"
    assert "guardrails" not in words


@pytest.mark.parametrize(
    ("told", "tokens"),
    [
        ({"input_tokens": 3, "output_tokens": 4}, 7),
        ({"input_tokens": -3, "output_tokens": True, "total_tokens": "9"}, 0),
        ({"input_tokens": float("nan"), "cost": float("inf")}, 0),
    ],
)
def test_invalid_counts_are_ignored(told: dict[str, Any], tokens: int) -> None:
    usage = usage_of({"usage": told})
    assert usage is not None
    assert (usage.tokens, usage.requests, usage.cost) == (tokens, 1, 0.0)
    assert usage_of({"usage": [1]}) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a\n b", "a b"), ("", "?"), (" ", "?"), (7, "?"), ("x" * 300, "x" * 199 + "…")],
)
def test_names_are_truncated_to_one_line(value: Any, shown: str) -> None:
    assert text(value, "?") == shown
