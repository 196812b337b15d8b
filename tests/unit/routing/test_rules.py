"""Rules: what counts as found, what it is worth, and who wins."""

from __future__ import annotations

import pytest

from ekiden import Agent, UserError
from ekiden.core.profile import Triggers
from ekiden.routing import RuleStage, Score
from ekiden.routing.rules import MAX_CHARS
from tests.support.cases import each_case


def agent(
    name: str,
    *keywords: str,
    patterns: tuple[str, ...] = (),
    priority: int = 100,
) -> Agent[None]:
    triggers = Triggers(keywords=keywords, patterns=patterns, priority=priority)
    return Agent(name, triggers=triggers)


def found(keyword: str, text: str) -> bool:
    return RuleStage([agent("a", keyword)]).decide(text).agent == "a"


@each_case(
    ("keyword", "text"),
    [
        ("err", "ERR!"),
        ("Error", "an error occurred"),
        ("error", "ＥＲＲＯＲ を見た"),
        ("error", "错误error了"),
        ("error", "error-prone"),
        ("error", "the error's cause"),
        ("erreur", "l’erreur"),
        ("don't", "I don’t know"),
        ("e-mail", "an e‑mail"),
        ("C++", "C++11 or C++?"),
        ("C#", "is it C#?"),
        ("node.js", "with Node.js."),
        (".NET", "ASP.NET"),
        ("#42", "issue#42, please"),
        ("sign in", "Sign\n \u3000in now"),
        ("straße", "STRASSE"),
        ("istanbul", "İSTANBUL"),
        ("ΟΔΟΣ", "οδος"),
        ("ошибка", "Ошибка!"),
        ("café", "cafe\u0301"),
        ("soft", "so\u00adft"),
        ("हिन्दी", "मुझे हिन्दी आती है"),
        ("订单", "我的订单号是多少"),
        ("订单ID", "请查新订单ID是"),
        ("エラー", "エラーログ"),
        ("ｴﾗｰ", "エラーが出た"),
        ("오류", "오류가 났어요"),
        ("คืนเงิน", "ขอคืนเงินด้วย"),
        ("3月", "2026年3月"),
        ("🔥", "so 🔥hot"),
        ("⚠️", "⚠ careful"),
        ("404", "404错误"),
        ("__init__", "in __init__ there"),
    ],
)
def test_a_keyword_is_found(keyword: str, text: str) -> None:
    assert found(keyword, text)


@each_case(
    ("keyword", "text"),
    [
        ("err", "merry"),
        ("err", "errors"),
        ("error", "my_error_code"),
        ("error", "error404"),
        ("404", "error404"),
        ("C", "C++ and C#"),
        ("node.js", "node.json"),
        ("#42", "#421"),
        ("sign in", "signin"),
        ("sign in", "sign inside"),
        ("订单ID", "订单IDs"),
        ("ID号", "VALID号"),
        ("3月", "13月"),
        ("cafe", "café"),
        ("x", "x\u0302"),
        ("हि", "हिन्दी"),
        ("訂單", "订单"),
        (" \ufe0f", "any thing"),
    ],
)
def test_a_keyword_is_not_found(keyword: str, text: str) -> None:
    assert not found(keyword, text)


@each_case("text", ["", "\x00", "错" * 30_000, "\ud800 err", "\x1ferr\x1f", "a" * 50_000])
def test_control_characters_and_surrogates_do_not_affect_matching(text: str) -> None:
    stage = RuleStage([agent("a", "err", patterns=("err",))])
    assert (stage.decide(text).agent == "a") is ("err" in text)


def test_many_combining_marks_are_read_in_linear_time() -> None:
    text = "a" + "\u0315\u0300" * 9_000 + " 订单"
    assert RuleStage([agent("a", "订单")]).decide(text).agent == "a"


def test_a_keyword_scores_10_and_a_pattern_20_times_the_priority() -> None:
    stage = RuleStage([agent("a", "build", "fails", patterns=(r"TS\d+",), priority=80)])
    result = stage.decide("The build fails: ts2304. It fails!")
    assert result.candidates == (
        Score(
            agent="a", score=32, confidence=99, keywords=("build", "fails"), patterns=(r"TS\d+",)
        ),
    )
    assert result.confidence == 99
    assert result.reason == (
        r"a: keywords 'build', 'fails' and pattern 'TS\\d+', score 40 × 80 % = 32"
    )


@pytest.mark.parametrize(("priority", "score"), [(5, 1), (4, None), (0, None), (25, 3), (100, 10)])
def test_the_score_is_rounded_half_up_and_zero_is_no_match(
    priority: int, score: int | None
) -> None:
    result = RuleStage([agent("a", "x", priority=priority)]).decide("x")
    assert (result.candidates[0].score if result.candidates else None) == score


def test_a_keyword_in_two_spellings_counts_once() -> None:
    stage = RuleStage([agent("a", "Error", "ERROR", "ｅｒｒｏｒ", patterns=("e", "e"))])
    [score] = stage.decide("error error").candidates
    assert (score.score, score.keywords, score.patterns) == (30, ("Error",), ("e",))


def test_overlapping_keywords_all_count() -> None:
    [score] = RuleStage([agent("a", "退款", "申请退款", "款")]).decide("我要申请退款").candidates
    assert sorted(score.keywords) == sorted(("退款", "申请退款", "款"))


@pytest.mark.parametrize(
    ("text", "confidences"),
    [("x", (85,)), ("x y", (99,)), ("x u", (26, 26)), ("x y u", (85, 15)), ("x y z u", (99, 1))],
)
def test_the_confidence_depends_on_the_lead_in_keywords(
    text: str, confidences: tuple[int, ...]
) -> None:
    result = RuleStage([agent("one", "x", "y", "z"), agent("other", "u")]).decide(text)
    assert tuple(score.confidence for score in result.candidates) == confidences


