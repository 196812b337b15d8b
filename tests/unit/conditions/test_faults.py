"""A condition that cannot be read says where and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.conditions import compile_condition
from ekiden.core.errors import ConditionError, UserError
from tests.support.cases import each_case


def fault(text: Any) -> ConditionError:
    with pytest.raises(ConditionError) as caught:
        compile_condition(text)
    return caught.value


@each_case(
    ("text", "position", "advice"),
    [
        ("plan = 'pro'", 5, "write == to compare"),
        ("plan === 'pro'", 5, "write == to compare"),
        ("plan !== 'pro'", 5, "write != to compare"),
        ("a <> b", 2, "write !="),
        ("a && b", 2, "write and"),
        ("a || b", 2, "write or"),
        ("!x", 0, "write not"),
        ("a and !x", 6, "write not"),
        ("x => 3", 2, "write >="),
        ("x =< 3", 2, "write <="),
        ("x ≤ 3", 2, "write <="),
        ("a AND b", 2, "write and"),
        ("a Or b", 2, "write or"),
        ("NOT a", 0, "write not"),
        ("a == TRUE", 5, "write true"),
        ("a == none", 5, "write null"),
        ("a is null", 2, "write =="),
        ("a -> b", 2, "write . to go into a structure"),
        ("$a", 0, "without $"),
        ("a; b", 1, "one expression"),
        ("a # why", 2, "no comments"),
        ("a ? b : c", 2, "no ? :"),
        ("“高” == x", 0, "write \" or ' around text"),
        ("x（3）", 1, "write ( instead of （"),
        ("x == ５", 5, "write 5 instead of ５"),
        ("ｘ == 5", 0, "write x in letters of plain width"),
        ("🔥 > 1", 0, 'payload["🔥"]'),
        ("a \u200b", 2, "invisible"),
        ("a\x00b", 1, "U+0000"),
        ("a \ud800", 2, "U+D800"),
        ("", 0, "it is empty"),
        (" \n ", 0, "it is empty"),
        ("a b", 2, "an operator is missing before b"),
        ("a 5", 2, "an operator is missing"),
        ('"a" "b"', 4, "an operator is missing"),
        ("a not b", 2, "write not in"),
        ("a == not b", 5, "(not x)"),
        ("a, b", 1, "put the list into [ ]"),
        ("(a", 2, "a ) is missing at the end"),
        ("[a", 2, "a ] is missing at the end"),
        ("(a]", 2, "there is no [ for this ]"),
        ("a)", 1, "there is no ( for this )"),
        ("()", 0, "an empty list is written []"),
        ("x == 'abc", 5, "has no ' at its end"),
        ("x == 'abc\\", 5, "has no ' at its end"),
        ("1 + ", 4, "a value is missing after +"),
        ("1 + * 2", 4, "a value is missing between + and *"),
        ("< 3", 0, "a value is missing before <"),
        ("and", 0, "a value is missing before and"),
        ("a and or b", 6, "a value is missing before or"),
        ("+5 > x", 0, "leave out the +"),
        ("x.", 2, "a name is missing after the dot"),
        ("x.0 > 1", 1, "write items[0]"),
        ("x.=", 2, "write =="),
        ("x[y]", 2, "a whole number or a text"),
        ("x[1.5]", 2, "a whole number or a text"),
        ('x[-"a"]', 3, "a whole number or a text"),
        ("x[=]", 2, "write =="),
        ("x[0", 3, "a ] is missing"),
        ("'a'.b", 3, "only fields can be gone into, not into 'a'"),
        ("[1][0]", 3, "only fields can be gone into"),
        ("lower(a)[0]", 8, "only fields can be gone into"),
        ("lenn(x) > 3", 0, "did you mean 'len'?"),
        ("hoursSince(x) > 3", 0, "did you mean 'hours_since'?"),
        ("quux(x)", 0, "there are: abs, all_of"),
        ("a.lower() == 'x'", 0, "write lower(…)"),
        ("a.b()", 0, "only functions can be called"),
        ("(a)(b)", 3, "only functions can be called"),
        ("len()", 0, "len is written len(value)"),
        ("now(1)", 0, "now is written now()"),
        ("round(1, 2, 3)", 0, "round is written round(number, digits?)"),
        ("min()", 0, "min is written min(value, …)"),
        ("exists(3)", 7, "exists needs a field"),
        ("exists(a + b)", 7, "exists needs a field"),
        ("matches(x, y)", 11, "must be a text in quotes"),
        ("matches(x, 3)", 11, "must be a text in quotes"),
        ("matches(x, '(?=a)')", 11, "no look-around"),
        ("matches(x, '(')", 11, "cannot be used"),
        ("matches(x, '(((a{500}){500}){500}')", 11, "cannot be used"),
        ("matches(x, '\ud800')", 11, "half of a character"),
        ("'a' * 1000000000 == x", 0, "* calculates with numbers only, not text"),
        ("x + [1]", 4, "+ calculates with numbers only, not list"),
        ("-true", 1, "- calculates with numbers only, not boolean"),
        ("x < true", 4, "< compares numbers or texts, not boolean"),
        ("null <= x", 0, "<= compares numbers or texts, not null"),
        ("x in 5", 5, "in looks into a list or a text, not number"),
        ("x not in null", 9, "not in looks into a list or a text, not null"),
        ("x == 1_000", 5, "this is not a number"),
        ("x == 0x10", 5, "this is not a number"),
        ("x == 3j", 5, "this is not a number"),
        ("x == 1.2.3", 5, "this is not a number"),
        ("x == 007", 5, "no zeros before it"),
        ("x == 1e999", 5, "too large"),
        ("x == 9223372036854775809", 5, "too large"),
        (f"x == {'9' * 1900}", 5, "too large"),
    ],
)
def test_a_fault_has_a_position_and_advice(text: str, position: int, advice: str) -> None:
    found = fault(text)
    assert found.position == position
    assert found.text == text
    assert advice in found.problem
    assert advice in str(found)


@each_case(
    ("text", "position"),
    [
        ("__class__", 0),
        ("a.__class__", 2),
        ("''.__class__.__mro__", 2),
        ("__import__('os').system('x')", 0),
        ("().__class__", 0),
        ("lambda: 1", 0),
        ("(lambda x: x)(1)", 1),
        ("[x for x in y]", 3),
        ("{x for x in y}", 0),
        ("{'a': 1}", 0),
        ("any(x for x in y)", 0),
        ("f'{x}' == y", 0),
        ("rb'a' == y", 0),
        ("b'a'", 0),
        ("r'a'", 0),
        ("(x := 3)", 3),
        ("len(*x)", 4),
        ("len(**x)", 4),
        ("len(value=x)", 9),
        ("2 ** 3", 2),
        ("10**10**10", 2),
        ("a & b", 2),
        ("a | b", 2),
        ("a ^ b", 2),
        ("~a", 0),
        ("a << 2", 2),
        ("a >> 2", 2),
        ("a @ b", 2),
        ("a if b else c", 2),
        ("await x", 0),
        ("yield x", 0),
        ("import os", 0),
        ("x[1:2]", 3),
        ("x[...]", 2),
        ("...", 0),
        ("eval('1')", 0),
        ("getattr(a, 'b')", 0),
        ("a\\\n+b", 1),
        ("`x`", 0),
        ("'''a'''", 2),
        ("print", None),
    ],
)
def test_a_condition_cannot_access_python(text: str, position: int | None) -> None:
    if position is None:
        assert not compile_condition(text).holds({})
    else:
        assert fault(text).position == position


@each_case(
    ("text", "line", "caret"),
    [
        ("plan = 'pro'", "    plan = 'pro'", 9),
        ("用户.等级 = '高'", "    用户.等级 = '高'", 4 + 10),
        ("'🔥' == x = 1", "    '🔥' == x = 1", 4 + 4 + 6),
        ("e\u0301 = 1", "    e\u0301 = 1", 4 + 2),
        ("a and\nb = 1", "    b = 1", 4 + 2),
        ("a\t= 1", "    a = 1", 4 + 2),
        ("'\u202e\ud800' = 1", "    '\ufffd\ufffd' = 1", 4 + 5),
        (f"{'a' * 500} = {'b' * 500}", f"    …{'a' * 47} = {'b' * 22}…", 4 + 1 + 48),
    ],
)
def test_a_caret_marks_the_fault(text: str, line: str, caret: int) -> None:
    message = str(fault(text))
    message.encode()
    assert message.splitlines()[1:] == [line, " " * caret + "^"]


def test_the_error_is_a_user_error_with_a_code() -> None:
    found = fault("a =")
    assert isinstance(found, UserError)
    assert found.code == "condition.invalid"


@each_case("text", [None, True, 5, ["a"], b"a", {}])
def test_a_condition_that_is_not_text_is_refused(text: Any) -> None:
    assert "it must be text" in str(fault(text))


def test_length_nesting_and_parts_are_limited() -> None:
    assert compile_condition(f"x == '{'a' * 1990}'").text
    assert fault("a" * 2001).position == 2000
    assert "the maximum is 2000" in str(fault("a" * 10_000_000))
    assert compile_condition("(" * 20 + "a" + ")" * 20).holds({"a": 1})
    for opening in ("(", "[", "not ", "-", "len(", "-(", "[("):
        assert "nested too deeply" in str(fault(opening * 300 + "a"))
    assert compile_condition(" + ".join(["a"] * 59) + " == 59").holds({"a": 1})
    assert "nested too deeply" in str(fault(" + ".join(["a"] * 70)))
    assert compile_condition(" and ".join(["a"] * 300)).holds({"a": 1})
    assert "too many parts" in str(fault("x in [" + "1," * 900 + "1]"))


def test_a_condition_compiled_near_the_recursion_limit_is_refused() -> None:
    def deep() -> int:
        try:
            return deep() + 1
        except RecursionError:
            return 0

    def at(depth: int) -> Any:
        return at(depth - 1) if depth else attempt()

    def attempt() -> Any:
        try:
            return compile_condition("(" * 20 + "unread" + ")" * 20)
        except ConditionError as exc:
            return exc

    found = at(deep() - 60)
    assert isinstance(found, ConditionError)
    assert compile_condition("(" * 20 + "unread" + ")" * 20).holds({"unread": 1})
