"""Processes whose user has no home folder."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ekiden.agents import load_agent_files
from ekiden.core.home import home_folder
from ekiden.embeddings.cache_folder import cache_folder
from tests.support import forked


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user of a container, who is a number that no list names."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    used = {each.pw_uid for each in pwd.getpwall()}
    unknown = next(number for number in range(54_321, 65_000) if number not in used)
    monkeypatch.setattr(os, "getuid", lambda: unknown)
    return tmp_path


def test_without_a_home_folder_a_project_has_its_own_files(no_home: Path) -> None:
    assert home_folder() is None
    agents = no_home / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "a.md").write_text("---\nname: a\ndescription: A.\n---\nx")
    assert [each.name for each in load_agent_files(no_home).definitions] == ["a"]
    assert cache_folder("x") == Path(".ekiden", "cache", "x")


def test_a_relative_home_is_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "here")
    assert home_folder() is None


def test_completion_is_not_installed_into_an_unknown_home(tmp_path: Path) -> None:
    install = ["ekiden", "completion", "install", "--shell", "bash"]
    done = forked.run(
        install, cwd=tmp_path, env={**os.environ, "HOME": "here"}, capture_output=True
    )
    assert done.returncode == 2
    assert b"the home folder is unknown; set HOME" in done.stderr
    assert list(tmp_path.iterdir()) == []
