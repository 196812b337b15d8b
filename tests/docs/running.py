"""Running the blocks of a page, in order, as a reader would."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from tests.docs.curl import curl
from tests.docs.matching import difference, matches
from tests.docs.pages import ROOT, Block, Page
from tests.docs.screens import play
from tests.docs.serving import PORTS_VARIABLE, Servers
from tests.support import forked
from tests.support.terminal import TMUX

COMMANDS = ("ekiden", "python", "echo", "curl", "kill", "export")
"""What a console block may call."""

_FILE = re.compile(r"# (?P<name>[a-z_]+\.py)\n")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_EXPORT = re.compile(r"export (?P<name>[A-Z_]+)=(?:\$\((?P<command>.+)\)|(?P<value>\S+))")
_KILL = re.compile(r"kill (?P<signal>-9 )?%(?P<number>\d)")
_VARIABLE = re.compile(r"\$([A-Z_]+)")
_PATIENCE_S = 240
_KILLED = "Killed\n"
"""What an interactive shell prints when a process was killed."""
_OF_TERMINALS = frozenset({"TERM", "TERMCAP", "COLUMNS", "LINES", "TMUX", "NO_COLOR"})
"""What tmux itself says to the programs in it."""
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
"""What a shell passes on as it is."""
_OFFLINE = Path(__file__).parent / "offline"
_OF_SHELLS = frozenset("|&;<>()$`*?[]{}~#!")
"""What a shell would not pass on to a program as it is."""


class PageError(AssertionError):
    """A page and the code do not say the same; the message names the line."""


def run_page(page: Page, folder: Path, *, screens: bool = True) -> None:
    """Run the page's blocks, the current folder being `folder`; `PageError` if one is wrong.

    All `python` blocks share one namespace and one event loop, which runs only where a block
    awaits. One that begins with the comment ``# name.py`` is that file, and so is a block of any
    language below the comment ``<!-- file: path -->``. Each command of a `console` block is a
    process of its own; ``ekiden serve … &`` stays until ``kill %1`` or the end of the page, and
    what is exported holds to the end, too. A `screen` block is played in a terminal, if there is
    tmux and `screens`.
    """
    with (
        _module(page) as module,
        asyncio.Runner() as runner,
        contextlib.closing(Servers()) as servers,
        _exports() as exported,
    ):
        for block in page.blocks:
            if block.not_run is not None:
                continue
            if block.file is not None:
                _write(block, folder / block.file, servers)
            elif block.language == "python":
                _run_python(page, block, module, runner, folder, servers)
            elif block.language == "console":
                _run_console(page, block, folder, servers, exported)
            elif block.language == "screen" and screens and TMUX is not None:
                _run_screen(page, block, folder)


def file_of(block: Block) -> str | None:
    """The name of the file that a block shows."""
    found = _FILE.match(block.text)
    return found["name"] if found and block.language == "python" else None


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    found: list[tuple[str, str]] = []
    for line in block.text.replace("\\\n", "").splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:].strip(), ""))
        elif found:
            command, output = found[-1]
            found[-1] = (command, output + line)
    return found


def is_runnable(command: str) -> bool:
    """Whether the harness may run the command."""
    words = [word for word in shlex.split(command) if not _ASSIGNMENT.match(word)]
    return bool(words) and words[0] in COMMANDS


@contextlib.contextmanager
def _module(page: Page) -> Iterator[ModuleType]:
    """A module to run in: types defined on a page are looked up there by their annotations."""
    module = ModuleType(f"page_{page.path.stem}")
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]


@contextlib.contextmanager
def _exports() -> Iterator[dict[str, str]]:
    """What the page exports: seen by its commands, and by its Python until the end."""
    exported: dict[str, str] = {}
    try:
        yield exported
    finally:
        for name in exported:
            os.environ.pop(name, None)


def _run_python(
    page: Page,
    block: Block,
    module: ModuleType,
    runner: asyncio.Runner,
    folder: Path,
    servers: Servers,
) -> None:
    if file_of(block) is not None:
        _write(block, folder / str(file_of(block)), servers)
        return
    code = compile(
        "\n" * (block.line - 1) + servers.real(block.text),
        page.name,
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            result = eval(code, module.__dict__)
            if inspect.iscoroutine(result):
                runner.run(result)
    except Exception as exc:
        raise PageError(f"{page.name}:{block.line}: {type(exc).__name__}: {exc}") from exc
    _compare(page, block, block.output, servers.shown(printed.getvalue()))


def _write(block: Block, path: Path, servers: Servers) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(servers.real(block.text), encoding="utf-8")


def _run_screen(page: Page, block: Block, folder: Path) -> None:
    env = {name: value for name, value in _environment().items() if name not in _OF_TERMINALS}
    different = play(block.text, folder=folder, env=env)
    if different is not None:
        raise PageError(f"{page.name}:{block.line}\n{different}")


def _run_console(
    page: Page, block: Block, folder: Path, servers: Servers, exported: dict[str, str]
) -> None:
    for command, expected in commands_of(block):
        code, printed = _run_line(command, folder, servers, exported)
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            printed = printed.removesuffix(_KILLED) + _KILLED
        if code and not expected:
            raise PageError(f"{page.name}:{block.line}: {command!r} fails: {printed}")
        _compare(page, block, expected or None, printed)


def _run_line(
    command: str, folder: Path, servers: Servers, exported: dict[str, str]
) -> tuple[int, str]:
    """What a shell would do with the line: the exit code, and what was printed."""
    line = servers.real(command)
    env = {**_environment(), **exported, PORTS_VARIABLE: servers.ports}
    if line.endswith(" &"):
        return 0, servers.start(line.removesuffix(" &"), folder=folder, env=env)
    if found := _KILL.fullmatch(line):
        servers.stop(int(found["number"]), signal.SIGKILL if found["signal"] else signal.SIGTERM)
        return 0, ""
    if found := _EXPORT.fullmatch(line):
        value = found["value"] or _output(str(found["command"]), folder, env)
        exported[found["name"]] = os.environ[found["name"]] = value
        return 0, ""
    if line.startswith("curl "):
        code, printed = curl(_VARIABLE.sub(lambda found: exported[found[1]], line))
    else:
        code, printed = _run_command(line, folder, env)
    return code, servers.shown(printed)


def _output(command: str, folder: Path, env: Mapping[str, str]) -> str:
    """What a command writes to its standard output."""
    words = shlex.split(command)
    assert words[0] == "ekiden", command
    done = forked.run(words, cwd=folder, env=env, capture_output=True)
    if done.returncode:
        raise PageError(f"{command!r} fails: {done.stderr.decode()}")
    return str(done.stdout.decode()).strip()


def _run_command(command: str, folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """The exit code, and all that was printed; what needs no shell begins quickly without one."""
    words, own = shlex.split(command), dict(env)
    while _ASSIGNMENT.match(words[0]):
        name, _, own[name] = words.pop(0).partition("=")
    if words[0] == "ekiden" and _OF_SHELLS.isdisjoint(_QUOTED.sub("", command)):
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = forked.run(words, cwd=folder, env=own, **out)
        return done.returncode, done.stdout.decode()
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE_S,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout


def _environment() -> dict[str, str]:
    """Ours, without what would change the outcome; no models, no network, nothing measured."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("EKIDEN_", "COVERAGE_"))
    }
    python = Path(sys.executable).parent
    return {
        **kept,
        "EKIDEN_BLOCK_MODELS": "1",
        "PATH": f"{python}{os.pathsep}{kept.get('PATH', '')}",
        "PYTHONPATH": os.pathsep.join([str(_OFFLINE), str(ROOT / "src")]),
        "TZ": "UTC",
    }


def _compare(page: Page, block: Block, expected: str | None, printed: str) -> None:
    if expected is not None and not matches(expected, printed):
        raise PageError(f"{page.name}:{block.line}\n{difference(expected, printed)}")
