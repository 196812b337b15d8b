"""The components of a cursor: each field is stored, and no two share a key."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ekiden.core.conversation.model import Usage
from ekiden.handoff.requests import TriedHandoff
from ekiden.runtime.state.cursor import Cursor, Grant, OpenQuestion, UnknownCall

CHANGED: dict[str, dict[str, Any]] = {
    "progress": {
        "run": 2, "turn": 3, "phase": "act", "started": True, "first": 4, "calls": 5,
        "mistakes": 1, "errors": 2, "tools": ["signature", None],
    },
    "view": {"base": "1.1.filter", "after": 7},
    "handoffs": {
        "chain": ["user", "a"], "open": [Cursor().way_back("s.h1", "a", "b", call_id="c", seq=3)],
        "received": {"from": "a"}, "tried": (TriedHandoff("1.1.h", "s.h2", "a", "b"),),
        "route": {"cause": "new"}, "rollbacks": 1, "count": 2, "tools": ["t"], "since_s": 1.5,
        "work": 3, "left": {"a": 1}, "passed": ["digest"],
    },
    "questions": {
        "open": {"1.1.a1": OpenQuestion("query", "msg_1", "b")}, "person_us": 5,
        "always": [
            Grant(
                agent="a", tool="t", version="v", limits=None, within="", by="eve", until_us=9,
                step="1.1.ask.t0",
            )
        ],
        "unknown": (UnknownCall(key="1.1.t0", tool="t", arguments="{}", version="v", agent="a"),),
    },
    "guardrails": {"checks": 1, "found": [{"type": "input"}], "repairs": {"g": 1}},
    "triggers": {"fired": [0], "published": ["paid"], "tool_errors": ["E: x"]},
    "budget": {
        "narrowed": {"tokens": 5.0}, "limits": {"turns": 2}, "spent_s": 1.25,
        "usage": Usage(requests=1), "others": Usage(requests=1), "levels": ["run"],
        "shared_budget": "p",
        "by_agent": {"a": [1, 2.0, 3.0]},
    },
    "audit": {"head": "hash", "count": 3, "is_deferred": False},
}  # fmt: skip


def changed() -> Cursor:
    cursor = Cursor()
    for component, values in CHANGED.items():
        setattr(cursor, component, replace(getattr(cursor, component), **values))
    return cursor


def test_every_field_of_every_component_is_stored_and_loaded() -> None:
    cursor = changed()
    components = {each.name: fields(getattr(cursor, each.name)) for each in fields(Cursor)}
    known = {name: {each.name for each in found} for name, found in components.items()}
    assert {name: set(values) for name, values in CHANGED.items()} == known
    assert Cursor.from_json(cursor.to_json()) == cursor


def test_no_two_components_store_under_the_same_key() -> None:
    cursor, keys = changed(), []
    for each in fields(Cursor):
        data: dict[str, Any] = {}
        getattr(cursor, each.name).to_json(data)
        keys += data
    assert sorted(keys) == sorted(cursor.to_json())


def test_a_failed_step_is_discarded_but_its_usage_counts() -> None:
    cursor = changed()
    cursor.discard(Cursor().next_run(agent="a", first=1).to_json())
    fresh = Cursor().next_run(agent="a", first=1)
    for name in ("usage", "others", "by_agent", "spent_s"):
        setattr(fresh.budget, name, getattr(cursor.budget, name))
    assert (cursor, cursor.budget.spent_s) == (fresh, 1.25)