def test_a_priority_affects_only_comparisons_between_agents() -> None:
    low, high = agent("low", "x", priority=10), agent("high", "y", priority=100)
    assert RuleStage([low, high]).decide("x").confidence == 85
    assert 26 < RuleStage([low, high]).decide("x y").confidence < 85


def test_ties_are_broken_by_priority_then_patterns_then_name() -> None:
    agents = [
        agent("d", "x", "y"),
        agent("c", "x", "y"),
        agent("b", patterns=("x",)),
        agent("low", "x", "y", patterns=("x",), priority=50),
    ]
    result = RuleStage(agents).decide("x y")
    assert [score.agent for score in result.candidates] == ["b", "c", "d", "low"]
    assert {score.score for score in result.candidates} == {20}


def test_a_choice_is_sure_at_the_threshold() -> None:
    agents = [agent("a", "x", "y", "z")]
    assert RuleStage(agents, threshold=85).decide("x").sure
    assert not RuleStage(agents, threshold=86).decide("x").sure
    assert not RuleStage(agents, threshold=0).decide("nothing").sure


def test_system_agents_and_excluded_ones_are_no_candidates() -> None:
    system = Agent("system", scope="system", triggers=Triggers(keywords=("x",), priority=100))
    stage = RuleStage([system, agent("a", "x"), agent("b", "x")])
    assert [score.agent for score in stage.decide("x").candidates] == ["a", "b"]
    assert [score.agent for score in stage.decide("x", excluded={"a"}).candidates] == ["b"]
    assert stage.decide("x", excluded={"a", "b"}).agent is None


def test_only_the_beginning_of_a_huge_text_is_read_and_the_reason_says_so() -> None:
    stage = RuleStage([agent("a", "err")])
    late = stage.decide("x " * MAX_CHARS + "err")
    assert late.agent is None
    assert late.reason == (
        "no keyword or pattern matches; only the first 20,000 of 40,003 characters were checked"
    )
    early = stage.decide("err " + "x " * MAX_CHARS)
    assert early.agent == "a"
    assert "only the first 20,000" in early.reason


def test_a_word_cut_off_at_the_limit_does_not_match() -> None:
    text = " " * (MAX_CHARS - 3) + "error"
    assert RuleStage([agent("a", "err")]).decide(text).agent is None
    assert RuleStage([agent("a", "err")]).decide(" " * (MAX_CHARS - 3) + "err!").agent == "a"


def test_an_invalid_pattern_is_refused_when_the_triggers_are_created() -> None:
    with pytest.raises(UserError, match="Triggers.patterns has .*look-around"):
        Triggers(patterns=("fine", "(?=x)"))


@pytest.mark.parametrize("priority", [-1, 101, 2.5, "50", True])
def test_an_invalid_priority_is_refused(priority: object) -> None:
    with pytest.raises(UserError, match="Triggers.priority must be .*from 0 to 100"):
        Triggers(priority=priority)  # type: ignore[arg-type]


def test_the_right_one_of_a_thousand_agents_is_found() -> None:
    agents = [
        agent(
            f"agent-{number}",
            *(f"word{number}x{each}" for each in range(18)),
            f"订单{number}号",
            f"first{number} second",
            patterns=(rf"\bcode{number}\b", rf"[a-z]{{3}}-{number}-\d+", rf"错误{number}[^\d]"),
            priority=number % 100 + 1,
        )
        for number in range(1000)
    ]
    stage = RuleStage(agents)
    result = stage.decide("please: FIRST500\tsecond, word500x3, 我的订单500号 code500 abc-500-1 ")
    assert [score.agent for score in result.candidates] == ["agent-500"]
    assert len(result.candidates[0].keywords) == 3
    assert len(result.candidates[0].patterns) == 2
    assert stage.decide("nothing of this").agent is None


def test_agents_without_triggers_never_match() -> None:
    assert RuleStage([Agent("a")]).decide("anything").agent is None
    assert RuleStage([]).decide("anything").reason == "no keyword or pattern matches"


@pytest.mark.parametrize(
    "text",
    [
        "the app crashes and shows errors",
        "debugging help",
        "it throws exceptions",
        "bugs everywhere",
        "it CRASHED again",
        "Crashing…",
    ],
)
def test_words_are_found_in_their_inflected_forms(text: str) -> None:
    keywords = ("debug", "error", "exception", "crash", "bug")
    assert RuleStage([agent("debugger", *keywords)]).decide(text).agent == "debugger"


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        ("err", "merry errors"),
        ("car", "she cares and is caring"),
        ("new", "the news"),
        ("bus", "business"),
        ("test", "contest"),
        ("C", "C++ and C#"),
    ],
)
def test_unrelated_words_with_the_same_letters_are_not_found(keyword: str, text: str) -> None:
    assert RuleStage([agent("a", keyword)]).decide(text).agent is None


@pytest.mark.parametrize(
    "forms",
    [
        "invoice invoices invoiced invoicing",
        "cancel cancels cancelled canceling",
        "query queries querying queried",
        "process processes processing",
        "add adds added adding",
        "rechnung rechnungen",
        "factura facturas",
        "ошибка ошибки ошибку",
    ],
)
def test_each_form_of_a_word_finds_the_others(forms: str) -> None:
    for keyword in forms.split():
        stage = RuleStage([agent("a", keyword)])
        assert all(stage.decide(form).agent == "a" for form in forms.split())
