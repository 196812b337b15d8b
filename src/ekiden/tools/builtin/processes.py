"""Running a program to its end, or stopping it with everything it started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ekiden.core.errors import ToolError

_GRACE_S = 1.0
"""Between asking a program to stop and killing it."""
_DRAIN_S = 0.5
"""For what is still in the pipe when the program has ended and another keeps the pipe open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended."""

    code: int | None
    """`None`: it was stopped because its time was up."""
    output: str
    """Both streams in the order in which they were written."""


async def run_program(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    pass_fds: Sequence[int] = (),
) -> Ended:
    """Run the program in a process group of its own, without any input.

    When its time is up, or the caller is cancelled, the whole group is stopped; and what it leaves
    behind is stopped when it ends. Raises `OSError` if it cannot be started.
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
    return Ended(code=code, output=output.text())


@asynccontextmanager
async def _pipe_to(output: _Output) -> AsyncIterator[int]:
    """The end of a pipe to write to, which the caller closes; `output` gets what is written."""
    read_end, write_end = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: output, os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield write_end
    finally:
        transport.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the program if it runs, and whatever else is left of its group."""
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
    """Keeps the beginning and the end of what is written, and counts the rest."""

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
        """What was kept, with a note of what was not."""
        head, tail = bytes(self._head), bytes(self._tail)
        if not self._left_out:
            return (head + tail).decode(errors="replace")
        note = f"\n[… {self._left_out:,} bytes left out …]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")
