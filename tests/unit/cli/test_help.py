"""Help pages: every command has one that fits the terminal and shows an example."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ekiden.api.administration import AuditEntry
from ekiden.api.agents import AgentDetails, AgentPresence, AgentSummary
from ekiden.api.handoffs import HandoffDetails, HandoffEnd, HandoffSummary
from ekiden.api.plans import PlanPreview
from ekiden.bus.deadlocks import Deadlock
from ekiden.capabilities.declared import Match
from ekiden.cli.commands.agents import Validation
from ekiden.cli.main import main
from ekiden.cli.parser.help import EXAMPLES, FIELDS
from ekiden.cli.parser.parser import build
from ekiden.core.questions import InboxItem


def pages() -> list[str]:
    """Every command and every group, as it is typed."""
    app = build()
    names = [name for name in app if not name.startswith("-")]
    below = [f"{name} {each}" for name in names for each in app[name] if not each.startswith("-")]
    return [*names, *below]


@pytest.mark.parametrize("page", pages())
def test_a_page_has_an_example_and_lines_that_fit(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*page.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"    {EXAMPLES[page].splitlines()[0]}\n" in out
    assert out.startswith(f"Usage: ekiden {page}")
    assert not [line for line in out.splitlines() if len(line) > 80]


def test_the_overview_fits_and_has_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "    ekiden run " in out
    assert not [line for line in out.splitlines() if len(line) > 80]


def test_every_example_belongs_to_an_existing_command() -> None:
    assert EXAMPLES.keys() == set(pages())


@pytest.mark.parametrize(
    "example", [line for each in EXAMPLES.values() for line in each.split("\n")]
)
def test_every_example_can_be_parsed(example: str) -> None:
    words = shlex.split(example)[1:]
    if words == ["worker"]:
        words.append("run")
    build().parse_args(words, exit_on_error=False, print_error=False)


def names(kind: Any) -> set[str]:
    """The fields of the kind's JSON."""
    return {each.metadata.get("json", each.name) for each in fields(kind)}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("agents list", names(AgentSummary)),
        ("agents show", names(AgentDetails) - names(AgentSummary)),
        ("agents ps", names(AgentPresence)),
        ("agents deadlocks", names(Deadlock)),
        ("agents match", names(Match)),
        ("agents validate", set(Validation(files=0, problems=()).to_json())),
        ("plan", names(PlanPreview)),
        ("handoff start", names(HandoffEnd)),
        ("handoff list", names(HandoffSummary)),
        ("handoff show", names(HandoffDetails) - names(HandoffSummary)),
        ("inbox list", names(InboxItem)),
        ("audit list", names(AuditEntry)),
    ],
)
def test_the_help_of_json_names_every_field(command: str, expected: set[str]) -> None:
    assert expected <= set(re.findall(r"[a-z_]+", FIELDS[command]))


def test_the_help_of_store_info_names_every_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"--store={tmp_path / 'store.db'}"
    assert main(["memory", "store", "likes blue", "--user=anna", store]) == 0
    capsys.readouterr()
    assert main(["store", "info", "--json", store]) == 0
    [facts] = json.loads(capsys.readouterr().out)
    assert facts.keys() <= set(re.findall(r"[a-z_]+", FIELDS["store info"]))
