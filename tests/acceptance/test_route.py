"""`ekiden route`."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project


@pytest.mark.slow
def test_json_output_is_the_decision_and_nothing_is_stored(project: Project) -> None:
    routed = project("route", "--json", "I want a refund for order 1044")
    assert (routed.code, routed.err) == (0, "")
    assert routed.json.keys() >= {
        "agent",
        "method",
        "confidence",
        "matched_keywords",
        "matched_patterns",
        "candidates",
        "reason",
        "elapsed_ms",
    }
    assert routed.json["agent"] == "billing"
    assert not (project.folder / ".ekiden" / "ekiden.db").exists()


def test_chinese_is_routed_in_every_locale(project: Project) -> None:
    routed = project("route", "我的订单1043在哪里？", LANG="C", LC_ALL="C")
    assert routed.out.startswith("rule-match → orders, ")
    assert "订单" in routed.out


@pytest.mark.slow
def test_a_request_that_is_not_utf8_is_refused(project: Project) -> None:
    for refused in (project("route", b"caf\xe9"), project("route", "-", input=b"caf\xe9")):
        assert refused.code == 2
        assert "is not UTF-8" in refused.err
