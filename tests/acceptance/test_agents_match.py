"""`ekiden agents match`."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project


def test_agents_are_found_by_capability(project: Project) -> None:
    shown = project("agents", "match", "refunds,invoices")
    assert (shown.code, shown.err) == (0, "")
    assert "billing" in shown.out
    [found] = project("agents", "match", "tag:money", "refunds", "--json").json
    assert (found["agent"], found["score"], found["missing"]) == ("billing", 1.0, [])
    assert found["by"] == "tag"


@pytest.mark.slow
def test_no_matching_agent_is_an_error_with_an_exit_code(project: Project) -> None:
    refused = project("agents", "match", "refunds", "--exclude", "billing", "--json")
    assert (refused.code, refused.json) == (5, [])
    assert refused.error["code"] == "cli.nobody_capable"


@pytest.mark.slow
def test_agents_match_refuses_arguments_that_are_not_utf_8(project: Project) -> None:
    refused = project("agents", "match", b"caf\xe9", "--json")
    assert (refused.code, refused.error["code"]) == (2, "cli.bad_input")
