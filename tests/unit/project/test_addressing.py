"""Whom a message is for."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ekiden.core.errors import UserError
from ekiden.project.routing import AddressedMessage, parse_address
from tests.support.cases import each_case


@each_case(
    ("text", "to", "strategy", "said"),
    [
        ("why does it crash?", None, None, "why does it crash?"),
        ("@debugger why?", "debugger", None, "why?"),
        ('@debugger "why does it crash?"', "debugger", None, "why does it crash?"),
        ("@debugger, why?", "debugger", None, "why?"),
        ("@debugger: why?", "debugger", None, "why?"),
        ("@auto 我的订单呢？", "auto", None, "我的订单呢？"),
        ("＠客服 我的订单呢？", "客服", None, "我的订单呢？"),
        ("@客服：“我的订单呢？”", "客服", None, "我的订单呢？"),
        ("@auto --strategy=rule why?", "auto", "rule", "why?"),
        ("@auto --strategy llm why?", "auto", "llm", "why?"),
        ('@auto --strategy=rule "why?"', "auto", "rule", "why?"),
        ("@Auto why?", "auto", None, "why?"),
        ("＠AUTO --strategy=rule why?", "auto", "rule", "why?"),
        ("@auto --strategy rule\nwhy?", "auto", "rule", "why?"),
        ("@auto --strategy\trule\t\twhy?", "auto", "rule", "why?"),
        ("@auto\n--strategy\nrule", "auto", "rule", ""),
        ("@automatic why?", "automatic", None, "why?"),
        ("  @debugger\nline one\nline two", "debugger", None, "line one\nline two"),
        ("@debugger --strategy=rule is text", "debugger", None, "--strategy=rule is text"),
        ("@debugger", "debugger", None, ""),
        ("mail me at a@b.org", None, None, "mail me at a@b.org"),
        ("@ alone", None, None, "@ alone"),
        (r"\@everyone hello", None, None, "@everyone hello"),
        ('@a "one" and "two"', "a", None, '"one" and "two"'),
    ],
)
def test_an_address_at_the_beginning_selects_the_agent(
    text: str, to: str | None, strategy: str | None, said: str
) -> None:
    assert parse_address(text) == AddressedMessage(text=said, to=to, strategy=strategy)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("@auto --strategy=rul why?", "did you mean 'rule'"),
        ("@auto --strategy= why?", "choose one of rule, semantic, llm, hybrid"),
        ("@auto --strategy", "choose one of"),
        ("@auto --fast why?", "takes --strategy=NAME"),
    ],
)
def test_unsupported_options_of_auto_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        parse_address(text)


@given(st.text())
def test_any_text_is_parsed_or_refused_with_advice(text: str) -> None:
    try:
        address = parse_address(text)
    except UserError:
        assert text.lstrip()[:5].lower() in ("@auto", "＠auto")
        return
    if address.to is None:
        assert address.text in (text, text[1:])
    else:
        assert address.text in text
