"""The JSON schema for editors accepts what the reader accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

from hypothesis import example, given, settings, strategies as st

from ekiden.agents import agent_file_schema, read_agent_text
from ekiden.agents.keys.table import AGENT
from ekiden.core.handoffs import TriggerType
from tests.support.cases import each_case
from tests.support.examples import examples

SCHEMA = agent_file_schema()
TRIGGER_TYPES = get_args(TriggerType)
IS_TYPE = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    ),
}
KNOWN_WORDS = {
    *("$schema", "$id", "title", "description", "default", "examples", "format"),
    *("type", "enum", "properties", "additionalProperties", "required", "items", "minItems"),
    *("maxItems",),
    *("minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum"),
    *("anyOf", "allOf", "not"),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """A validator for the part of JSON Schema that is used here."""
    assert schema.keys() <= KNOWN_WORDS
    checks = [
        "type" not in schema or IS_TYPE[schema["type"]](value),
        "enum" not in schema or value in schema["enum"],
        "anyOf" not in schema or any(fits(value, each) for each in schema["anyOf"]),
        all(fits(value, each) for each in schema.get("allOf", ())),
        "not" not in schema or not fits(value, schema["not"]),
    ]
    if not all(checks):
        return False
    if isinstance(value, str):
        return (
            schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9)
            and re.search(schema.get("pattern", ""), value) is not None
        )
    if isinstance(value, list):
        item = schema.get("items", {})
        return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9) and all(
            fits(each, item) for each in value
        )
    if isinstance(value, dict):
        return _fits_object(value, schema)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low = schema.get("exclusiveMinimum")
        return schema.get("minimum", value) <= value <= schema.get("maximum", value) and (
            low is None or value > low
        )
    return True


def _fits_object(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    inside = schema.get("properties", {})
    if schema.get("additionalProperties") is False and not value.keys() <= inside.keys():
        return False
    return set(schema.get("required", ())) <= value.keys() and all(
        fits(each, inside.get(key, {})) for key, each in value.items()
    )


def reads(front: dict[str, Any]) -> bool:
    """Whether the reader takes the same values; JSON is YAML."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in front.items()]
    text = "\n".join(["---", *lines, "---", "Do it."])
    return read_agent_text(text).definition is not None


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema
        for each in schema.values():
            yield from objects(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from objects(each)


def test_the_schema_is_json_and_names_its_dialect() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["title"]
    assert agent_file_schema() is not SCHEMA


def test_every_key_has_a_description_and_a_camel_case_form() -> None:
    for schema in objects(SCHEMA):
        if schema.get("additionalProperties") is not False:
            continue
        for name, each in schema["properties"].items():
            assert each["description"], name
            first, *rest = name.split("_")
            assert first + "".join(map(str.capitalize, rest)) in schema["properties"]
    assert {field.name for field in AGENT.fields} <= SCHEMA["properties"].keys()
    assert SCHEMA["required"] == ["name"]


def test_defaults_and_examples_match_their_schemas() -> None:
    count = 0
    for schema in objects(SCHEMA):
        for each in schema["properties"].values():
            given_here = [
                *each.get("examples", ()),
                *([each["default"]] if "default" in each else []),
            ]
            count += len(given_here)
            assert all(fits(value, each) for value in given_here)
    assert count > 30


GOOD: list[dict[str, Any]] = [
    {},
    {"title": "a: b", "description": "# x", "handoffDescription": "y", "model": "a:b"},
    {"scope": "system", "tools": "read_file, shell"},
    {"tools": ["a"], "tool_confirmation": {"requireConfirmation": ["a"], "timeout": 0.5}},
    {"tools": {"allow": ["a"], "confirmation": {"prompt_template": "{tool_name}?"}}},
    {"triggers": {"keywords": ["x"], "patterns": ["a+"], "priority": 0, "examples": ["y"]}},
    {"triggers": {"priority": 100.0}},
    {"capabilities": ["x", {"name": "y", "proficiency": 1, "tags": []}]},
    {"handoffs": [{"to": "x", "when": "auto"}, {"to": "z", "when": "conditional"}]},
    {"handoffs": ["x", {"to": "y", "when": "auto", "trigger": {"type": "event", "event": "e"}}]},
    {
        "handoffs": [
            "person:客服",
            {"to": "*", "capabilities": ["x"]},
            {"to": " * ", "capabilities": ["y"]},
        ]
    },
    {"handoffs": [{"to": "x", "trigger": "a > 1"}, {"to": "y", "trigger": {"type": "explicit"}}]},
    {"handoffs": [{"to": "x", "when": "conditional", "condition": "a"}]},
    {"handoffs": [{"to": "x", "when": "conditional", "trigger": "a"}]},
    {
        "handoffs": [
            {
                "to": "x",
                "policy": "conditional",
                "trigger": {"type": "condition", "expression": "a"},
            }
        ]
    },
    {"handoffs": [{"to": "x", "trigger": {"type": "error", "errors": [], "priority": -1}}]},
    {
        "handoffs": [
            {"to": "x", "trigger": {"type": "timeout", "seconds": 0.5}, "allowReturn": "always"}
        ]
    },
    {"handoffs": [{"to": "x", "trigger": {"type": "capability", "capabilities": ["a"]}}]},
    {"handoffs": [{"to": "x", "confirm": True, "timeout": 1, "restrictTools": True, "budget": {}}]},
    {
        "handoffs": [
            {"to": "x", "confirm": {"promptTemplate": "{tool_args}?"}, "budget": {"tokens": 1}}
        ]
    },
    {"handoffs": [{"to": "x", "completes": "result", "budget": {"money": 0.1, "seconds": 2}}]},
    {"available": False, "maxSessions": 1},
    {"can_ask": ["a", "客服"], "canTell": "a, b", "can_ask_people": True},
    {"canAskPeople": ["head of sales"], "can_ask": []},
    {"can_ask_people": " support , manager"},
    {"guardrails": {"output_schema": {"type": "object"}, "on_failure": "warn"}},
    {"guardrails": {"customValidator": "a.b:c"}, "memory": {"enabled": True, "type": "vector"}},
]
BAD: list[dict[str, Any]] = [
    {"titel": "x"},
    {"title": 1},
    {"title": ""},
    {"title": " "},
    {"title": None},
    {"model": "gpt"},
    {"scope": "all"},
    {"tools": 1},
    {"tools": [""]},
    {"tools": {"alow": []}},
    {"tools": {"allow": {}}},
    {"tool_confirmation": {"timeout": 0}},
    {"tool_confirmation": {"prompt_template": "{x}"}},
    {"handoff_description": "x", "handoffDescription": "y"},
    {"triggers": []},
    {"triggers": {"keywords": "x"}},
    {"triggers": {"keywords": [""]}},
    {"triggers": {"priority": 101}},
    {"triggers": {"priority": 1.5}},
    {"triggers": {"priority": True}},
    {"triggers": {"patterns": ["x"] * 101}},
    {"capabilities": [{}]},
    {"capabilities": [{"name": "x", "proficiency": 1.1}]},
    {"handoffs": "x"},
    {"handoffs": [{"to": "x", "when": "never"}]},
    {"handoffs": [{"to": "x", "trigger": {"type": "never"}}]},
    {"handoffs": [{"to": "x", "policy": "conditional", "trigger": {"type": "explicit"}}]},
    {"handoffs": [{"to": "x", "condition": "a > 1"}]},
    {"handoffs": [{"to": "x", "trigger": {"event": "e"}}]},
    {"handoffs": [{"to": "x", "trigger": {"type": "event"}}]},
    {"handoffs": [{"to": "x", "trigger": {"type": "event", "event": "e", "seconds": 1}}]},
    {"handoffs": [{"to": "x", "trigger": {"type": "capability", "capabilities": []}}]},
    {"handoffs": [{"to": "x", "trigger": {"type": "timeout", "seconds": 0}}]},
    {"handoffs": [{"to": "x", "trigger": []}]},
    {"handoffs": ["*"]},
    {"handoffs": [{"to": "*"}]},
    {"handoffs": [{"to": "*", "capabilities": []}]},
    {"handoffs": ["person:"]},
    {"handoffs": [{"to": "person:a b"}]},
    {"handoffs": [{"to": "x", "allow_return": "never"}]},
    {"handoffs": [{"to": "x", "confirm": "yes"}]},
    {"handoffs": [{"to": "x", "confirm": {"timeout": 0}}]},
    {"handoffs": [{"to": "x", "budget": {"tokens": 0.5}}]},
    {"handoffs": [{"to": "x", "budget": {"money": 0}}]},
    {"handoffs": [{"to": "x", "completes": "never"}]},
    {"handoffs": [{"to": "x", "timeout": 0}]},
    {"available": "no"},
    {"can_ask": True},
    {"can_ask": ["person:x"]},
    {"can_tell": "a, person:x"},
    {"can_tell": [""]},
    {"can_tell": {"to": "a"}},
    {"can_ask": ["a"], "canAsk": ["b"]},
    {"can_ask_people": ["person:x"]},
    {"can_ask_people": ["a\tb"]},
    {"can_ask_people": 1},
    {"max_sessions": 0},
    {"guardrails": {"output_schema": "x"}},
    {"memory": {"enabled": "yes"}},
]


@each_case("front", GOOD, ids=json.dumps)
def test_the_schema_accepts_what_the_reader_accepts(front: dict[str, Any]) -> None:
    front = {"name": "x", **front}
    assert reads(front)
    assert fits(front, SCHEMA)


@each_case("front", BAD, ids=json.dumps)
def test_the_schema_refuses_what_the_reader_refuses(front: dict[str, Any]) -> None:
    front = {"name": "x", **front}
    assert not reads(front)
    assert not fits(front, SCHEMA)


@each_case("name", ["x", "a-b_c", "退款", "-x", "a b", "a.b", "", "auto", 1, "x" * 101])
def test_schema_and_reader_agree_on_names(name: Any) -> None:
    assert reads({"name": name}) == fits({"name": name}, SCHEMA)


values = st.recursive(
    st.one_of(
        st.sampled_from(["x", "", "project", "auto", "manual", "a:b", "true", "reject", "event"]),
        st.sampled_from(["conditional", "condition", "*", "person:x", "always", "capability"]),
        st.sampled_from([0, 1, 50, 101, -1, 0.5, 1.5, True, False, None]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                "name to when type allow timeout keywords priority tags filters enabled policy "
                "proficiency includeContext on_failure requireConfirmation examples zzz "
                "condition trigger capabilities confirm budget expression event seconds".split()
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


edges = st.fixed_dictionaries(
    {"to": st.sampled_from(["x", "*", "person:x", "person:", 1])},
    optional={
        "when": st.sampled_from(["manual", "auto", "conditional", "now"]),
        "policy": st.sampled_from(["immediate", "conditional"]),
        "condition": st.sampled_from(["a > 1", "", 1]),
        "capabilities": st.lists(st.sampled_from(["a", ""]), max_size=2),
        "confirm": st.sampled_from([True, {}, {"timeout": 5}, {"timeout": "x"}]),
        "trigger": st.one_of(
            st.sampled_from(["a > 1", "", 1]),
            st.fixed_dictionaries(
                {"type": st.sampled_from([*TRIGGER_TYPES, "none"])},
                optional={
                    "expression": st.just("a"),
                    "event": st.just("e"),
                    "seconds": st.sampled_from([1, 0]),
                    "errors": st.lists(st.just("e"), max_size=1),
                    "capabilities": st.lists(st.just("e"), max_size=1),
                    "priority": st.sampled_from([0, 1.5]),
                },
            ),
        ),
    },
)


@settings(deadline=None, max_examples=examples(250))
@given(st.lists(edges, min_size=1, max_size=1))
def test_schema_and_reader_agree_on_handoffs(handoffs: list[dict[str, Any]]) -> None:
    front = {"name": "x", "handoffs": handoffs}
    assert reads(front) == fits(front, SCHEMA), front


@example({"runs_on": "*"})
@example({"runs_on": "gpu, eu-1,"})
@settings(deadline=None, max_examples=examples(250))
@given(
    st.dictionaries(st.sampled_from([*SCHEMA["properties"], "zzz"]), values, min_size=1, max_size=2)
)
def test_schema_and_reader_agree_on_arbitrary_front_matter(front: dict[str, Any]) -> None:
    front = {"name": "x", **front}
    assert reads(front) == fits(front, SCHEMA), front
