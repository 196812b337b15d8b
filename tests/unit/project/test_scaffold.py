"""Writing a team into a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.project.scaffold import TEMPLATES, scaffold


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_writes_agents_settings_and_gitignore(tmp_path: Path, template: str) -> None:
    made = scaffold(tmp_path, template)
    assert made.template == template
    assert made.kept == ()
    assert set(made.written) == {path for path in tmp_path.rglob("*") if path.is_file()}
    folder = tmp_path / ".ekiden"
    assert 3 <= len(list((folder / "agents").glob("*.md"))) <= 5
    assert "*.db" in (folder / ".gitignore").read_text().splitlines()
    assert '"model": "demo:offline"' in (folder / "settings.json").read_text()


def test_existing_files_are_kept(tmp_path: Path) -> None:
    agents = tmp_path / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "billing.md").write_text("mine")
    (agents / "orders.md").symlink_to("nowhere")
    made = scaffold(tmp_path, "support")
    assert set(made.kept) == {agents / "billing.md", agents / "orders.md"}
    assert (agents / "billing.md").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_second_call_changes_nothing(tmp_path: Path) -> None:
    first = scaffold(tmp_path, "coding")
    before = {path: path.read_bytes() for path in first.written}
    second = scaffold(tmp_path, "coding")
    assert second.written == ()
    assert second.kept == first.written
    assert before == {path: path.read_bytes() for path in first.written}


def test_the_folder_is_created_with_its_parents(tmp_path: Path) -> None:
    scaffold(tmp_path / "a" / "チーム", "research")
    assert (tmp_path / "a" / "チーム" / ".ekiden" / "settings.json").is_file()


def test_an_unknown_template_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'support'"):
        scaffold(tmp_path, "suport")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".ekiden").write_text("")
    with pytest.raises(UserError, match="cannot write .*name another folder"):
        scaffold(tmp_path)


def test_a_full_disk_leaves_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        scaffold(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_created_concurrently_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / ".ekiden" / "settings.json"
    link = os.link

    def race(source: Path, target: Path) -> None:
        if target == settings:
            settings.write_text("theirs")
        link(source, target)

    monkeypatch.setattr(os, "link", race)
    assert scaffold(tmp_path).kept == (settings,)
    assert settings.read_text() == "theirs"


def test_a_disk_without_hard_links_is_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(source: Path, target: Path) -> None:
        if target.name == "orders.md":
            target.write_text("theirs")
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    made = scaffold(tmp_path)
    assert [path.name for path in made.kept] == ["orders.md"]
    assert not list(tmp_path.rglob("*.tmp"))
    assert "demo:offline" in (tmp_path / ".ekiden" / "settings.json").read_text()
