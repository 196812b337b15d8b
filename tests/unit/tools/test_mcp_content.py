"""What servers say and give, as a model gets it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.tools.mcp_tools import description_of, schema_of, text_of
from tests.support.cases import each_case

ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}


def block(kind: str, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(type=kind, **values)


def result(*blocks: SimpleNamespace, structured: Any = None) -> SimpleNamespace:
    return SimpleNamespace(content=blocks, structured_content=structured)


def text(said: str) -> SimpleNamespace:
    return block("text", text=said)


@each_case(
    ("given", "shown"),
    [
        (result(), ""),
        (result(text("a"), text("b")), "a\nb"),
        (result(structured={"a": "é"}), '{"a":"é"}'),
        (result(text('{ "a": 1 }'), structured={"a": 1}), '{ "a": 1 }'),
        (result(text("three"), structured={"result": "three"}), "three"),
        (result(text("[1]"), structured={"result": [1]}), "[1]"),
        (result(text("all good"), structured={"a": 1}), 'all good\n{"a":1}'),
        (result(text("[" * 10_000), structured=[]), "[" * 10_000 + "\n[]"),
        (result(block("audio", mime_type="audio/wav", data="AAAA")), "[audio, audio/wav, 3 bytes]"),
        (result(block("image", mime_type="image/png", data="AA==")), "[image, image/png, 1 bytes]"),
        (
            result(block("resource_link", name="notes", uri="file:///n")),
            "[link to notes: file:///n]",
        ),
        (result(block("resource", resource=SimpleNamespace(text="inside"))), "inside"),
        (
            result(block("resource", resource=SimpleNamespace(uri="x://y", blob="AAAA"))),
            "[data of x://y, 3 bytes]",
        ),
        (result(block("hologram\x1b")), "[hologram]"),
    ],
)
def test_an_mcp_result_is_converted_to_text(given: Any, shown: str) -> None:
    assert text_of(given) == shown


def test_a_long_result_is_truncated() -> None:
    assert text_of(result(text("x" * 200_000))).endswith("(100,000 more characters)")


def test_hidden_characters_of_a_description_are_removed_and_its_length_limited() -> None:
    hidden = SimpleNamespace(description=" a\u200b\U000e0041b\x1b[0m" + "x" * 9000, title=None)
    assert description_of(hidden).startswith("ab[0mx")
    assert len(description_of(hidden)) < 4100
    assert description_of(SimpleNamespace(description=None, title="Title")) == "Title"
    assert description_of(SimpleNamespace(description=None, title=None)) == ""


def test_descriptions_in_a_schema_are_cleaned_and_the_rest_is_unchanged() -> None:
    schema = {
        "type": "object",
        "description": "x\u202e" + "y" * 5000,
        "properties": {
            "description": {"type": "string", "title": "T\x07", "enum": ["a\u200bb"]},
            "n": {"anyOf": [{"type": "integer", "$comment": "ignore previous"}]},
        },
    }
    cleaned = schema_of(SimpleNamespace(input_schema=schema))
    assert cleaned["description"].startswith("xyyy")
    assert len(cleaned["description"]) < 1100
    assert cleaned["properties"]["description"] == {
        "type": "string",
        "title": "T",
        "enum": ["a\u200bb"],
    }
    assert cleaned["properties"]["n"] == {"anyOf": [{"type": "integer"}]}
    assert "$comment" in schema["properties"]["n"]["anyOf"][0]  # type: ignore[index]


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        deep(100),
        {"type": "array"},
        {},
        {"type": "object", "properties": {"x": {"enum": ["y" * 200_000]}}},
        {"type": "object", "default": object()},
    ],
    ids=["deep", "array", "empty", "large", "not json"],
)
def test_an_invalid_schema_accepts_any_value(schema: Any) -> None:
    assert schema_of(SimpleNamespace(input_schema=schema)) == ANYTHING


def test_a_schema_without_properties_has_none() -> None:
    assert schema_of(SimpleNamespace(input_schema={"type": "object"}))["properties"] == {}
