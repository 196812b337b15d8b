"""A person at a terminal is asked once whether a folder is trusted."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

from tests.acceptance.conftest import COMMAND, Ekiden

_QUESTION = "Trust this folder? [y]es, [n]o:"


def at_terminal(
    ekiden: Ekiden, *arguments: str, answer: str, kind: str = "dumb"
) -> tuple[int, str, bool]:
    """The exit code, what the terminal shows, and whether the person was asked."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ekiden.folder,
        env={**ekiden.env, "TERM": kind},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, deadline, asked = "", time.monotonic() + 60, False
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data.decode(errors="replace")
            if not asked and _QUESTION in shown:
                asked = True
                os.write(ours, f"{answer}\r".encode())
        return process.wait(timeout=10), shown, asked
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_person_is_asked_once_to_trust_each_content(ekiden: Ekiden, tmp_path: Path) -> None:
    folder, home = tmp_path / "clone", tmp_path / "home"
    (folder / ".ekiden").mkdir(parents=True)
    home.mkdir()
    ekiden.folder = folder
    ekiden.env.update(HOME=str(home), EKIDEN_TRUST="")
    settings = folder / ".ekiden" / "settings.json"
    settings.write_text('{"tools": {"ask": false}}')
    code, shown, asked = at_terminal(ekiden, "agents", "list", answer="n")
    assert (code, asked) == (9, True)
    assert ".ekiden/settings.json:1: tools.ask: false" in shown
    code, shown, asked = at_terminal(ekiden, "run", "Where is my order 1042?", answer="y")
    assert (code, asked) == (0, True), shown
    code, _, asked = at_terminal(ekiden, "agents", "list", answer="n")
    assert (code, asked) == (0, False)
    settings.write_text('{"tools": {"ask": false}, "user": "ada"}')
    for kind in ("dumb", "xterm"):
        code, shown, asked = at_terminal(ekiden, "chat", answer="no", kind=kind)
        assert (code, asked) == (9, True), shown
