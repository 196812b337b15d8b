"""The OpenAPI document: complete, the same everywhere, and kept as a file."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from fastapi import FastAPI

from ekiden.server.openapi import description
from ekiden.server.openapi.description import SCOPE, first_clause
from ekiden.server.openapi.examples import OPERATIONS, TAGS
from tests.support.openapi import document_text, openapi_document
from tests.support.serving import application, client_of

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"


@cache
def document() -> dict[str, Any]:
    return openapi_document()


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def resolved(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference in the document stands for."""
    found: Any = value
    while "$ref" in found:
        place = found["$ref"].removeprefix("#/").split("/")
        found = document()
        for part in place:
            found = found[part]
    assert isinstance(found, dict)
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "$ref":
                yield each
            else:
                yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_openapi_file_equals_the_servers_document() -> None:
    same = FILE.read_text(encoding="utf-8") == document_text()
    assert same, "docs/openapi.json is old: write it anew with `make pages`"


async def test_the_server_uses_the_openapi_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(app: FastAPI) -> None:
        raise AssertionError("it is made anew, which takes seconds")

    async with application(tmp_path, workers=0) as app, client_of(app) as client:
        monkeypatch.setattr(app, "openapi", make)
        found = await client.get("/openapi.json")
        assert found.json() == json.loads(FILE.read_text(encoding="utf-8"))
        page = await client.get("/docs")
        assert "/api/v1/handoff/initiate" in page.text


async def test_without_the_file_the_document_is_built_without_blocking_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description, "_FILES", (tmp_path / "nonesuch.json",))
    begun, may_end = threading.Event(), threading.Event()

    def make() -> dict[str, Any]:
        begun.set()
        assert may_end.wait(60)
        return {"info": {"title": "x", "version": "0"}, "paths": {}}

    async with application(tmp_path, workers=0) as app, client_of(app) as client:
        monkeypatch.setattr(app, "openapi", make)
        asked = asyncio.create_task(client.get("/openapi.json"))
        await asyncio.to_thread(begun.wait, 60)
        assert (await client.get("/healthz")).status_code == 200
        assert not asked.done()
        may_end.set()
        assert (await asked).json()["info"]["title"] == "x"


@pytest.mark.slow
def test_the_wheel_contains_the_openapi_file(tmp_path: Path) -> None:
    root = FILE.parents[1]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert opened.read("ekiden/server/openapi/openapi.json") == FILE.read_bytes()


@pytest.mark.slow
def test_the_document_does_not_depend_on_installed_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ekiden.core.integrations.registry.is_installed", lambda name: False)
    assert importlib.util.find_spec("a2a") is not None
    assert openapi_document() == document()


def test_every_operation_is_described() -> None:
    seen = set()
    for path, method, operation in operations():
        place = f"{method} {path}"
        assert operation["operationId"] not in seen, place
        seen.add(operation["operationId"])
        assert 3 <= len(operation["summary"]) <= 120, place
        assert not operation["summary"].endswith("."), place
        assert operation["description"].startswith(operation["summary"][:20]), place
        assert set(operation["tags"]) <= TAGS.keys(), place
        for parameter in operation["parameters"]:
            named = (place, parameter["name"])
            assert parameter["description"], named
            assert {"type": "null"} not in parameter["schema"].get("anyOf", ()), named
        for status, response in operation["responses"].items():
            told = resolved(response)["description"]
            assert told, (place, status)
            assert told != "Successful Response", (place, status)
    assert seen >= OPERATIONS.keys()
    assert {each["name"] for each in document()["tags"]} == {
        tag for _, _, operation in operations() for tag in operation["tags"]
    }


def test_every_error_response_has_the_schema_of_its_route_group() -> None:
    for path, method, operation in operations():
        for status, response in operation["responses"].items():
            if status < "400":
                continue
            [(media_type, content)] = resolved(response)["content"].items()
            name = content["schema"]["$ref"].rpartition("/")[2]
            expected = ("application/problem+json", "Problem")
            if path.startswith("/v1/"):
                expected = ("application/json", "OpenAIError")
            assert (media_type, name) == expected, (method, path, status)


def test_operations_that_need_a_scope_document_their_refusals() -> None:
    for path, method, operation in operations():
        if SCOPE in operation:
            assert {"401", "403", "429", "503"} <= operation["responses"].keys(), (method, path)
            assert operation["security"] == [
                {"bearer": [operation[SCOPE]]},
                {"key": [operation[SCOPE]]},
            ]
        if "{" in path:
            assert "404" in operation["responses"], (method, path)
        if method in ("post", "put", "patch"):
            assert "413" in operation["responses"], (method, path)


def test_every_schema_reference_resolves_and_every_schema_is_used() -> None:
    used = set(references(document()))
    known = {
        f"#/components/{kind}/{name}"
        for kind, each in document()["components"].items()
        for name in each
        if kind != "securitySchemes"
    }
    assert used == known


def test_examples_match_their_schemas() -> None:
    shown = 0
    for _, _, operation in operations():
        parts = [operation.get("requestBody", {}), *operation["responses"].values()]
        for part in parts:
            for content in resolved(part).get("content", {}).values():
                if "example" in content:
                    schema = {**content["schema"], "components": document()["components"]}
                    jsonschema_rs.Draft202012Validator(schema).validate(content["example"])
                    shown += 1
    assert shown >= 30


def test_a_body_without_required_fields_is_optional() -> None:
    for path, method, operation in operations():
        body = operation.get("requestBody", {"content": {}})
        if list(body["content"]) != ["application/json"]:
            continue
        schema = {**body["content"]["application/json"]["schema"]}
        schema["components"] = document()["components"]
        may_be_empty = jsonschema_rs.Draft202012Validator(schema).is_valid({})
        assert body.get("required", False) is not may_be_empty, (method, path)


@pytest.mark.parametrize("blank", [" ", "\n", "\x1c", "\x85", "\u3000"])
def test_a_blank_text_is_invalid_where_the_server_refuses_it(blank: str) -> None:
    paths = document()["paths"]
    for path, method, name in (
        ("/api/v1/memory/entry", "put", "content"),
        ("/api/v1/plans/preview", "post", "text"),
    ):
        content = paths[path][method]["requestBody"]["content"]["application/json"]
        schema = resolved(resolved(content["schema"])["properties"][name])
        assert jsonschema_rs.is_valid(schema, "x")
        assert not jsonschema_rs.is_valid(schema, blank)


def test_patterns_are_valid_ecmascript_expressions() -> None:
    """Regular expressions of JSON Schema are those of ECMAScript: no names, no look-behind."""
    text = json.dumps(document())
    for pattern in re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', text):
        assert "(?P" not in pattern
        assert "(?<" not in pattern
        re.compile(json.loads(f'"{pattern}"'))


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("List them.", "List them"),
        ("List them, newest first; one page.", "List them, newest first"),
        ("Forget everything: of one user.", "Forget everything"),
        ("In v1.2 of\nthe API. More.", "In v1.2 of the API"),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_clause_of_the_docstring(text: str, clause: str) -> None:
    assert first_clause(text) == clause
