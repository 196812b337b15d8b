"""Which names are one and the same, and what a set of capabilities lacks."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ekiden.capabilities import missing_capabilities
from ekiden.capabilities.declared import folded
from ekiden.core.errors import UserError
from ekiden.core.profile import Capability
from tests.support.cases import each_case

BILLING = (
    Capability(name="refunds", tags=("money", "客服")),
    Capability(name="发票 处理", proficiency=0.2),
    Capability(name="コードレビュー"),
    Capability(name="idle", proficiency=0),
)


@each_case(
    "spelling",
    [
        "Code-Review",
        "code_review",
        "code review",
        " CODE--review ",
        "ＣＯＤＥ　ｒｅｖｉｅｗ",
        "code\u2011review",
    ],
)
def test_names_ignore_case_width_and_separators(spelling: str) -> None:
    assert missing_capabilities([spelling], [Capability(name="code-review")]) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [("codereview", "code-review"), ("c", "c++"), ("c#", "c++"), ("コード", "コド"), ("-", "_")],
)
def test_other_differences_of_names_are_kept(one: str, other: str) -> None:
    assert missing_capabilities([one], [Capability(name=other)]) == (one,)


def test_missing_requirements_are_listed_once_in_the_given_order() -> None:
    required = [" Visa ", "refunds", "発送", "visa", "MONEY"]
    assert missing_capabilities(required, BILLING) == ("Visa", "発送")


def test_chinese_and_japanese_names_are_found() -> None:
    assert missing_capabilities(["发票_处理", "ｺｰﾄﾞﾚﾋﾞｭｰ", "客服"], BILLING) == ()


def test_a_required_tag_matches_only_a_tag() -> None:
    required = ["tag:money", "TAG：客服", "tag: refunds"]
    assert missing_capabilities(required, BILLING) == ("tag: refunds",)


def test_missing_ignores_proficiency() -> None:
    assert missing_capabilities(["idle"], BILLING) == ()


def test_no_requirement_means_nothing_missing() -> None:
    assert missing_capabilities([], []) == ()
    assert missing_capabilities(["x"], []) == ("x",)


@each_case("bad", [[""], ["  "], ["tag:"], ["tag:  "], "refunds", [None], [3]])
def test_an_invalid_name_is_refused(bad: object) -> None:
    with pytest.raises(UserError):
        missing_capabilities(bad, BILLING)  # type: ignore[arg-type]  # what a caller without types does


@each_case(
    "name", ["\ud800half", "👩🏽‍💻", "e\u0301\u0327" * 5_000, "x" * 100_000, "\x00", "ﬀ", "İ"]
)
def test_any_text_that_is_not_empty_is_a_name(name: str) -> None:
    assert missing_capabilities([name], [Capability(name=name)]) == ()


@given(st.text(max_size=40))
def test_folding_is_idempotent_and_never_empty(text: str) -> None:
    once = folded(text)
    assert folded(once) == once
    assert bool(once) == bool(text.strip())
