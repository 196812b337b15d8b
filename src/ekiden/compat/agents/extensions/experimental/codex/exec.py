"""The `codex` command as a subprocess that writes one JSON event per line."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.extensions.experimental.codex.thread_options import (
    ApprovalMode,
    ModelReasoningEffort,
    SandboxMode,
    WebSearchMode,
)

_LIMIT_VARIABLE = "OPENAI_AGENTS_CODEX_SUBPROCESS_STREAM_LIMIT_BYTES"
_KIB = 1024
_SHOWN = 4000


@dataclass(frozen=True)
class CodexExecArgs:
    """One turn: its input, and the options of its thread."""

    input: str
    base_url: str | None = None
    api_key: str | None = None
    thread_id: str | None = None
    images: list[str] | None = None
    model: str | None = None
    sandbox_mode: SandboxMode | None = None
    working_directory: str | None = None
    additional_directories: list[str] | None = None
    skip_git_repo_check: bool | None = None
    output_schema_file: str | None = None
    model_reasoning_effort: ModelReasoningEffort | None = None
    signal: asyncio.Event | None = None
    idle_timeout_seconds: float | None = None
    network_access_enabled: bool | None = None
    web_search_mode: WebSearchMode | None = None
    web_search_enabled: bool | None = None
    approval_policy: ApprovalMode | None = None


def find_codex_path() -> str:
    """The executable: ``CODEX_PATH``, else ``codex`` on the ``PATH``."""
    return os.environ.get("CODEX_PATH") or shutil.which("codex") or "codex"


class CodexExec:
    """Starts the command, once for each turn."""

    def __init__(
        self,
        *,
        executable_path: str | None = None,
        env: dict[str, str] | None = None,
        subprocess_stream_limit_bytes: int | None = None,
    ) -> None:
        self._path = executable_path or find_codex_path()
        self._env = env
        self._limit = _line_limit(subprocess_stream_limit_bytes)

    async def run(self, args: CodexExecArgs) -> AsyncGenerator[str, None]:
        """The lines that the command writes; closing the generator ends the command.

        Raises `UserError` if the command cannot be started, `RuntimeError` if it fails or is idle
        for too long.
        """
        process = await self._started(args)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(process.stderr.read())
        watcher = asyncio.create_task(_end_on(args.signal, process))
        try:
            with suppress(ConnectionError):  # Its exit code tells why.
                process.stdin.write(args.input.encode())
                await process.stdin.drain()
            process.stdin.close()
            while line := await _line(process.stdout, args):
                yield line.decode().rstrip("\r\n")
            if code := await process.wait():
                said = (await errors).decode(errors="replace").strip()[-_SHOWN:]
                raise RuntimeError(f"the codex command ended with code {code}: {said}")
        finally:
            watcher.cancel()
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()
            errors.cancel()

    async def _started(self, args: CodexExecArgs) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        env = dict(os.environ if self._env is None else self._env)
        more = {"OPENAI_BASE_URL": args.base_url, "CODEX_API_KEY": args.api_key}
        env.update({name: value for name, value in more.items() if value})
        try:
            return await asyncio.create_subprocess_exec(
                self._path,
                *_arguments(args),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                limit=self._limit,
                env=env,
            )
        except (FileNotFoundError, PermissionError) as exc:
            raise UserError(
                f"the codex command cannot be started ({self._path}): install it, or set CODEX_PATH"
            ) from exc


async def _line(stdout: asyncio.StreamReader, args: CodexExecArgs) -> bytes:
    try:
        async with asyncio.timeout(args.idle_timeout_seconds):
            return await stdout.readline()
    except TimeoutError:
        if args.signal is not None:
            args.signal.set()
        raise RuntimeError(
            f"the codex command reported nothing for {args.idle_timeout_seconds:g} seconds"
        ) from None
    except ValueError as exc:
        raise RuntimeError(
            "the codex command wrote a line above the limit: raise "
            f"codex_subprocess_stream_limit_bytes or {_LIMIT_VARIABLE}"
        ) from exc


async def _end_on(signal: asyncio.Event | None, process: asyncio.subprocess.Process) -> None:
    if signal is not None:
        await signal.wait()
        with suppress(ProcessLookupError):
            process.terminate()


def _arguments(args: CodexExecArgs) -> Iterator[str]:
    """The command line: the prompt is read from standard input."""
    yield from ("exec", "--experimental-json")
    for flag, value in (
        ("--model", args.model),
        ("--sandbox", args.sandbox_mode),
        ("--cd", args.working_directory),
        *(("--add-dir", each) for each in args.additional_directories or ()),
        ("--output-schema", args.output_schema_file),
    ):
        if value:
            yield from (flag, value)
    if args.skip_git_repo_check:
        yield "--skip-git-repo-check"
    for setting in _settings(args):
        yield from ("--config", setting)
    if args.thread_id:
        yield "resume"
    for image in args.images or ():
        yield from ("--image", image)
    if args.thread_id:
        yield from ("--", args.thread_id)
    yield "-"


def _settings(args: CodexExecArgs) -> Iterator[str]:
    """Settings without a flag, as TOML."""
    if args.model_reasoning_effort:
        yield f'model_reasoning_effort="{args.model_reasoning_effort}"'
    if args.network_access_enabled is not None:
        is_on = "true" if args.network_access_enabled else "false"
        yield f"sandbox_workspace_write.network_access={is_on}"
    search: str | None = args.web_search_mode
    if not search and args.web_search_enabled is not None:
        search = "live" if args.web_search_enabled else "disabled"
    if search:
        yield f'web_search="{search}"'
    if args.approval_policy:
        yield f'approval_policy="{args.approval_policy}"'


def _line_limit(given: int | None) -> int:
    value: object = os.environ.get(_LIMIT_VARIABLE, 8 * _KIB * _KIB) if given is None else given
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not 64 * _KIB <= value <= 64 * _KIB * _KIB:  # type: ignore[operator]
        raise UserError(
            "the longest line of the codex command is a number of bytes from 65536 to 67108864, "
            f"not {value!r}: see codex_subprocess_stream_limit_bytes and {_LIMIT_VARIABLE}"
        )
    return value  # type: ignore[return-value]
