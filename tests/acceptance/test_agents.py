"""`ekiden agents …`."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.acceptance.conftest import COMMAND, Project
from tests.support.forked import ForkedPopen


@pytest.mark.slow
def test_an_invalid_agent_file_is_named_and_can_be_skipped(project: Project) -> None:
    project.agent("latin", b"---\nname: caf\xe9\n---\nText.\n")
    validated = project("agents", "validate")
    assert validated.code == 2
    assert ".ekiden/agents/latin.md:2:10: error[agent.not_utf8]" in validated.out
    assert validated.out.endswith("\n5 files, 1 problem\n")
    stopped = project("run", "@billing hello")
    assert stopped.code == 2
    assert stopped.err.startswith("error[agent.invalid]: ")
    gone_on = project("run", "--keep-going", "@billing hello")
    assert gone_on.code == 0, gone_on.err


@pytest.mark.slow
def test_an_unknown_agent_is_refused_with_a_suggestion(project: Project) -> None:
    refused = project("run", "@biling hello", "--json")
    assert (refused.code, refused.error["code"]) == (5, "agent.unknown")
    assert "did you mean 'billing'?" in refused.error["message"]
    assert not (project.folder / ".ekiden" / "ekiden.db").exists()


def test_agents_are_listed_and_counted(project: Project) -> None:
    assert project("run", "@billing hello").code == 0
    listed = project("agents", "list", "--json").json
    assert [each["name"] for each in listed] == ["billing", "orders", "reception", "technical"]
    counted = {each["agent"]: each["sessions"] for each in project("agents", "ps", "--json").json}
    assert counted == {"billing": 1, "orders": 0, "reception": 0, "technical": 0}


@pytest.mark.slow
def test_a_person_at_the_terminal_is_asked_before_a_tool_runs(project: Project) -> None:
    (project.folder / "notes.txt").write_text("the secret is 42")
    reader = "---\nname: reader\ntools: {allow: [read_file]}\n---\nYou read files.\n"
    project.agent("reader", reader)
    mine, theirs = pty.openpty()
    running = ForkedPopen(
        [*COMMAND, "run", "@reader what is in notes.txt ?"],
        cwd=project.folder,
        env=project.ekiden.env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    asked = b""
    while b"[y]es, [n]o" not in asked:
        asked += os.read(mine, 4096)
    assert b"reader wants to run read_file:" in asked
    os.write(mine, b"y\n")
    out, _ = running.communicate(timeout=60)
    os.close(mine)
    assert running.returncode == 0
    assert b"the secret is 42" in out
