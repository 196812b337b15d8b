"""Changing one value in a text and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ekiden.project.settings.changes import KeyPath, with_value, without
from ekiden.project.settings.jsonc import JsoncError, JsoncMember, JsoncNode, ObjectNode, parse
from tests.support.cases import each_case


def path(dotted: str) -> KeyPath:
    """A path whose keys have one spelling."""
    return [(part,) for part in dotted.split(".")]


def plain(text: str) -> Any:
    root = parse(text).root
    return {} if root is None else root.value


NOTED = """\
// Ours.
{
    /* Who thinks. */
    "model" :  "openai:x",   // the cheap one

    "agents": {
        "routing": { "strategy": "llm", "rule": {"confidence_threshold": 70} },
        // "foreign_user_folders": true
    }
}"""


def test_a_replaced_value_leaves_all_other_characters_unchanged() -> None:
    changed = with_value(NOTED, path("agents.routing.rule.confidence_threshold"), 85)
    assert changed == NOTED.replace("70", "85")
    changed = with_value(NOTED, path("model"), None)
    assert changed == NOTED.replace('"openai:x"', "null")


def test_an_equal_value_changes_nothing() -> None:
    assert with_value(NOTED, path("model"), "openai:x") is NOTED


def test_the_values_1_and_true_are_different() -> None:
    assert with_value('{"a": 1}', path("a"), True) == '{"a": true}'
    assert with_value('{"a": 1}', path("a"), 1.0) == '{"a": 1.0}'


def test_the_existing_spelling_of_a_key_is_kept() -> None:
    spelled = [("a",), ("max_bytes", "maxBytes")]
    assert with_value('{"a": {"maxBytes": 1}}', spelled, 2) == '{"a": {"maxBytes": 2}}'
    assert with_value('{"a": {}}', spelled, 2) == '{"a": {"max_bytes": 2}}'


@each_case(
    ("before", "after"),
    [
        ("", '{\n  "k": 1\n}\n'),
        ("\n", '\n{\n  "k": 1\n}\n'),
        ("// soon", '// soon\n{\n  "k": 1\n}\n'),
        ("/* soon */\r\n", '/* soon */\r\n{\r\n  "k": 1\r\n}\r\n'),
        ("\ufeff", '\ufeff{\n  "k": 1\n}\n'),
        ("{}", '{\n  "k": 1\n}'),
        ("{ }\n", '{\n  "k": 1\n}\n'),
        ("{\n}\n", '{\n  "k": 1\n}\n'),
        ("{\r\n}\r\n", '{\r\n  "k": 1\r\n}\r\n'),
        ("{\n  // none\n}", '{\n  // none\n  "k": 1\n}'),
        ("{ // none\n}", '{ // none\n  "k": 1\n}'),
        ("{/* none */}", '{/* none */\n  "k": 1\n}'),
        ('{"a": 0}', '{"a": 0, "k": 1}'),
        ('{ "a": 0 }', '{ "a": 0, "k": 1 }'),
        ('{"a": 0,}', '{"a": 0, "k": 1,}'),
        ('{"a": 0 /* x */}', '{"a": 0, /* x */ "k": 1}'),
        ('{\n  "a": 0\n}', '{\n  "a": 0,\n  "k": 1\n}'),
        ('{\n  "a": 0,\n}', '{\n  "a": 0,\n  "k": 1,\n}'),
        ('{\n\t"a": 0\n}\n', '{\n\t"a": 0,\n\t"k": 1\n}\n'),
        ('{\r\n   "a": 0\r\n}\r\n', '{\r\n   "a": 0,\r\n   "k": 1\r\n}\r\n'),
        ('{\n"a": 0\n}', '{\n"a": 0,\n"k": 1\n}'),
        ('{\n  "a": 0 // x\n}', '{\n  "a": 0, // x\n  "k": 1\n}'),
        ('{\n  "a": 0, // x\n}', '{\n  "a": 0, // x\n  "k": 1,\n}'),
        ('{\n  "a": 0\n  // "b": 2,\n}', '{\n  "a": 0,\n  // "b": 2,\n  "k": 1\n}'),
        ('{ "a": 0,\n  "b": 0 }', '{ "a": 0,\n  "b": 0,\n  "k": 1\n}'),
        ('{"a": {\n  "b": 0\n}}', '{"a": {\n  "b": 0\n},\n  "k": 1\n}'),
        ('{"a": [\n]}\n', '{"a": [\n],\n  "k": 1\n}\n'),
    ],
)
def test_a_new_key_is_appended_in_the_style_of_the_file(before: str, after: str) -> None:
    changed = with_value(before, path("k"), 1)
    assert changed == after
    assert plain(changed) == {**plain(before), "k": 1}


def test_a_new_nested_key_creates_its_objects() -> None:
    assert with_value(NOTED, path("tools.shell.timeout"), 5) == NOTED.replace(
        "true\n    }\n}",
        'true\n    },\n    "tools": {\n        "shell": {\n            "timeout": 5'
        "\n        }\n    }\n}",
    )
    assert with_value('{"a": {}}', path("a.b.c"), 5) == '{"a": {"b": {"c": 5}}}'
    assert with_value('{\n "a": {}\n}', path("a.b"), 5) == '{\n "a": {\n  "b": 5\n }\n}'


def test_a_comment_at_the_end_of_an_object_stays_before_the_new_key() -> None:
    assert with_value(NOTED, path("agents.x"), 5) == NOTED.replace(
        '": true\n    }', '": true\n        "x": 5,\n    }'
    )


def test_objects_and_long_lists_are_written_on_several_lines() -> None:
    server = {"command": "npx", "args": ["-y", "x"], "env": {}}
    assert with_value("{\n}", path("s"), server) == (
        '{\n  "s": {\n    "command": "npx",\n    "args": ["-y", "x"],\n    "env": {}\n  }\n}'
    )
    hosts = [f"host-{number}.example.org" for number in range(5)]
    changed = with_value("{\n}", path("allow"), hosts)
    assert changed.splitlines()[2] == '    "host-0.example.org",'
    assert plain(changed) == {"allow": hosts}


def test_text_is_written_without_unneeded_escapes() -> None:
    assert with_value('{"a": 0}', path("a"), '日本 😀 "x"\\') == '{"a": "日本 😀 \\"x\\"\\\\"}'


@each_case(
    ("before", "after"),
    [
        ("", ""),
        ("{}", "{}"),
        ("[]", "[]"),
        ('{"a": 0}', '{"a": 0}'),
        ('{"k": 1}', "{}"),
        ('{ "k": 1, }', "{}"),
        ('{\n  "k": 1\n}\n', "{}\n"),
        ('{"a": 0, "k": 1}', '{"a": 0}'),
        ('{ "a": 0, "k": 1 }', '{ "a": 0 }'),
        ('{"a": 0, "k": 1,}', '{"a": 0, }'),
        ('{"k": 1, "a": 0}', '{"a": 0}'),
        ('{"a": 0, "k": 1, "b": 2}', '{"a": 0, "b": 2}'),
        ('{\n  "k": 1,\n  "a": 0\n}', '{\n  "a": 0\n}'),
        ('{\n  "a": 0,\n  "k": 1\n}', '{\n  "a": 0\n}'),
        ('{\r\n  "a": 0,\r\n  "k": 1\r\n}', '{\r\n  "a": 0\r\n}'),
        ('{\n  "a": 0,\n  "k": 1,\n}', '{\n  "a": 0,\n}'),
        ('{\n  "a": 0,\n  "k": {\n    "x": 1\n  },\n  "b": 2\n}', '{\n  "a": 0,\n  "b": 2\n}'),
        ('{\n  // one\n  "k": 1 // two\n}', "{\n  // one\n  // two\n}"),
        ('{\n  "a": 0, // a\n  "k": 1 // k\n}', '{\n  "a": 0 // a\n  // k\n}'),
        ('{"a": 0 /* x */, /* y */ "k": 1 /* z */}', '{"a": 0 /* x */ /* y */ /* z */}'),
        ('{"k": 1 /* x */, "a": 0}', '{/* x */ "a": 0}'),
        ('{"k": 1, "a": 0, "k": 2}', '{"a": 0}'),
        ('{\n  "a": 0\n  , "k": 1\n}', '{\n  "a": 0\n}'),
    ],
)
def test_a_key_is_removed_with_its_comma_and_its_line(before: str, after: str) -> None:
    changed = without(before, path("k"))
    assert re.sub(r"(?m) +$", "", changed) == after
    assert "k" not in plain(changed)


def test_a_nested_key_is_removed_and_its_objects_stay() -> None:
    assert without('{"a": {"b": {"c": 1}}}', path("a.b.c")) == '{"a": {"b": {}}}'
    assert without('{"a": 1}', path("a.b.c")) == '{"a": 1}'


@pytest.mark.parametrize("text", ['{"a": 1', "{'a': 1}", '{"a": 1} x'])
def test_text_that_is_not_json_is_not_changed(text: str) -> None:
    with pytest.raises(JsoncError):
        with_value(text, path("k"), 1)
    with pytest.raises(JsoncError):
        without(text, path("k"))


@pytest.mark.parametrize("text", ["[]", '{"k": 5}', '{"k": []}'])
def test_a_value_in_place_of_an_object_is_not_overwritten(text: str) -> None:
    with pytest.raises(JsoncError, match="an object is needed here"):
        with_value(text, path("k.x"), 1)


# Random files: keys, values, comments, commas, line ends.

KEYS = "abcd"
spaces = st.sampled_from(
    ["", " ", "\n", "\r\n", "\n  ", "\t", " // c\n", "/* { */", ' // "k": 1,\r\n', "/*,*/ "]
)


@st.composite
def objects(draw: st.DrawFn, depth: int = 0) -> str:
    """The text of an object, laid out in some way."""
    members = []
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3)):
        leaf = st.sampled_from(["1", '"}{,:"', "null", '[1, {"a": 2},]', '"日"'])
        value = draw(leaf if depth > 1 else leaf | objects(depth + 1))
        members.append(f'{draw(spaces)}"{key}"{draw(spaces)}:{draw(spaces)}{value}{draw(spaces)}')
    last = draw(st.sampled_from(["", ","])) if members else ""
    return f"{{{','.join(members)}{last}{draw(spaces)}}}"


@st.composite
def files(draw: st.DrawFn) -> str:
    return draw(spaces) + draw(objects() | st.just("")) + draw(spaces)


paths = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)


def comments(text: str) -> list[str]:
    """All comments; quotes do not occur in them other than in pairs."""
    found = re.findall(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', text)
    return [each for each in found if each.startswith("/")]


def assigned(value: Any, keys: list[str], new: Any) -> Any:
    """What a change should make of a value."""
    first, *rest = keys
    return {**value, first: assigned(value.get(first, {}), rest, new) if rest else new}


@given(files(), paths, st.sampled_from([7, "new", [1], {"x": {"y": []}}, None]))
def test_setting_a_key_in_any_file_keeps_everything_else(
    text: str, keys: list[str], new: Any
) -> None:
    try:
        wanted = assigned(plain(text), keys, new)
    except (AttributeError, TypeError):
        with pytest.raises(JsoncError):
            with_value(text, [(key,) for key in keys], new)
        return
    changed = with_value(text, [(key,) for key in keys], new)
    assert plain(changed) == wanted
    assert json.dumps(plain(changed)) == json.dumps(wanted), "the order stays too"
    if not isinstance(plain(text).get(keys[0]), dict):
        assert comments(changed) == comments(text)


@given(files(), paths)
def test_removing_a_key_from_any_file_keeps_everything_else(text: str, keys: list[str]) -> None:
    changed = without(text, [(key,) for key in keys])
    node = parse(text).root
    wanted = inner = json.loads(json.dumps(plain(text)))
    for key in keys[:-1]:
        node = next((m.node for m in members(node) if m.key == key), None)
        inner = inner.get(key) if isinstance(inner, dict) else None
    found = next((m for m in members(node) if m.key == keys[-1]), None)
    if found is None:
        assert changed == text
        return
    del inner[keys[-1]]
    assert plain(changed) == wanted
    assert comments(changed) == [*comments(text[: found.start]), *comments(text[found.end :])]


def members(node: JsoncNode | None) -> tuple[JsoncMember, ...]:
    return node.members if isinstance(node, ObjectNode) else ()


@given(files(), st.sampled_from(["x", "y"]))
def test_an_added_key_can_be_removed_again(text: str, key: str) -> None:
    added = with_value(text, path(key), 1)
    removed = without(added, path(key))
    assert plain(removed) == plain(text)
    assert comments(removed) == comments(text)


def test_comments_inside_a_replaced_list_are_removed_and_others_stay() -> None:
    text = '{\n  // above\n  "a": [1, /* in */ 2], // behind\n}'
    assert with_value(text, [("a",)], [3]) == '{\n  // above\n  "a": [3], // behind\n}'
