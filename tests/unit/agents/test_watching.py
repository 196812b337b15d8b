"""Agent files that change while they are in use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentFile, AgentWatcher, agent_folders, read_agent_file
from ekiden.agents.discovery import find_files

Project = Callable[[dict[str, str]], Path]


def agent(name: str, *more: str) -> str:
    return "\n".join(["---", f"name: {name}", *more, "---", "Do it.", ""])


@pytest.fixture
def root(project: Project) -> Path:
    return project({f".ekiden/agents/{name}.md": agent(name) for name in "abc"})


@pytest.fixture
def folder(root: Path) -> Path:
    return root / ".ekiden/agents"


@pytest.fixture
def watcher(root: Path) -> AgentWatcher:
    return AgentWatcher(agent_folders(root, home=root / "nobody"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from here on."""
    names: list[str] = []

    def read(path: str, **options: Any) -> AgentFile:
        names.append(Path(path).name)
        return read_agent_file(path, **options)

    monkeypatch.setattr("ekiden.agents.load.read_agent_file", read)
    return names


def names(watcher: AgentWatcher) -> list[str]:
    return [definition.name for definition in watcher.loaded.definitions]


def age(folder: Path, monkeypatch: pytest.MonkeyPatch, *, by_ns: int = 10_000_000_000) -> None:
    """From here on the files were written so long ago, however long the test takes."""
    now = max(entry.stat().st_ctime_ns for entry in os.scandir(folder))
    monkeypatch.setattr("ekiden.agents.load.time.time_ns", lambda: now + by_ns)


def test_unchanged_files_are_not_read_again(
    watcher: AgentWatcher, folder: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    age(folder, monkeypatch)
    assert names(watcher) == ["a", "b", "c"]
    assert watcher.poll() is None
    reads.clear()
    assert not watcher.changed()
    assert watcher.poll() is None
    assert reads == []


def test_only_changed_files_are_read_again(
    watcher: AgentWatcher, folder: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    age(folder, monkeypatch)
    assert not watcher.changed()
    reads.clear()
    (folder / "b.md").write_text(agent("b", "title: New"))
    assert watcher.changed()
    loaded = watcher.poll()
    assert loaded is watcher.loaded
    assert [definition.title for definition in loaded.definitions] == [None, "New", None]
    assert reads == ["b.md"]


def test_added_and_removed_files_are_noticed(watcher: AgentWatcher, folder: Path) -> None:
    (folder / "d.md").write_text(agent("d", "handoffs: [a]"))
    assert watcher.changed()
    assert watcher.poll() is not None
    assert names(watcher) == ["a", "b", "c", "d"]
    (folder / "a.md").unlink()
    loaded = watcher.poll()
    assert loaded is not None
    assert names(watcher) == ["b", "c", "d"]
    assert [problem.code for problem in loaded.problems] == ["agent.unknown_handoff"]
    (folder / "d.md").rename(folder / "e.md")
    assert watcher.poll() is not None
    assert names(watcher) == ["b", "c", "d"]
    (folder / "e.md").replace(folder / "b.md")
    assert watcher.poll() is not None
    assert names(watcher) == ["d", "c"]


def test_a_file_that_became_invalid_keeps_its_last_valid_definition(
    watcher: AgentWatcher, folder: Path
) -> None:
    (folder / "b.md").write_text(agent("b", "title: Second"))
    assert watcher.poll() is not None
    for text in (agent("b", "titel: Third"), "", "---\nname: [", "no front matter"):
        (folder / "b.md").write_text(text)
        loaded = watcher.poll()
        assert loaded is not None
        assert [each.title for each in loaded.definitions] == [None, "Second", None]
        assert [each.path.name for each in loaded.errors] == ["b.md"]
    (folder / "b.md").write_text(agent("b", "title: Fourth"))
    loaded = watcher.poll()
    assert loaded is not None
    assert [each.title for each in loaded.definitions] == [None, "Fourth", None]
    assert loaded.problems == ()


def test_an_initially_invalid_file_is_loaded_once_it_is_valid(root: Path) -> None:
    path = root / ".ekiden/agents/b.md"
    path.write_text("bad")
    watcher = AgentWatcher(agent_folders(root, home=root / "nobody"))
    assert names(watcher) == ["a", "c"]
    path.write_text(agent("b"))
    assert watcher.poll() is not None
    assert names(watcher) == ["a", "b", "c"]


def test_a_change_within_the_clock_resolution_is_noticed(
    watcher: AgentWatcher, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same size, the same file and, for the file system, the same time."""
    monkeypatch.setattr(
        "ekiden.agents.load.find_files",
        lambda *given: [each._replace(mark=(1,)) for each in find_files(*given)],
    )
    age(folder, monkeypatch, by_ns=0)
    assert watcher.poll() is not None
    assert watcher.poll() is None
    (folder / "c.md").write_text(agent("z"))
    assert watcher.changed()
    assert watcher.poll() is not None
    assert names(watcher) == ["a", "b", "z"]


def test_a_folder_created_later_is_noticed(tmp_path: Path) -> None:
    watcher = AgentWatcher(agent_folders(tmp_path, home=tmp_path / "nobody"), known=["py"])
    assert watcher.loaded.definitions == ()
    assert watcher.poll() is None
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/agents").write_text("not a folder")
    assert watcher.changed()
    assert watcher.poll() is not None
    (tmp_path / ".claude/agents").unlink()
    (tmp_path / ".ekiden/agents").mkdir(parents=True)
    (tmp_path / ".ekiden/agents/x.md").write_text(agent("x", "handoffs: [py]"))
    loaded = watcher.poll()
    assert loaded is not None
    assert loaded.problems == ()
    assert names(watcher) == ["x"]
    assert watcher.folders[0].path == tmp_path / ".ekiden/agents"


def test_a_dangling_link_is_reported_once(watcher: AgentWatcher, folder: Path) -> None:
    (folder / "x.md").symlink_to("missing")
    loaded = watcher.poll()
    assert loaded is not None
    assert [each.code for each in loaded.errors] == ["agent.unreadable"]
    assert watcher.poll() is None
    (folder / "missing").write_text(agent("x"))
    assert watcher.poll() is not None
    assert names(watcher) == ["a", "b", "c", "x"]
