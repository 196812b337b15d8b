"""Files of other tools, written as Ekiden's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ekiden.agents import read_agent_file
from ekiden.core.errors import UserError
from ekiden.project.scaffold import import_agent_files

GOOD = (
    "---\nname: Code Reviewer\ndescription: Reviews: all of it\ntools: Read, Bash, Task\n"
    "model: sonnet\ntemperature: 0.1\nneeds_approval: Bash\n"
    'guardrails: {output_schema: {type: object}}\n---\nBe "kind".\n'
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads" / "in"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text(GOOD)
    (folder / "bad.md").write_text("---\nname: bad\nisolation: worktree\n---\nx")
    (folder / "README.md").write_text("# Agents")
    return tmp_path / "downloads"


def statuses(source: Path, root: Path, **options: bool) -> dict[str, str]:
    found = import_agent_files([source], root, **options)
    return {each.source.name: each.status for each in found}


def test_imported_files_keep_their_content(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    expected = {"README.md": "no_agent", "bad.md": "refused", "good.md": "written"}
    assert statuses(source, root, dry_run=True) == expected
    assert not root.exists()
    assert statuses(source, root) == expected
    (written,) = (root / ".ekiden" / "agents").iterdir()
    made = read_agent_file(written).definition
    old = read_agent_file(source / "in" / "good.md", origin="claude").definition
    assert made is not None
    assert old is not None
    for key in ("name", "description", "tools", "model", "model_settings", "instructions"):
        assert getattr(made, key) == getattr(old, key)
    assert made.require_confirmation == ("shell",)
    assert made.guardrails is not None
    assert made.guardrails.output_schema == {"type": "object"}


def test_existing_files_are_replaced_only_on_request(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    statuses(source, root)
    path = root / ".ekiden" / "agents" / "code-reviewer.md"
    path.write_text("mine")
    assert statuses(source, root)["good.md"] == "exists"
    assert path.read_text() == "mine"
    assert statuses(source, root, overwrite=True)["good.md"] == "replaced"
    path.unlink()
    os.symlink(tmp_path / "elsewhere.md", path)
    assert statuses(source, root, overwrite=True)["good.md"] == "exists"
    assert not (tmp_path / "elsewhere.md").exists()


def test_symlinked_folders_are_not_written_through(source: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    os.symlink(tmp_path, tmp_path / "project" / ".ekiden")
    with pytest.raises(UserError, match="is a link"):
        import_agent_files([source], tmp_path / "project")
    with pytest.raises(UserError, match="there is no file"):
        import_agent_files([tmp_path / "nowhere"], tmp_path)
