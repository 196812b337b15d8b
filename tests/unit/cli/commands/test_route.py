"""`ekiden route`, in this process."""

from __future__ import annotations

import pytest

from tests.unit.cli.commands.conftest import Desk

FIELDS = {
    "agent",
    "method",
    "confidence",
    "matched_keywords",
    "matched_patterns",
    "candidates",
    "reason",
    "elapsed_ms",
}


def test_json_has_the_fields_that_programs_rely_on(desk: Desk) -> None:
    routed = desk("route", "--json", "I want a refund for order 1044")
    assert routed.code == 0
    assert routed.err == ""
    assert routed.json.keys() >= FIELDS
    assert routed.json["agent"] == "billing"
    assert "refund" in routed.json["matched_keywords"]
    assert routed.json["matched_patterns"]
    for candidate in routed.json["candidates"]:
        assert candidate.keys() >= {"agent", "score", "confidence"}
    assert [each["agent"] for each in routed.json["candidates"]][:2] == ["billing", "orders"]


def test_the_route_prints_the_decision_the_matches_and_every_score(desk: Desk) -> None:
    routed = desk("route", "我的订单1043在哪里？")
    lines = routed.out.splitlines()
    assert lines[0].startswith("rule-match → orders, ")
    assert any(line.startswith("keywords: ") and "订单" in line for line in lines)
    assert any(line.startswith("stage rule: orders, ") for line in lines)
    assert any(line.startswith("agent ") and "matched" in line for line in lines)


def test_routing_stores_nothing(desk: Desk) -> None:
    desk("route", "Where is my order?")
    assert not (desk.folder / ".ekiden" / "ekiden.db").exists()


def test_no_match_prints_the_reason_and_the_consequence(desk: Desk) -> None:
    routed = desk("route", "--strategy", "rule", "Explain quantum chromodynamics")
    assert routed.code == 0
    assert routed.out.startswith("no match: ")
    assert "@billing, @orders, @reception, @technical" in routed.out
    routed = desk("route", "--strategy", "rule", "--json", "Explain quantum chromodynamics")
    assert routed.json["agent"] is None


@pytest.mark.parametrize(
    ("routing", "told"),
    [
        ('"fallback": "none"', "route.none"),
        ('"fallback": "default_agent", "default_agent": "reception"', "default → reception"),
        ('"enabled": false', "routing is switched off"),
    ],
)
def test_the_fallback_is_printed(desk: Desk, routing: str, told: str) -> None:
    desk.settings(f'{{"agents": {{"routing": {{"strategy": "rule", {routing}}}}}}}')
    assert told in desk("route", "Explain quantum chromodynamics").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--strategy", "rule", "I want a refund"],
        ["@auto --strategy=rule I want a refund"],
        ["--strategy", "llm", '@auto --strategy rule "I want a refund"'],
    ],
)
def test_the_strategy_can_be_given(desk: Desk, arguments: list[str]) -> None:
    routed = desk("route", "--json", *arguments).json
    assert (routed["agent"], routed["strategy"], routed["method"]) == ("billing", "rule", "rule")


def test_an_agent_name_in_the_text_is_understood(desk: Desk) -> None:
    routed = desk("route", "--json", "@orders I want a refund").json
    assert (routed["agent"], routed["method"], routed["confidence"]) == ("orders", "named", 100)
    unknown = desk("route", "--json", "@biling I want a refund")
    assert (unknown.code, unknown.error["code"]) == (5, "agent.unknown")
    assert "did you mean 'billing'?" in unknown.error["message"]


def test_the_text_can_come_from_standard_input(desk: Desk) -> None:
    routed = desk("route", "-", "--json", input="返金してください\n".encode())
    assert routed.json["agent"] == "billing"


@pytest.mark.parametrize(
    ("arguments", "input", "told"),
    [
        ([""], b"", "empty"),
        (["@auto"], b"", "there is no text after @auto"),
        (["-"], b"caf\xe9", "not UTF-8"),
        (["caf\udce9"], b"", "not UTF-8"),
        (["@auto --strategy=magic hi"], b"", "there is no strategy 'magic'"),
        (["I", "want", "a", "refund"], b"", "put it in quotes, as 'I want a refund'"),
    ],
)
def test_an_invalid_request_is_refused(
    desk: Desk, arguments: list[str], input: bytes, told: str
) -> None:
    refused = desk("route", *arguments, input=input)
    assert refused.code == 2
    assert told in refused.err


def test_without_a_project_the_demo_team_is_used(bare: Desk) -> None:
    routed = bare("route", "Hello")
    assert routed.code == 0
    assert "`ekiden init`" in routed.err
    assert list(bare.folder.iterdir()) == []
