"""Completion in shells: commands, options, agents and sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.cli.main import main
from ekiden.cli.parser.shell_completion import candidates
from tests.support.relay_team import relay_team
from tests.support.server_thread import server_in_thread


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a session, whose files would do harm if they were run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_STORE", raising=False)
    agents = tmp_path / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "orders.md").write_text(
        "---\nname: orders\ndescription: d\ntools: [evil:tool]\n---\nHi"
    )
    (agents / "billing.md").write_text("---\nname: billing\ndescription: d\n---\nHi")
    (tmp_path / "evil.py").write_text("raise SystemExit('was imported')")
    return tmp_path


def words(*typed: str) -> list[str]:
    return [word for word, _ in candidates(typed)]


def test_commands_and_groups_are_completed() -> None:
    assert words("se") == ["serve", "session"]
    assert words("session", "re") == ["resume", "rewind", "request"]
    assert words("session", "nonesuch", "") == []


def test_options_and_their_values_are_completed() -> None:
    assert words("session", "list", "--sta") == ["--status"]
    assert words("session", "list", "--status", "w") == [
        "working",
        "waiting_agent",
        "waiting_person",
    ]


def test_agents_are_completed_from_files_without_running_code() -> None:
    assert words("agents", "show", "") == ["billing", "orders"]
    assert words("run", "@o") == ["@orders"]
    assert words("handoff", "list", "--to", "b") == ["billing"]


def test_sessions_are_completed_from_the_store_without_creating_one(folder: Path) -> None:
    store = folder / ".ekiden" / "ekiden.db"
    assert words("session", "show", "") == []
    assert not store.exists()
    team = ["--team", "tests.support.relay_team:team"]
    assert main(["run", "hello", "--session", "web-1", *team, "--store", str(store)]) == 0
    assert words("session", "show", "w") == ["web-1"]
    assert words("audit", "list", "--session", "") == ["web-1"]
    assert words("chain", "--store", "other.db", "") == []


def test_completion_uses_the_named_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    there = tmp_path_factory.mktemp("server")
    with server_in_thread(there, store=str(there / "s.db"), team=relay_team()) as url:
        assert main(["run", "hello", "--session", "far-1", "--server", url]) == 0
        assert words("session", "show", "--server", url, "") == ["far-1"]
        assert "desk" in words("agents", "show", "--server", url, "")
    assert words("session", "show", "--server", url, "") == []


def test_installing_twice_adds_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["completion", "install", "--shell", "zsh"]) == 0
    startup = folder / "home" / ".zshrc"
    assert startup.read_text().count("ekiden.zsh") == 2, "one line names it twice"
    assert words("session", "list", "--wi") == ["--wide"], "from the table that was written"
    assert main(["completion", "install", "--shell", "tcsh"]) == 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ekiden sess", "session"),
        ("ekiden run @bil", "billing"),
        ("ekiden agents show ", "billing"),
    ],
)
def test_bash_completion_replaces_the_current_word(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, expected: str
) -> None:
    assert main(["completion", "show", "--shell", "bash"]) == 0
    script = capsys.readouterr().out
    ekiden = folder / "ekiden"
    ekiden.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ekiden.cli "$@"\n')
    ekiden.chmod(0o755)
    typed = f"""{script}
COMP_LINE="{line}"; COMP_POINT={len(line)}; COMP_WORDS=("{ekiden}")
_ekiden; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == expected
