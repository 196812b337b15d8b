"""Commands called in this process, in a folder with a team."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from ekiden.cli.main import main
from ekiden.project.scaffold import scaffold


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which is one JSON value."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error in standard error, as JSON."""
        return json.loads(self.err.splitlines()[-1])["error"]


class Desk:
    """A folder in which commands are called."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, input: bytes = b"") -> Ran:
        """Run a command to its end."""
        self._monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(input)))
        self._capsys.readouterr()
        code = main(arguments)
        shown = self._capsys.readouterr()
        return Ran(code=code, out=shown.out, err=shown.err)

    def agent(self, name: str, text: str | bytes) -> Path:
        """Put an agent file into the project."""
        path = self.folder / ".ekiden" / "agents" / f"{name}.md"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def settings(self, text: str) -> None:
        """Replace the project's settings."""
        (self.folder / ".ekiden" / "settings.json").write_text(text, encoding="utf-8")


@pytest.fixture
def bare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    """A folder with nothing in it; there is nothing at home either."""
    folder, home = tmp_path / "desk", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith("EKIDEN_")]:
        monkeypatch.delenv(name)
    # What tests write there is their own.
    monkeypatch.setenv("EKIDEN_TRUST", "1")
    return Desk(folder, capsys, monkeypatch)


@pytest.fixture
def desk(bare: Desk) -> Desk:
    """A folder with the team of the template `support`."""
    scaffold(bare.folder, "support")
    return bare
