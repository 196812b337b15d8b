"""What the tests of agent files share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentDefinition, AgentFile, read_agent_text


@pytest.fixture
def read() -> Callable[..., AgentFile]:
    """Reads front matter with some instructions below it."""

    def read(front: str, body: str = "Do it.", **options: Any) -> AgentFile:
        return read_agent_text(f"---\n{front}\n---\n{body}\n", **options)

    return read


@pytest.fixture
def good(read: Callable[..., AgentFile]) -> Callable[..., AgentDefinition]:
    """The definition of front matter that has no fault at all."""

    def good(front: str, **options: Any) -> AgentDefinition:
        file = read(front, **options)
        assert file.problems == ()
        assert file.definition is not None
        return file.definition

    return good


@pytest.fixture
def faults(read: Callable[..., AgentFile]) -> Callable[..., list[tuple[str, int, int]]]:
    """Code, line and column of the errors of front matter that names an agent in its first line.

    The first line of what is given is therefore the file's third.
    """

    def faults(front: str, **options: Any) -> list[tuple[str, int, int]]:
        file = read(f"name: tester\n{front}", **options)
        errors = [problem for problem in file.problems if problem.severity == "error"]
        assert (file.definition is None) == bool(errors)
        return [
            (problem.code.removeprefix("agent."), problem.line, problem.column)
            for problem in errors
        ]

    return faults


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """A folder with files: their paths, and what is in them."""

    def project(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / "project"

    return project
