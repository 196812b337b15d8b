"""`ekiden agents match`."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project


def test_agents_are_found_by_what_they_can_do(project: Project) -> None:
    shown = project("agents", "match", "refunds,invoices")
    assert (shown.code, shown.err) == (0, "")
    assert "billing" in shown.out
    [found] = project("agents", "match", "tag:money", "refunds", "--json").json
    assert (found["agent"], found["score"], found["missing"]) == ("billing", 1.0, [])
    assert found["by"] == "tag"


@pytest.mark.slow
def test_nobody_is_an_error_that_scripts_can_tell(project: Project) -> None:
    refused = project("agents", "match", "refunds", "--exclude", "billing", "--json")
    assert (refused.code, refused.json) == (5, [])
    assert refused.error["code"] == "cli.nobody_capable"


@pytest.mark.slow
def test_names_that_are_not_utf_8_do_no_harm(project: Project) -> None:
    refused = project("agents", "match", b"caf\xe9", "--json")
    assert (refused.code, refused.error["code"]) == (2, "cli.bad_input")
