"""`ekiden` commands, each in a process of its own that begins in milliseconds.

To start Python and import what a command needs takes longer than most commands do. So one process
imports it all, and forks for each command: ``python -m tests.support.commands`` reads one order a
line and tells the exit code when the command has ended. What depends on how Python itself is
started, such as the locale, needs a real start instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_OFFLINE = ROOT / "tests" / "docs" / "offline" / "sitecustomize.py"
_PATIENCE_S = 60.0
_WARMING_UP_S = 120.0
_WARM_UP = (
    ["init"],
    ["run", "--session", "s", "@auto Where is my order 1042?"],
    ["route", "--strategy", "semantic", "I want a refund"],
    ["agents", "list"],
    ["session", "list"],
    ["handoff", "list"],
    ["audit", "list"],
    ["chain"],
    ["config", "list"],
    ["chat"],
)
"""Done once, so that what is loaded when it is first needed is there for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: bytes
    err: bytes


class Commands:
    """Runs commands, one after the other."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="ekiden-commands-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.commands"],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
                "OPENBLAS_NUM_THREADS": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._answer(_WARMING_UP_S)

    def __call__(
        self,
        arguments: Sequence[str | bytes],
        *,
        folder: Path,
        env: Mapping[str, str],
        input: bytes = b"",
        offline: bool = False,
        together: bool = False,
    ) -> Ended:
        """Run ``ekiden`` with these arguments in `folder`.

        With `offline` there is no network; with `together` errors are among the output, in order.
        """
        files = {name: Path(self._folder.name, name) for name in ("in", "out", "err")}
        files["in"].write_bytes(input)
        order = {
            "arguments": [os.fsdecode(each) for each in arguments],
            "folder": str(folder),
            "env": dict(env),
            "offline": offline,
            "together": together,
            "files": {name: str(path) for name, path in files.items()},
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        code = self._answer(_PATIENCE_S)["code"]
        return Ended(code=code, out=files["out"].read_bytes(), err=files["err"].read_bytes())

    def close(self) -> None:
        """End the process that forks."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def _answer(self, patience_s: float) -> Any:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(patience_s):
                self._process.kill()
                raise TimeoutError(f"a command has not ended after {patience_s} s")
        line = self._process.stdout.readline()
        assert line, "the process that forks for commands has ended"
        return json.loads(line)


@cache
def commands() -> Commands:
    """Those of this process."""
    return Commands()


def close_commands() -> None:
    """Close those of this process, if there are any."""
    if commands.cache_info().currsize:
        commands().close()
        commands.cache_clear()


def serve() -> None:
    """Fork for each order until there is nobody left to serve."""
    tell = os.fdopen(os.dup(1), "w")
    _warm_up()
    _say(tell, ready=True)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            tell.close()
            _live(json.loads(line))
        _, status = os.waitpid(pid, 0)
        _say(tell, code=os.waitstatus_to_exitcode(status))


def _warm_up() -> None:
    """Call commands in this process, far from everything that tests look at."""
    from ekiden.cli.main import main

    place, environment, orders = Path.cwd(), dict(os.environ), os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with TemporaryDirectory() as folder, contextlib.ExitStack() as quiet:
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        os.chdir(folder)
        os.environ.update(HOME=folder, EKIDEN_STORE="ekiden.db")
        for arguments in _WARM_UP:
            main(arguments)
        os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(orders, 0)
    gc.collect()
    gc.freeze()


def _live(order: dict[str, Any]) -> None:
    """Be the command; never returns."""
    files = order["files"]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(files["in"], os.O_RDONLY), 0)
    os.dup2(os.open(files["out"], flags), 1)
    err = os.open(files["err"], flags)
    os.dup2(1 if order["together"] else err, 2)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["ekiden", *order["arguments"]]
    if order["offline"]:
        exec(_OFFLINE.read_text(encoding="utf-8"), {"__name__": "offline"})
    from ekiden.cli.main import main
    from ekiden.core import faults

    importlib.reload(faults)
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def _say(tell: io.TextIOWrapper, **news: Any) -> None:
    tell.write(json.dumps(news) + "\n")
    tell.flush()


if __name__ == "__main__":
    serve()
