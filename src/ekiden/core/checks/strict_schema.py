"""JSON Schema in the strict form that providers enforce: closed objects, every field required."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ekiden.core.errors import UserError

_SCHEMA_MAPS = ("$defs", "definitions", "properties")
_SCHEMA_LISTS = ("anyOf", "allOf", "prefixItems")


def ensure_strict_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A strict copy of `schema`; what is strict already comes back equal.

    Objects get ``additionalProperties: false`` and all their properties in ``required``; ``oneOf``
    becomes ``anyOf``, an ``allOf`` of one is merged, a ``default`` of null is dropped, and a
    ``$ref`` that is the root or has keywords beside it is written out. An empty schema is an
    object without fields.

    Raises `UserError` for what has no strict form: an object with free keys (such as ``dict``), a
    root that is not an object, or a ``$ref`` that leads nowhere.
    """
    if not isinstance(schema, dict):
        raise UserError(f"a JSON schema must be an object, not {type(schema).__name__}")
    root: dict[str, Any] = deepcopy(schema) if schema else {"type": "object", "properties": {}}
    if "$ref" in root:
        target = deepcopy(_resolve(root.pop("$ref"), root, "#"))
        root = {**target, **root}
    strict = _strict(root, root, "#", ())
    if strict.get("type") != "object":
        raise UserError(
            "the root of a strict JSON schema must be an object: wrap the value in a model "
            "with one field, or set strict_json_schema=False where that is offered"
        )
    return strict


def _strict(
    value: Any, root: dict[str, Any], path: str, expanding: tuple[str, ...]
) -> dict[str, Any]:
    """Make `value` strict in place; `expanding` are the references being written out around it."""
    if not isinstance(value, dict):
        raise UserError(f"{path} of the JSON schema must be an object, found {value!r}")
    node, expanding = _write_out_ref(value, root, path, expanding)
    if "oneOf" in node:
        node["anyOf"] = [*node.get("anyOf", ()), *node.pop("oneOf")]
    if len(node.get("allOf", ())) == 1:
        (only,) = node.pop("allOf")
        merged = {**only, **node}
        node.clear()
        node.update(merged)
        return _strict(node, root, path, expanding)
    for key in _SCHEMA_MAPS:
        for name, child in node.get(key, {}).items():
            node[key][name] = _strict(child, root, f"{path}/{key}/{name}", expanding)
    for key in _SCHEMA_LISTS:
        if key in node:
            node[key] = [
                _strict(child, root, f"{path}/{key}/{index}", expanding)
                for index, child in enumerate(node[key])
            ]
    if isinstance(node.get("items"), dict):
        node["items"] = _strict(node["items"], root, f"{path}/items", expanding)
    if node.get("default", ...) is None:
        del node["default"]
    if node.get("type") == "object" or "properties" in node:
        _close(node, path)
    return node


def _close(node: dict[str, Any], path: str) -> None:
    """Forbid unknown keys and require the known ones."""
    if node.setdefault("additionalProperties", False) is not False:
        raise UserError(
            f"{path} of the JSON schema allows keys that it does not name (a dict, or "
            "extra='allow'), which strict schemas cannot: name the fields, or turn strict mode off"
        )
    node.setdefault("properties", {})
    node["required"] = list(node["properties"])


def _write_out_ref(
    node: dict[str, Any], root: dict[str, Any], path: str, expanding: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Replace a ``$ref`` that has keywords beside it by what it names, with those keywords on top.

    Inside its own expansion a recursive reference loses its neighbours instead.
    """
    reference = node.get("$ref")
    neighbours = [key for key in node if key not in ("$ref", "$defs", "definitions")]
    if not isinstance(reference, str) or not neighbours:
        return node, expanding
    if reference in expanding:
        return {"$ref": reference}, expanding
    target = deepcopy(_resolve(reference, root, path))
    del node["$ref"]
    return {**target, **node}, (*expanding, reference)


def _resolve(reference: str, root: dict[str, Any], path: str) -> dict[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ["?"]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise UserError(f"{path} of the JSON schema refers to {reference!r}, which is not in it")
    return found
