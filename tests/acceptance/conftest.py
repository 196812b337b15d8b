"""The command as people and scripts use it: a process of its own in an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.forked import ForkedPopen

_SCRIPT = Path(sys.executable).with_name("ekiden")
COMMAND = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "ekiden.cli"]


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


class Ekiden:
    """Calls the command in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("EKIDEN_") or name == "EKIDEN_TEST_POSTGRES"
        }
        # What tests write there is their own.
        self.env["EKIDEN_TRUST"] = "1"

    def __call__(self, *arguments: str | bytes, input: bytes = b"", **env: str) -> Ran:
        """Run it to its end; if `env` has what only a start of Python heeds, with such a start."""
        if not all(name.startswith("EKIDEN_") for name in env):
            return self.really(*arguments, input=input, **env)
        done = forked.run(
            ["ekiden", *arguments],
            cwd=self.folder,
            env={**self.env, **env},
            input=input,
            capture_output=True,
        )
        return _ran(done.returncode, done.stdout, done.stderr)

    def really(self, *arguments: str | bytes, input: bytes = b"", **env: str) -> Ran:
        """Start the installed program and run it to its end."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env={**self.env, **env},
            input=input,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return _ran(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin it, with pipes to read from."""
        return ForkedPopen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def write(self, name: str, text: str) -> None:
        """Put a file into the folder."""
        (self.folder / name).write_text(text, encoding="utf-8")


def _ran(code: int, out: bytes, err: bytes) -> Ran:
    ran = Ran(code=code, out=out.decode(), err=err.decode())
    # A bug in the code of the user's agents is shown with its traceback, and no other.
    assert "Traceback" not in ran.err or "failed in session" in ran.err, ran.err
    return ran


class Project:
    """Calls the command in a folder that is a project."""

    def __init__(self, ekiden: Ekiden) -> None:
        self.ekiden = ekiden
        self.folder = ekiden.folder

    def __call__(self, *arguments: str | bytes, input: bytes = b"", **env: str) -> Ran:
        """Run it to its end."""
        return self.ekiden(*arguments, input=input, **env)

    def agent(self, name: str, text: str | bytes) -> Path:
        """Put an agent file into the project."""
        path = self.folder / ".ekiden" / "agents" / f"{name}.md"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def settings(self, text: str) -> None:
        """Replace the project's settings."""
        (self.folder / ".ekiden" / "settings.json").write_text(text, encoding="utf-8")


@pytest.fixture
def ekiden(tmp_path: Path) -> Ekiden:
    """The command, in a folder of its own."""
    return Ekiden(tmp_path)


@pytest.fixture
def project(ekiden: Ekiden, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The command in a folder with the team of the template `support`; nothing is at home."""
    home = str(tmp_path_factory.mktemp("home"))
    ekiden.env.update(HOME=home, USERPROFILE=home)
    made = Project(ekiden)
    made("init")
    return made
