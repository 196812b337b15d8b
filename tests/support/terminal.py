"""A real terminal for tests: a command in a tmux of its own, its screen read as text."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TMUX = shutil.which("tmux")
_PATIENCE_S = 60.0
"""Only ever spent by a test that fails."""


class Terminal:
    """One window of one tmux server; `wait_for` waits for facts on its screen."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def type(self, text: str) -> None:
        """Press the keys of `text`, as they are."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: ``Enter``, ``C-c``, ``M-Enter`` …"""
        self._tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        """Type a line and press Enter."""
        self.type(text)
        self.press("Enter")

    def paste(self, text: str) -> None:
        """Paste `text` as a terminal does it: in brackets if the program asked for them."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p", "-r")

    def resize(self, width: int, height: int) -> None:
        """Change the window's size."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        """What can be seen, without spaces at line ends and empty lines at the end."""
        lines = self._tmux("capture-pane", "-p").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def history(self) -> str:
        """What can be seen and what has scrolled away."""
        lines = self._tmux("capture-pane", "-p", "-S", "-").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def pid(self) -> int:
        """The command's process."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def wait_for(self, *texts: str) -> str:
        """The screen, as soon as it has all `texts`."""
        return self.wait_until(
            lambda screen: all(text in screen for text in texts), f"{texts} on the screen"
        )

    def wait_until(self, is_true: Callable[[str], bool], what: str = "the screen") -> str:
        """The screen, as soon as `is_true` of it."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            screen = self.screen()
            if is_true(screen):
                return screen
            assert time.monotonic() < deadline, f"waited for {what}; there is:\n{screen}"

    def _tmux(self, *arguments: str) -> str:
        return _tmux(self._socket, *arguments)


@contextmanager
def open_terminal(
    command: Sequence[str],
    *,
    folder: Path,
    env: Mapping[str, str],
    width: int = 90,
    height: int = 30,
) -> Iterator[Terminal]:
    """Run `command` in a terminal; when it ends, its exit code is on the screen."""
    # A socket's path must be short, which a test's own folder is not.
    with tempfile.TemporaryDirectory(prefix="ekiden-tmux-") as own:
        socket = Path(own) / "s"
        # tmux has a TERM of its own; what the command gets stands before it.
        settings = [f"{name}={value}" for name, value in env.items()]
        # Ctrl-C is for the command, and the shell lives on to say how that ended.
        called = shlex.join(["env", *settings, *command])
        line = f"trap : INT; {called}; echo EXIT=$?; exec cat"
        _tmux(
            socket, "-f", os.devnull, "new-session", "-d", "-x", str(width), "-y", str(height),
            "-c", str(folder), "sh", "-c", line,
        )  # fmt: skip
        try:
            yield Terminal(socket)
        finally:
            _tmux(socket, "kill-server")


def _tmux(socket: Path, *arguments: str) -> str:
    done = subprocess.run(
        [TMUX or "tmux", "-u", "-S", str(socket), *arguments],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "replace")
