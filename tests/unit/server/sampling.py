"""The smallest bodies and queries that the OpenAPI document allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def body_of(operation: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """A JSON body that the operation takes; `None` if it takes none."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    return None if schema is None else sample(schema, document)


def sample(schema: Any, document: Mapping[str, Any]) -> Any:
    """A value that fits, with nothing in it that need not be."""
    if not isinstance(schema, Mapping):
        return "x"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return sample(document["components"]["schemas"][name], document)
    for words in ("const", "default"):
        if words in schema:
            return schema[words]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("examples"):
        return schema["examples"][0]
    for words in ("oneOf", "anyOf", "allOf"):
        if schema.get(words) and "properties" not in schema:
            return sample(schema[words][0], document)
    return _typed(schema, document)


def _typed(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {})
            return {
                name: sample(fields.get(name, {}), document) for name in schema.get("required", ())
            }
        case "array":
            count = schema.get("minItems", 0)
            return [sample(schema.get("items", {}), document) for _ in range(count)]
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum"))
            return 1 if low is None else max(1, int(low) + ("exclusiveMinimum" in schema))
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "x" * max(1, schema.get("minLength", 1))
