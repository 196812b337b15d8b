"""`shell`: runs allowed programs in the project's folder, without a shell."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ekiden.core.context import ToolContext
from ekiden.core.current_agent import AGENT_VARIABLE, acting_agent, lineage_mark
from ekiden.core.errors import ToolError
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools.settings import ShellToolSettings, config_command

_MAX_COMMAND = 20_000
_OPERATORS = frozenset("|&;<>()`\n")
_EXPANDED = re.compile(r"[A-Za-z_{(]")
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TERM|TZ|TMPDIR|TEMP|TMP|VIRTUAL_ENV"
    r"|SYSTEMROOT|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA"
)
"""The environment variables that a program gets; none of them can be a key."""
_ADDED = {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat"}
"""Prevents programs from waiting for a keyboard."""

_GRACE_S = 1.0
"""Time between SIGTERM and SIGKILL."""
_DRAIN_S = 0.5
"""Time to read the rest of the output if another process keeps the pipe open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """The end of a program."""

    code: int | None
    """The exit code; negative for a signal. `None` if the program was stopped at its timeout."""
    output: str
    """stdout and stderr, in the order in which they were written."""


async def run_program(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    pass_fds: Sequence[int] = (),
) -> ProgramEnd:
    """Run the program in its own process group, without input.

    The whole group is stopped at the timeout, when the caller is cancelled, and when the program
    ends. Raises `OSError` if the program cannot be started.
    """
    if os.name != "posix":
        raise ToolError("programs can be run on POSIX systems only")
    output = _Output(max_bytes)
    async with _pipe_to(output) as write_end:
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                cwd=folder,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        finally:
            os.close(write_end)
        code: int | None = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    code = await process.wait()
        finally:
            await _stop(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await output.ended.wait()
    return ProgramEnd(code=code, output=output.text())


@asynccontextmanager
async def _pipe_to(output: _Output) -> AsyncIterator[int]:
    """The write end of a pipe into `output`. The caller closes the write end."""
    read_end, write_end = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: output, os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield write_end
    finally:
        transport.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Stop the program if it runs, and kill the rest of its group."""
    try:
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await process.wait()
    finally:
        _signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


class _Output(asyncio.Protocol):
    """Keeps the beginning and the end of the output, and counts the bytes between them."""

    def __init__(self, max_bytes: int) -> None:
        self._head_size = max_bytes - max_bytes // 2
        self._tail_size = max_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        extra = len(self._tail) - self._tail_size
        if extra > 0:
            self._left_out += extra
            del self._tail[:extra]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def text(self) -> str:
        """The kept output, with a note about the rest."""
        head, tail = bytes(self._head), bytes(self._tail)
        if not self._left_out:
            return (head + tail).decode(errors="replace")
        note = f"\n[… {self._left_out:,} bytes left out …]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")


class ShellPrograms:
    """The tool `shell`."""

    def __init__(self, root: Path, settings: ShellToolSettings) -> None:
        self._root = root
        self._settings = settings

    async def shell(self, command: str) -> str:
        """Run one program in the project's folder, and return its output and exit code.

        There is no shell: no pipes, redirections, variables, wildcards, or several commands.

        Args:
            command: The program and its arguments, quoted as for a shell, as in: git log -3
        """
        arguments = split_command(command)
        environment = scrubbed_environment(os.environ)
        program = self._program(arguments[0], environment)
        limit = self._settings.timeout
        try:
            with _marked(environment) as marks:
                ended = await run_program(
                    [program, *arguments[1:]],
                    folder=self._root,
                    environment=environment,
                    timeout_s=limit,
                    max_bytes=self._settings.max_bytes,
                    pass_fds=marks,
                )
        except (OSError, ValueError) as exc:
            raise ToolError(f"{arguments[0]!r} cannot be run: {exc}") from exc
        if ended.code is None:
            raise ToolError(
                f"{arguments[0]!r} was stopped because it took longer than {limit:g} s; it had "
                f"written:\n{ended.output}"
            )
        return _shown(ended, ended.code)

    def _program(self, name: str, environment: dict[str, str]) -> str:
        allowed = self._settings.allow
        if name not in allowed:
            listed = ", ".join(allowed) or "none so far"
            raise ToolError(
                f"{name!r} is not among the programs that may be run ({listed}); a person can "
                f"allow it: {config_command('tools.shell.allow', [*allowed, name])}"
            )
        if os.path.dirname(name):
            return os.path.join(self._root, name)
        found = shutil.which(name, path=environment.get("PATH", os.defpath))
        if found is None:
            raise ToolError(f"{name!r} may be run, but is not installed")
        return found


def split_command(command: str) -> list[str]:
    """The program and its arguments. Raises `ToolError` if the command needs a shell."""
    if len(command) > _MAX_COMMAND or "\0" in command:
        raise ToolError("the command is too long, or has zero bytes in it")
    for char in _interpreted(command):
        what = {"\n": "a line break", "$": "a variable or $(…)"}.get(char, repr(char))
        raise ToolError(
            f"there is no shell here for {what}: run one program at a time, and put literal "
            "characters in single quotes"
        )
    try:
        arguments = shlex.split(command)
    except ValueError as exc:
        raise ToolError(f"the command cannot be read: {exc}") from exc
    if not arguments or not arguments[0]:
        raise ToolError("the command is empty")
    return arguments


def program_of(arguments: str) -> str:
    """The program that a call with these arguments runs. Raises an exception for invalid
    arguments."""
    return split_command(json.loads(arguments)["command"])[0]


def for_commands(tool: FunctionTool, allowed: Sequence[Sequence[str]]) -> FunctionTool:
    """The tool `shell`, limited to some commands. Each command is a list of words. A ``*`` at its
    end allows further words."""

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        try:
            command = json.loads(arguments)["command"]
            given = split_command(command)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return await tool.on_invoke_tool(ctx, "{}")  # The tool explains invalid arguments.
        for words in allowed:
            plain = [word for word in words if word != "*"]
            if given == plain or (words[-1] == "*" and given[: len(plain)] == plain):
                # Encoded again: a repeated JSON key must not smuggle in an unchecked command.
                return await tool.on_invoke_tool(ctx, json.dumps({"command": command}))
        listed = "; ".join(" ".join(words) for words in allowed)
        raise ToolError(f"the agent's file allows other commands only: {listed}")

    return replace(tool, on_invoke_tool=invoke)


def scrubbed_environment(environment: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """The environment variables for a program. Variables with keys, and relative folders in PATH,
    are removed."""
    kept = {name: value for name, value in environment.items() if _KEPT.fullmatch(name)}
    if "PATH" in kept:
        folders = kept["PATH"].split(os.pathsep)
        kept["PATH"] = os.pathsep.join(each for each in folders if os.path.isabs(each))
    return {**kept, **_ADDED}


@contextmanager
def _marked(environment: dict[str, str]) -> Iterator[tuple[int, ...]]:
    """Mark the program, and the programs that it starts, as run by the acting agent."""
    agent = acting_agent()
    if agent is None:
        yield ()
        return
    environment[AGENT_VARIABLE] = agent
    with lineage_mark(agent) as marks:
        yield marks


def _interpreted(command: str) -> Iterator[str]:
    """The characters that a shell would interpret, outside of quotes that prevent it."""
    quote = ""
    text = command.strip()
    characters = iter(enumerate(text))
    for place, char in characters:
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            next(characters, None)
        elif char == quote:
            quote = ""
        elif char in "'\"" and not quote:
            quote = char
        elif (
            (char == "$" and _EXPANDED.match(text, place + 1))
            or char == "`"
            or (char in _OPERATORS and not quote)
        ):
            yield char


def _shown(ended: ProgramEnd, code: int) -> str:
    output = (
        ended.output if ended.output.endswith("\n") or not ended.output else ended.output + "\n"
    )
    if code >= 0:
        return f"{output}[exit code {code}]"
    try:
        return f"{output}[ended by {signal.Signals(-code).name}]"
    except ValueError:
        return f"{output}[ended by signal {-code}]"
