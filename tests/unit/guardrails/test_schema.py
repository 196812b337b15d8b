"""JSON Schemas as guardrails of answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.context import RunContextWrapper
from ekiden.core.guardrails import GuardrailFunctionOutput, OutputGuardrail, Violation
from ekiden.guardrails import SchemaUnusable, schema_guardrail
from ekiden.guardrails.compile import compile_schema
from tests.support.cases import each_case

INVOICE = {
    "type": "object",
    "required": ["number", "total"],
    "additionalProperties": False,
    "properties": {
        "number": {"type": "string", "pattern": "^[0-9]+$"},
        "total": {"type": "number", "minimum": 0},
        "mail": {"type": "string", "format": "email"},
        "lines": {"type": "array", "items": {"type": "object", "required": ["what"]}},
        "paid": {"anyOf": [{"type": "boolean"}, {"type": "object", "required": ["by"]}]},
    },
}


async def checked(guardrail: OutputGuardrail[Any], output: Any) -> GuardrailFunctionOutput:
    return (await guardrail.run(RunContextWrapper(None), None, output)).output


async def wrong(schema: Any, output: Any) -> list[str]:
    """All violations as text; whether it trips is whether there are any."""
    found = await checked(schema_guardrail(schema), output)
    assert found.tripwire_triggered is bool(found.violations)
    return [str(each) for each in found.violations]


@pytest.mark.parametrize(
    "answer",
    [
        '{"number": "7", "total": 1.5}',
        '  {"number": "7", "total": 0}\n',
        '```json\n{"number": "7", "total": 1}\n```',
        '```\n{"number": "7", "total": 1}\n```\n',
        '```JSON\r\n{"number": "7", "total": 1}\r\n```',
        {"number": "7", "total": 1},
    ],
)
async def test_a_matching_answer_passes(answer: Any) -> None:
    assert await wrong(INVOICE, answer) == []


async def test_every_violation_has_its_path() -> None:
    answer = {
        "number": "x",
        "total": -1,
        "mail": "nobody",
        "lines": [{"what": 1}, {}, "x"],
        "a/b~c": 1,
    }
    assert sorted(await wrong(INVOICE, json.dumps(answer))) == sorted(
        [
            '/number: "x" does not match "^[0-9]+$"',
            "/total: -1 is less than the minimum of 0",
            '/mail: "nobody" is not a "email"',
            '/lines/1: "what" is a required property',
            '/lines/2: "x" is not of type "object"',
            "Additional properties are not allowed ('a/b~c' was unexpected)",
        ]
    )


async def test_a_path_is_escaped_as_a_json_pointer() -> None:
    schema = {"additionalProperties": {"type": "integer"}}
    found = await checked(schema_guardrail(schema), {"a/b~c": "x"})
    assert found.violations == (Violation(message='"x" is not of type "integer"', path="/a~1b~0c"),)


async def test_the_violations_of_the_nearest_alternative_are_reported() -> None:
    assert await wrong(INVOICE, {"number": "7", "total": 1, "paid": {"on": "Monday"}}) == [
        "/paid: the object fits none of the 2 alternatives of `anyOf`",
        '/paid: "by" is a required property',
    ]


async def test_matching_several_alternatives_of_one_of_is_reported() -> None:
    schema = {"items": {"oneOf": [{"type": "integer"}, {"minimum": 5}, {"type": "string"}]}}
    assert await wrong(schema, [1.5, 7]) == [
        "/0: 1.5 fits none of the 3 alternatives of `oneOf`",
        "/0: 1.5 is less than the minimum of 5",
        "/1: 7 fits 2 of the 3 alternatives of `oneOf`, and must fit one",
    ]


def tree(*kinds: str) -> dict[str, Any]:
    """Nodes of some kinds, each with a node inside."""
    child = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}
    nodes = {
        kind: {
            "type": "object",
            "required": ["child"],
            "properties": {"kind": {"const": kind}, "child": child, "size": {"type": "integer"}},
        }
        for kind in kinds
    }
    node = {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds]}
    return {"$ref": "#/$defs/node", "$defs": {"node": node, **nodes}}


async def test_nested_alternatives_are_explained_fast() -> None:
    node: dict[str, Any] = {"kind": "C", "child": None, "size": "x"}
    for _ in range(8):
        node = {"kind": "B", "child": node}
    told = await wrong(tree(*"ABCDEFGH"), node)
    assert told[0] == "the object fits none of the 8 alternatives of `oneOf`"
    assert told[-1] == f'{"/child" * 8}/size: "x" is not of type "integer"'


async def test_only_upper_violations_of_deep_alternatives_are_reported() -> None:
    node: dict[str, Any] = {"kind": "Z", "child": None}
    for _ in range(80):
        node = {"kind": "B", "child": node}
    told = await wrong(tree(*"ABC"), node)
    assert told[0] == "the object fits none of the 3 alternatives of `oneOf`"
    assert 20 < len(told) <= 51


async def test_a_large_answer_that_fits_no_alternative_is_reported() -> None:
    schema = {"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
    assert (await wrong(schema, [1] * 6_000 + ["x"]))[0] == (
        '/6000: "x" fits none of the 2 alternatives of `anyOf`'
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        {"anyOf": [{"type": "integer"}], "items": {"$ref": "#/anyOf/0"}},
    ],
)
@pytest.mark.parametrize("large", [False, True])
async def test_a_violation_without_an_explanation_is_refused(schema: Any, large: bool) -> None:
    told = await wrong(schema, {"b": [1] * (6_000 if large else 1)})
    assert told[0] == "the answer does not fit the schema"


async def test_property_names_equal_to_keywords_are_only_names() -> None:
    schema = {
        "properties": {
            "anyOf": {"anyOf": [{"type": "integer"}]},
            "const": {"properties": {"oneOf": {"oneOf": [{"type": "null"}]}}},
            "a/b~c": {"anyOf": [{"enum": ["anyOf"]}], "$defs": {"x": {}}},
        },
        "const": {"anyOf": 1, "const": {"oneOf": 1}, "a/b~c": 1},
    }
    told = await wrong(schema, {"anyOf": "x", "const": {"oneOf": 1}, "a/b~c": 1})
    assert sorted(told) == sorted(
        [
            '{"a/b~c":1,"anyOf":1,"const":{"oneOf":1}} was expected',
            "/a~1b~0c: 1 fits none of the 1 alternatives of `anyOf`",
            '/a~1b~0c: 1 is not one of "anyOf"',
            '/anyOf: "x" fits none of the 1 alternatives of `anyOf`',
            '/anyOf: "x" is not of type "integer"',
            "/const/oneOf: 1 fits none of the 1 alternatives of `oneOf`",
            '/const/oneOf: 1 is not of type "null"',
        ]
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("", "the answer is empty; JSON is wanted"),
        ("The total is 7.", "Expecting value (line 1, column 1); answer with the JSON alone"),
        ('Here: {"number": "7"}', "Expecting value"),
        ("```json\n{}\n```\nThat is it.", "Expecting value"),
        ("```json\n{}\n```\n```json\n{}\n```", "Extra data"),
        ("```python\n{}\n```", "Expecting value"),
        ("```{}```", "Expecting value"),
        ("```", "Expecting value"),
        ('{"total": NaN}', "NaN is not a number"),
        ('{"total": -Infinity}', "-Infinity is not a number"),
        ('{"total": 1e999}', "the number 1e999 is too large"),
        ('{"total": ' + "9" * 5000 + "}", "a number has too many digits"),
        ('{"total": 1, "total": 2}', "an object has the key 'total' twice"),
        ('{"number": "7", "total": 1} {}', "Extra data"),
        ("[" * 100_000, "it is nested too deep"),
        ("[" * 400 + "]" * 400, "nested too deep"),
        ({"total": float("nan")}, "NaN is not a number"),
        (object(), "the answer cannot be written as JSON"),
        ({"number": "\ud800"}, "the answer cannot be written as JSON"),
        ('{"number": "\\ud800"}', "a lone surrogate"),
    ],
)
async def test_invalid_json_is_one_violation(answer: Any, told: str) -> None:
    (violation,) = await wrong(INVOICE, answer)
    assert told in violation
    assert len(violation) < 400


async def test_a_huge_answer_is_refused_immediately() -> None:
    assert await wrong(INVOICE, '"' + "x" * 10_000_000 + '"') == [
        "the answer has 10,000,002 characters, more than the 2,000,000 that are checked"
    ]
    (told,) = await wrong(INVOICE, ["x" * 3_000_000])
    assert "characters, more than" in told


async def test_only_the_first_violation_of_a_large_answer_is_reported() -> None:
    told = await wrong({"items": {"type": "integer"}}, "[" + '"",' * 300_000 + '{"a": [1]}]')
    assert told == [
        '/0: "" is not of type "integer"',
        "there may be more: for such a large answer only the first is reported",
    ]


async def test_the_number_of_violations_is_limited() -> None:
    told = await wrong({"items": {"type": "integer"}}, ["x"] * 60)
    assert len(told) == 51
    assert told[-1] == "and more: only the first 50 are reported"


async def test_a_long_value_is_truncated_in_the_message() -> None:
    (told,) = await wrong({"type": "object", "maxProperties": 0}, json.dumps("x" * 5000))
    assert told == f'"{"x" * 200}…" is not of type "object"'
    (named,) = await wrong({"additionalProperties": False}, {"y" * 5000: 1})
    assert len(named) < 700


async def test_a_string_schema_checks_the_text_itself() -> None:
    schema = {"type": "string", "maxLength": 5}
    assert await wrong(schema, "hello") == []
    assert await wrong(schema, "hello!") == ['"hello!" is longer than 5 characters']
    assert await wrong(schema, 7) == ['7 is not of type "string"']
    assert await wrong(schema, "\ud800") == ["a text has half a character (a lone surrogate)"]


async def test_objects_are_checked_as_json() -> None:
    class Line(BaseModel):
        what: str
        due: date

    @dataclass
    class Order:
        number: int
        lines: list[Line]

    schema = {
        "properties": {
            "number": {"type": "integer"},
            "lines": {"items": {"properties": {"due": {"format": "date"}, "what": {"const": 1}}}},
        }
    }
    order = Order(number=7, lines=[Line(what="pen", due=date(2026, 11, 18))])
    assert await wrong(schema, order) == ["/lines/0/what: 1 was expected"]


@pytest.mark.parametrize(
    ("named", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-02-29T10:00:00Z", "yesterday"),
        ("email", "a@example.org", "a"),
        ("uri", "https://example.org/x", "::"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "7"),
        ("ipv4", "10.0.0.1", "10.0.0.999"),
    ],
)
async def test_formats_are_checked(named: str, good: str, bad: str) -> None:
    schema = {"items": {"format": named}}
    assert await wrong(schema, [good]) == []
    (told,) = await wrong(schema, [bad])
    assert told.startswith(f"/0: {json.dumps(bad)} is not a")


async def test_patterns_take_linear_time() -> None:
    assert len(await wrong({"type": "string", "pattern": "^(a+)+$"}, "a" * 100_000 + "b")) == 1


@each_case(
    ("schema", "path", "told"),
    [
        ([], "", "it must be a mapping, not list"),
        (None, "", "it must be a mapping, not NoneType"),
        ({"type": "obj"}, "/type", "'obj' is not valid"),
        ({"properties": {"a": {"minimum": "x"}}}, "/properties/a/minimum", "'x' is not of type"),
        ({"pattern": "("}, "/pattern", "the pattern '(' is not a regular expression"),
        ({"pattern": "(?=a)b"}, "/pattern", "look-around"),
        ({"pattern": r"(a)\1"}, "/pattern", "back-references"),
        ({"pattern": "(a{1000}){1000}"}, "/pattern", "repeats too much"),
        ({"patternProperties": {"(?!x)": {}}}, "/patternProperties/(?!x)", "the pattern '(?!x)'"),
        ({"items": {"format": "phone"}}, "/items/format", "the format 'phone' is not known"),
        ({"$ref": "#/$defs/gone"}, "/$ref", "which is not in the schema"),
        ({"items": {"$ref": "other.json"}}, "/items/$ref", "nothing outside of the schema"),
        ({"$id": "http://a.test/b", "$ref": "c"}, "/$ref", "nothing outside of the schema"),
        ({"$dynamicRef": "http://a.test/b"}, "/$dynamicRef", "nothing outside of the schema"),
        (
            {"allOf": [{"$schema": "http://json-schema.org/draft-07/schema#"}]},
            "/allOf/0/$schema",
            "leave `$schema` out",
        ),
        ({1: 2}, "", "the key 1 is not a text"),
        ({"const": "\ud800"}, "/const", "a lone surrogate"),
        ({"properties": {"\ud800": {}}}, "/properties", "a lone surrogate"),
        ({"const": float("inf")}, "/const", "inf is not JSON"),
        ({"const": {1, 2}}, "/const", "set is not JSON"),
        ({"enum": list(range(30_000))}, "", "more than 20,000 values"),
        ({"description": "x" * 600_000}, "", "characters of JSON; the maximum is 500,000"),
    ],
)
def test_an_invalid_schema_is_refused_with_the_path(schema: Any, path: str, told: str) -> None:
    with pytest.raises(SchemaUnusable) as caught:
        schema_guardrail(schema)
    assert caught.value.path == path
    assert told in str(caught.value)
    assert caught.value.code == "guardrail.bad_schema"
    assert len(str(caught.value)) < 600


def test_a_schema_that_is_too_deep_or_cyclic_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"items": deep}
    circle: dict[str, Any] = {}
    circle["items"] = circle
    for schema in (deep, circle):
        with pytest.raises(SchemaUnusable, match="more than 100 levels deep"):
            schema_guardrail(schema)


async def test_valid_references_are_accepted() -> None:
    tree = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "default": {"$schema": "anything", "$ref": "anything"},
    }
    assert await wrong(tree, "[[], [[]]]") == []
    assert await wrong(tree, "[[], [[1]]]") == ['/1/0/0: 1 is not of type "array"']
    assert await wrong(True, "7") == []
    assert await wrong(False, "7") == ["False schema does not allow 7"]
    own = {"$ref": "thing", "$id": "http://a.test/all", "$defs": {"t": {"$id": "thing"}}}
    assert await wrong(own, "7") == []
    assert await wrong({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "{}") == []


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server on loopback, and the requests that it got."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "make",
    [
        lambda url: {"$ref": f"{url}/a.json"},
        lambda url: {"$dynamicRef": f"{url}/a.json"},
        lambda url: {"properties": {"x": {"$ref": f"{url}/a.json#/b"}}},
        lambda url: {"$id": f"{url}/a", "items": {"$ref": "b"}},
        lambda url: {"$schema": f"{url}/meta"},
    ],
)
def test_no_reference_is_fetched(
    listener: tuple[str, list[str]], make: Callable[[str], dict[str, Any]]
) -> None:
    url, seen = listener
    with pytest.raises(SchemaUnusable):
        schema_guardrail(make(url))
    assert seen == []


def test_no_file_is_read(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    there.write_text("{}")
    with pytest.raises(SchemaUnusable, match="nothing outside of the schema is fetched"):
        schema_guardrail({"$ref": there.as_uri()})


def test_a_schema_is_compiled_once() -> None:
    assert compile_schema(INVOICE)[0] is compile_schema(json.loads(json.dumps(INVOICE)))[0]


def test_a_guardrail_has_the_given_options() -> None:
    made = schema_guardrail(INVOICE, on_failure="repair", tries=5, name="invoice")
    assert (made.get_name(), made.on_failure, made.tries) == ("invoice", "repair", 5)
    assert schema_guardrail({}).get_name() == "output_schema"


def test_a_missing_extra_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ekiden.guardrails import GuardrailUnusable

    monkeypatch.setitem(__import__("sys").modules, "jsonschema_rs", None)
    with pytest.raises(GuardrailUnusable, match=r"pip install 'ekiden\[guardrails\]'"):
        schema_guardrail({"title": "never compiled before"})


def doubled(keyword: str, levels: int, **root: Any) -> dict[str, Any]:
    """Each definition refers twice to the one before."""
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, levels + 1):
        defs[f"d{n}"] = {keyword: [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels}", **root}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_expands_exponentially_is_refused(keyword: str) -> None:
    with pytest.raises(SchemaUnusable, match="all references written out"):
        schema_guardrail(doubled(keyword, 40))
    schema_guardrail(doubled("allOf", 8))


@pytest.mark.parametrize(
    "schema",
    [
        doubled("allOf", 40, **{"$id": "https://example.org/root"}),
        {
            "$defs": {
                f"d{n}": {
                    "$anchor": f"a{n}",
                    "properties": {"x": {"$ref": f"#a{n - 1}"}, "y": {"$ref": f"#a{n - 1}"}},
                }
                for n in range(1, 31)
            }
            | {"d0": {"$anchor": "a0"}},
            "$ref": "#a30",
        },
        {
            "$defs": {
                f"d{n}": {
                    "$id": f"https://example.org/d{n}",
                    "not": {"allOf": [{"$ref": f"d{n - 1}"}] * 2},
                }
                for n in range(1, 31)
            }
            | {"d0": {"$id": "https://example.org/d0"}},
            "$ref": "https://example.org/d30",
        },
    ],
)
def test_references_that_expand_exponentially_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaUnusable, match="all references written out"):
        schema_guardrail(schema)


async def test_a_recursive_schema_counts_once() -> None:
    tree = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
            }
        },
        "anyOf": [{"$ref": "#/$defs/node"}, {"$ref": "#"}, {"$ref": "#/anyOf/0"}],
    }
    assert await wrong(tree, '{"left": {"right": {}}}') == []


def test_an_unresolvable_reference_is_refused() -> None:
    for reference in ("#/$defs/none", "#/anyOf/7", "#/type/x", "#nobody", "http://[bad"):
        with pytest.raises(SchemaUnusable):
            schema_guardrail({"anyOf": [{}], "type": "object", "$ref": reference})


@pytest.mark.parametrize("pattern", ["(?:a{1,100}){1,100}b", "(?:a{1,9}){1,385}b"])
def test_an_expensive_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaUnusable, match="repeats too much"):
        schema_guardrail({"type": "string", "pattern": pattern})


@pytest.mark.parametrize(
    "more",
    [
        {"x-hint": {"anyOf": 5}},
        {"x-hint": [{"oneOf": "abc"}]},
        {"dependentRequired": {"anyOf": ["x"]}},
        {"examples": [{"anyOf": 1}]},
    ],
)
async def test_unknown_keywords_are_not_read_as_schemas(more: dict[str, Any]) -> None:
    assert await wrong({"type": "object", **more}, "3") == ['3 is not of type "object"']
