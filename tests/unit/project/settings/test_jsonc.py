"""JSON with comments and trailing commas."""

from __future__ import annotations

import json
from json import JSONDecodeError
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ekiden.project.settings.jsonc import JsoncError, ObjectNode, parse
from tests.support.cases import each_case

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('abc\\"é', max_size=4), inner)
    ),
    max_leaves=12,
)


def plain(text: str) -> Any:
    """The value of a text."""
    root = parse(text).root
    assert root is not None
    return root.value


@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_json_is_read_as_by_the_standard_library(value: Any, indent: Any, ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert plain(text) == json.loads(text)


@given(st.text(st.sampled_from('{}[]",:/*\n\\u0019.-eatrulsn '), max_size=40))
def test_only_json_with_comments_or_trailing_commas_is_accepted(text: str) -> None:
    try:
        found: object = parse(text)
    except JsoncError as exc:
        found = exc
    if isinstance(found, JsoncError):
        assert 0 <= found.offset <= len(text)
        with pytest.raises(JSONDecodeError):
            json.loads(text)


@each_case("text", ["", " \r\n\t", "// nothing", "/* * / **/", "\ufeff", "//\r//\n"])
def test_an_empty_text_has_no_value(text: str) -> None:
    assert parse(text).root is None


@each_case(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2 , ]", [1, 2]),
        ("[,]", None),
        ("{,}", None),
        ('// x\n{"a" /* b */ : // c\r1 /*,*/ , // d\r\n}//', {"a": 1}),
        ('{"url": "http://x/*y*/"}', {"url": "http://x/*y*/"}),
        ('\ufeff{"a": "😀 日本"}', {"a": "😀 日本"}),
        (r'"\ud83d\ude00\u0041\n\/"', "😀A\n/"),
        ("-0.5e2", -50.0),
        ("12345678901234567890", 12345678901234567890),
    ],
)
def test_comments_and_trailing_commas_are_accepted(text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(JsoncError):
            parse(text)
    else:
        assert plain(text) == value


@each_case(
    ("text", "offset", "says"),
    [
        ("{", 1, "the text ends, expected a key or }"),
        ('{"a"', 4, "ends, expected a colon"),
        ('{"a":', 5, "ends, expected a value"),
        ('{"a": 1', 7, "ends, expected a comma or }"),
        ("[1 2]", 3, "a comma or ]"),
        ('{"a": 1 "b": 2}', 8, "a comma or }"),
        ("{a: 1}", 1, 'double quotes: "a"'),
        ("{'a': 1}", 1, "text is written in double quotes"),
        ("{} {}", 3, "the end of the file"),
        ("# x", 0, "a comment begins with //"),
        ('{"a" = 1}', 5, "separated by a colon"),
        ("/* x", 0, "write */"),
        ("// x\n /* y */ /* z", 14, "write */"),
        ("[True]", 1, "'True' is not a value"),
        ("[nul]", 1, "true, false, null"),
        ("[01]", 1, "'01' is not a value"),
        ("[1.]", 1, "not a value"),
        ("[+1]", 1, "not a value"),
        ("[NaN]", 1, "not a value"),
        ("[-Infinity]", 1, "not a value"),
        ("[１]", 1, "not a value"),
        ("[1e999]", 1, "too large"),
        (f"[{'9' * 5000}]", 1, "too large"),
        ('"abc', 0, "no closing double quote"),
        ('"a\nb"', 2, "end on its line"),
        ('"a\\x"', 2, "write \\\\"),
        ('"\\ud800"', 0, "half of a"),
        ('"\\u12g4"', 1, "backslash"),
        ('"ab\\u00zcd"', 3, "backslash"),
        ("\x00", 0, "expected a value"),
        ("[" * 33, 32, "more than 32"),
        (f"[{'1,' * 20_000}]", 19_999, "more than 10,000 values"),
        ('{"a":' * 200_000, 160, "more than 32"),
    ],
)
def test_text_that_is_not_json_is_refused_with_its_position(
    text: str, offset: int, says: str
) -> None:
    with pytest.raises(JsoncError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert caught.value.offset == offset


def test_duplicate_keys_are_reported_at_any_depth() -> None:
    document = parse('{"a": [{"b": 1, "b": 2}], "a": 3}')
    assert [(each.key, each.start) for each in document.duplicates] == [("b", 16), ("a", 26)]


def test_positions_count_line_endings_of_every_system() -> None:
    text = '{\r\n"a":\r1,\n "日": 2}'
    document = parse(text)
    assert isinstance(document.root, ObjectNode)
    first, second = document.root.members
    assert document.position(first.start) == (2, 1)
    assert document.position(first.node.start) == (3, 1)
    assert document.position(second.start) == (4, 2)
    assert document.position(second.node.start) == (4, 7)
