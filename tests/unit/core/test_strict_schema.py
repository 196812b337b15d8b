"""Schemas in the form that providers enforce."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from ekiden.core.errors import UserError
from ekiden.core.tools.tool import ensure_strict_json_schema
from tests.support.cases import each_case


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    size: int | None = None


class Tree(BaseModel):
    kind: Literal["tree"] = "tree"
    left: Tree | Leaf = Field(discriminator="kind")
    best: Leaf = Field(description="the best one")
    parent: Tree | None = Field(default=None, description="where it hangs")
    rest: list[Leaf] = []
    pair: tuple[Leaf, int]


def objects(node: Any) -> list[dict[str, Any]]:
    """All object schemas in a schema."""
    if isinstance(node, list):
        return [found for part in node for found in objects(part)]
    if not isinstance(node, dict):
        return []
    found = [one for part in node.values() for one in objects(part)]
    return [node, *found] if node.get("type") == "object" else found


def test_every_object_is_closed_and_requires_all_its_fields() -> None:
    strict = ensure_strict_json_schema(Tree.model_json_schema())
    found = objects(strict)
    assert len(found) >= 4
    for node in found:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])
    assert "oneOf" not in str(strict)
    assert "'default': None" not in str(strict)


def test_a_strict_schema_is_unchanged_and_the_input_is_not_modified() -> None:
    schema = Tree.model_json_schema()
    before = deepcopy(schema)
    strict = ensure_strict_json_schema(schema)
    assert schema == before
    assert ensure_strict_json_schema(strict) == strict


def test_a_reference_with_a_description_is_inlined() -> None:
    strict = ensure_strict_json_schema(Tree.model_json_schema())
    best = strict["properties"]["best"]
    assert best["description"] == "the best one"
    assert best["required"] == ["kind", "size"]
    assert "$ref" not in best


def test_a_recursive_reference_terminates() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node", "description": "the next"}}}
    strict = ensure_strict_json_schema(
        {"$defs": {"node": {"type": "object", **node}}, "$ref": "#/$defs/node"}
    )
    assert strict["type"] == "object"
    assert {"$ref": "#/$defs/node"} in [
        one["properties"]["next"] for one in objects(strict) if "next" in one["properties"]
    ]


def test_an_all_of_with_one_member_is_merged() -> None:
    strict = ensure_strict_json_schema(
        {
            "type": "object",
            "properties": {
                "a": {"allOf": [{"$ref": "#/$defs/a"}], "title": "A"},
                "b": {"allOf": [{"type": "string"}, {"minLength": 1}]},
            },
            "$defs": {"a": {"type": "string"}},
        }
    )
    assert strict["properties"]["a"] == {"type": "string", "title": "A"}
    assert len(strict["properties"]["b"]["allOf"]) == 2


def test_an_empty_schema_is_an_object_without_fields() -> None:
    assert ensure_strict_json_schema({}) == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Free(BaseModel):
    labels: dict[str, str]


@each_case(
    ("schema", "told"),
    [
        (Open.model_json_schema(), "# of the JSON schema allows keys"),
        (Free.model_json_schema(), "#/properties/labels"),
        ({"type": "string"}, "root of a strict JSON schema"),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, "root of a strict JSON schema"),
        ({"$ref": "#/$defs/none"}, "which is not in it"),
        ({"$ref": "other.json"}, "which is not in it"),
        ({"type": "object", "properties": {"a": True}}, "#/properties/a"),
        ("text", "must be an object, not str"),
    ],
)
def test_a_schema_without_a_strict_form_is_refused_with_its_place(schema: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        ensure_strict_json_schema(schema)
