"""What is at a path, before anybody looks at the front matter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ekiden.agents import read_agent_file, read_agent_text
from tests.support.cases import each_case

GOOD = "---\nname: debugger\n---\nFind the cause.\n"


def only_code(path: Path) -> str:
    file = read_agent_file(path)
    assert file.definition is None
    (problem,) = file.problems
    assert problem.path == path
    return problem.code


def test_an_agent_file_becomes_a_definition(tmp_path: Path) -> None:
    path = tmp_path / "debugger.md"
    path.write_text(GOOD)
    file = read_agent_file(str(path))
    assert file.problems == ()
    assert file.definition is not None
    assert (file.name, file.definition.name) == ("debugger", "debugger")
    assert file.definition.instructions == "Find the cause."
    assert file.definition.path == path
    assert file.definition.origin == "ekiden"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace("\n", "\r").encode(),
        GOOD.replace("---\n", "---  \t\n").encode(),
        GOOD.rstrip().encode(),
    ],
    ids=["byte order mark", "CRLF", "CR", "spaces after the dashes", "no last line break"],
)
def test_bom_and_line_endings_of_an_editor_make_no_difference(data: bytes) -> None:
    file = read_agent_text(data)
    assert file.problems == ()
    assert file.definition is not None
    assert file.definition.instructions == "Find the cause."


@each_case(
    ("data", "code", "line", "column"),
    [
        (b"", "empty_file", 1, 1),
        (b" \n\t\n", "empty_file", 1, 1),
        (b"Hello", "no_front_matter", 1, 1),
        (b"\n\n---\nname: x\n---\n", "no_front_matter", 3, 1),
        (b"---\nname: x\n", "unclosed_front_matter", 1, 1),
        (b"---", "unclosed_front_matter", 1, 1),
        (b"---\n---\nHello", "no_keys", 1, 1),
        (b"---\n# nothing\n---\n", "no_keys", 1, 1),
        (b"---\n- a\n---\n", "no_keys", 2, 1),
        (b"---\njust a text\n---\n", "no_keys", 2, 1),
        (b"---\nname: \xe9t\xe9\n---\n", "not_utf8", 2, 7),
        (b"---\r\nname: x\r\n---\r\n\xc3", "not_utf8", 4, 1),
        ("---\nname: x\n".encode("utf-16"), "not_utf8", 1, 1),
        (b"---\nname: x\n---\na\0b", "nul_character", 4, 2),
        (b"x" * (256 * 1024 + 1), "too_large", 1, 1),
        (b"---\nname: x\n#" + b"y" * 70_000 + b"\n---\n", "too_large", 1, 1),
    ],
)
def test_each_kind_of_invalid_agent_file_has_its_own_code(
    data: bytes, code: str, line: int, column: int
) -> None:
    file = read_agent_text(data, path="some.md")
    assert file.definition is None
    (problem,) = file.problems
    assert (problem.code, problem.line, problem.column) == (f"agent.{code}", line, column)
    assert problem.severity == "error"
    assert str(problem).startswith(f"some.md:{line}:{column}: error[agent.{code}]: ")


def test_a_long_body_with_dashes_is_read() -> None:
    file = read_agent_text("---\nname: x\n---\n\nOne\n---\nTwo\n" + "y" * 200_000)
    assert file.definition is not None
    assert file.definition.instructions.startswith("One\n---\nTwo\n")


def test_an_agent_without_instructions_is_a_warning() -> None:
    file = read_agent_text("---\nname: x\n---\n  \n")
    assert file.definition is not None
    assert [problem.code for problem in file.problems] == ["agent.no_instructions"]
    assert file.problems[0].to_json()["severity"] == "warning"


def test_a_path_that_is_no_regular_file_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "device.md").symlink_to("/dev/zero")
    for name in ("pipe.md", "folder.md", "device.md"):
        assert only_code(tmp_path / name) == "agent.not_a_file"


def test_an_unreadable_path_reports_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop.md").symlink_to("loop.md")
    (tmp_path / "nowhere.md").symlink_to("missing")
    for path in (
        tmp_path / "loop.md",
        tmp_path / "nowhere.md",
        tmp_path / "absent.md",
        tmp_path / ("x" * 300 + ".md"),
        tmp_path / "nul\0.md",
        tmp_path / "absent" / "x.md",
    ):
        assert only_code(path) == "agent.unreadable"


def test_a_file_without_read_permission_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "secret.md"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    assert only_code(path) == "agent.unreadable"


def test_a_symlink_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text(GOOD)
    (tmp_path / "link.md").symlink_to("real.txt")
    assert read_agent_file(tmp_path / "link.md").name == "debugger"


def test_the_folder_determines_the_origin_of_a_file(tmp_path: Path) -> None:
    for folder, origin in {
        ".ekiden/agents": "ekiden",
        ".claude/agents/deep": "claude",
        ".gemini/agents": "gemini",
        ".agents/agents": "agents",
        ".claude/other": "ekiden",
    }.items():
        path = tmp_path / folder / "x.md"
        path.parent.mkdir(parents=True)
        path.write_text("---\nname: x\ntools: []\n---\nHi\n")
        definition = read_agent_file(path).definition
        assert definition is not None
        assert definition.origin == origin
