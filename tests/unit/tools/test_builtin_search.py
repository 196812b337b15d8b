"""`list_folder`, `glob`, `grep` and `edit_file`: what they find, change and keep from agents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ekiden.core.errors import ToolError
from ekiden.tools.builtin.files import FileSearch, ProjectFiles
from ekiden.tools.settings import FileToolSettings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "node_modules").mkdir()
    (root / "notes.md").write_text("Tea is 480.\nrice\n")
    (root / "src" / "a.py").write_text("def tea():\n    return 480\n")
    (root / "src" / "deep" / "b.py").write_text("TEA = 1\n")
    (root / "node_modules" / "c.py").write_text("tea\n")
    (root / ".env").write_text("tea=secret\n")
    (root / "image.bin").write_bytes(b"\x00tea\x00")
    (root / "latin.txt").write_bytes("tea für".encode("latin-1"))
    (root / "key.txt").write_text("-----BEGIN PRIVATE KEY-----\ntea\n")
    (tmp_path / "outside.txt").write_text("tea\n")
    os.symlink(tmp_path, root / "up")
    os.symlink(tmp_path / "outside.txt", root / "link.txt")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture(params=[True, False], ids=["by handle", "by path"])
def files(root: Path, request: pytest.FixtureRequest) -> FileSearch:
    return FileSearch(root, FileToolSettings(max_bytes=1000), by_handle=request.param)


def test_grep_finds_lines_of_text_files_inside_the_folder_only(files: FileSearch) -> None:
    assert files.grep("tea").splitlines() == ["src/a.py:1: def tea():"]
    assert files.grep("^tea", ignore_case=True).splitlines() == [
        "notes.md:1: Tea is 480.",
        "src/deep/b.py:1: TEA = 1",
    ]
    assert files.grep("480", glob="*.py") == "src/a.py:2: return 480"
    assert files.grep("480", path="notes.md") == "notes.md:1: Tea is 480."
    assert files.grep("TEA", path="src/deep") == "src/deep/b.py:1: TEA = 1"
    assert files.grep("coffee") == "no line matches"


@pytest.mark.parametrize(
    "path", ["up", "up/outside.txt", "link.txt", "..", "/etc", "../outside.txt"]
)
def test_no_search_tool_leaves_the_project_folder(files: FileSearch, path: str) -> None:
    with pytest.raises(ToolError, match="outside of the project"):
        files.grep("tea", path=path)
    with pytest.raises(ToolError, match="outside of the project"):
        files.glob("*", path=path)
    with pytest.raises(ToolError, match="outside of the project"):
        files.list_folder(path)


@pytest.mark.parametrize("path", [".env", "image.bin", "latin.txt", "key.txt", "pipe"])
def test_unreadable_files_are_not_searched(files: FileSearch, path: str) -> None:
    with pytest.raises(ToolError):
        files.grep("tea", path=path)


def test_a_file_that_is_too_large_is_not_searched(root: Path, files: FileSearch) -> None:
    (root / "large.txt").write_text("coffee\n" * 1000)
    assert files.grep("coffee") == "no line matches"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", "src/a.py src/deep/b.py"),
        ("src/*.py", "src/a.py"),
        ("src/**/*.py", "src/a.py src/deep/b.py"),
        ("**/[!a].py", "src/deep/b.py"),
        ("{notes,other}.md", "notes.md"),
        ("?.py", "src/a.py src/deep/b.py"),
        ("../*", ""),
        ("*.env", ""),
        ("a(b", ""),
    ],
)
def test_glob_finds_files_by_name(files: FileSearch, pattern: str, found: str) -> None:
    assert files.glob(pattern).split() == (found.split() or "no file has such a name".split())


def test_file_names_are_relative_to_the_project_folder(files: FileSearch) -> None:
    assert files.glob("*.py", path="src/deep") == "src/deep/b.py"
    assert "src/" in files.list_folder()
    assert files.list_folder("src") == "a.py, deep/"


@pytest.mark.parametrize("pattern", ["(?=x)", "(", "", "a" * 501])
def test_an_invalid_pattern_is_refused_with_the_reason(files: FileSearch, pattern: str) -> None:
    with pytest.raises(ToolError, match="pattern"):
        files.grep(pattern)


def test_an_unfinished_search_says_so(files: FileSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.tools.builtin.files._MAX_FILES", 3)
    assert "not everything was searched" in files.glob("*")


class TestEditing:
    @pytest.fixture
    def editor(self, root: Path) -> ProjectFiles:
        return ProjectFiles(root, FileToolSettings(max_bytes=1000))

    def test_edit_file_replaces_one_text_and_keeps_the_rest(
        self, root: Path, editor: ProjectFiles
    ) -> None:
        (root / "dos.txt").write_bytes("\ufeffa\r\nb\r\nc\r\n".encode())
        assert editor.edit_file("dos.txt", "a\nb", "x\ny") == "dos.txt: replaced 1 time"
        assert (root / "dos.txt").read_bytes() == "\ufeffx\r\ny\r\nc\r\n".encode()

    def test_a_text_that_does_not_occur_exactly_once_is_not_replaced(
        self, root: Path, editor: ProjectFiles
    ) -> None:
        (root / "twice.txt").write_text("a a")
        with pytest.raises(ToolError, match="2 times"):
            editor.edit_file("twice.txt", "a", "b")
        with pytest.raises(ToolError, match="is not in"):
            editor.edit_file("twice.txt", "c", "b")
        with pytest.raises(ToolError, match="empty"):
            editor.edit_file("twice.txt", "", "b")
        assert (root / "twice.txt").read_text() == "a a"
        assert editor.edit_file("twice.txt", "a", "b", replace_all=True).endswith("2 times")

    @pytest.mark.parametrize("path", [".env", "link.txt", "image.bin", "src", "new.txt", "pipe"])
    def test_unreadable_files_are_not_edited(
        self, root: Path, editor: ProjectFiles, path: str
    ) -> None:
        with pytest.raises(ToolError):
            editor.edit_file(path, "tea", "coffee")
        assert (root.parent / "outside.txt").read_text() == "tea\n"

    def test_protected_files_are_not_edited(self, root: Path, editor: ProjectFiles) -> None:
        (root / ".claude" / "agents").mkdir(parents=True)
        (root / ".claude" / "agents" / "a.md").write_text("tea")
        with pytest.raises(ToolError, match="nothing is written in"):
            editor.edit_file(".claude/agents/a.md", "tea", "coffee")
