"""Python programs of this project as processes of their own that start in milliseconds.

To start Python and import a server takes seconds of CPU. So one process imports it all
(``python -m tests.support.forked``) and forks for each program, whichever test process asks for it.
`ForkedPopen` and `run` are `subprocess.Popen` and `subprocess.run` for ``ekiden …``,
``python -m …``, ``python -c …`` and ``python file.py``.

Use a real start where the start itself is tested: imports, the locale, warnings, options of Python.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = ROOT / "tests" / "docs" / "offline"
"""Programs with this folder in PYTHONPATH have no network."""
_START_TIMEOUT_S = 300.0
_PID = struct.Struct("=i")
_STATUS = struct.Struct("=id")
"""How a program ended, and how many seconds of CPU it took."""
_MODULES = (
    "asyncpg",
    "ekiden.cli.commands.serve",
    "ekiden.cli.commands.worker",
    "ekiden.client",
    "ekiden.integrations.temporal",
    "ekiden.engine.worker",
    "ekiden.server.application",
    "ekiden.storage.postgres",
    "ekiden.testing",
    "httpx2",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
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
"""Commands that are run once before the first fork, so that all children share what they load."""


class ForkedPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` that forks a process which has imported the project already.

    A program with a preloaded library or a `preexec_fn` gets a real start.
    """

    _status: socket.socket | None = None
    """Where its pid and the way it ended are read from."""

    def _execute_child(self, *given: Any) -> None:
        """Override the step of `Popen` that starts the program."""
        options = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        if options["preexec_fn"] or "LD_PRELOAD" in (options["env"] or ()):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        pipes = [options[name] for name in names]
        streams = [
            number if pipe == -1 else pipe
            for number, pipe in enumerate(
                (options["p2cread"], options["c2pwrite"], options["errwrite"])
            )
        ]
        order = {
            "arguments": [os.fsdecode(each) for each in options["args"]],
            "folder": os.fspath(options["cwd"] or os.getcwd()),
            "env": dict(os.environ if options["env"] is None else options["env"]),
            "new_session": options["start_new_session"],
        }
        self._status, theirs = socket.socketpair()
        with theirs:
            _forker().send(order, [*streams, theirs.fileno()])
        (self.pid,) = self._read_status(_PID)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _read_status(self, form: struct.Struct) -> tuple[Any, ...]:
        assert self._status is not None
        data = self._status.recv(form.size)
        assert data, "the process that forks has ended"
        return form.unpack(data)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Override `Popen`: the process is no child of this one, so `os.waitpid` cannot be used."""
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status, seconds = self._read_status(_STATUS)
        _forker().spent_s += seconds
        self._status.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        """Override `Popen` for the same reason."""
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def __del__(self, *_: Any, **__: Any) -> None:
        """Leave no socket open; a process that still runs is closed by the end of the forker."""
        if self._status is not None:
            self._status.close()


def run(
    arguments: Sequence[str | bytes],
    *,
    input: bytes | str | None = None,
    timeout: float | None = 120,
    capture_output: bool = False,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run the program to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    with ForkedPopen(arguments, **{"stdin": stdin, **options}) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(arguments, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _Forker:
    """The process that forks, as seen from a test process."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        """By the programs that this process waited for."""
        self.parent = os.getpid()
        self._is_ready = False
        self._orders, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())],
                cwd=ROOT,
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("EKIDEN_")},
                    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
                    "OPENBLAS_NUM_THREADS": "1",
                },
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def send(self, order: dict[str, Any], files: list[int]) -> None:
        """Send it as a file: arguments may be larger than a message."""
        if not self._is_ready:
            assert select.select([self._orders], [], [], _START_TIMEOUT_S)[0], "it does not start"
            # The word is left where it is for other test processes.
            word = self._orders.recv(16, socket.MSG_PEEK)
            assert word, "the process that forks could not start"
            self._is_ready = True
        with TemporaryFile() as text:
            text.write(json.dumps(order).encode())
            text.seek(0)
            with self._lock:
                socket.send_fds(self._orders, [b"o"], [text.fileno(), *files])

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


@cache
def _forker() -> _Forker:
    return _Forker()


def start_forker() -> None:
    """Start the process that forks, for this process and those that fork from it."""
    _forker()


def seconds_of_programs() -> float:
    """The CPU of the programs that this process waited for, if they are no descendants of it."""
    if not _forker.cache_info().currsize or _forker().parent == os.getpid():
        return 0.0
    return _forker().spent_s


def close_forker() -> None:
    """End the process that forks, if there is one."""
    if _forker.cache_info().currsize:
        _forker().close()
        _forker.cache_clear()


def _serve(orders: socket.socket) -> None:
    """Fork for each order, and tell how each program ended, until all test processes have ended."""
    base = list(sys.path)
    _warm_up()
    orders.send(b"ready")
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is not orders:
                    ready.unregister(key.fileobj)
                    os.close(key.fd)
                    _tell_end(*running.pop(key.fd))
                    continue
                message, files, _, _ = socket.recv_fds(orders, 1, 5)
                if not message:
                    return
                pid, status = _fork(files, base)
                watched = os.pidfd_open(pid)
                running[watched] = pid, status
                ready.register(watched, selectors.EVENT_READ)


def _fork(files: list[int], base: list[str]) -> tuple[int, socket.socket]:
    """Start the program and tell its pid."""
    with open(files[0], encoding="utf-8") as text:
        order = json.load(text)
    pid = os.fork()
    if pid == 0:
        _become(order, files[1:-1], base)
    for number in files[1:-1]:
        os.close(number)
    status = socket.socket(fileno=files[-1])
    with contextlib.suppress(OSError):  # The test process may have ended.
        status.send(_PID.pack(pid))
    return pid, status


def _tell_end(pid: int, status: socket.socket) -> None:
    _, code, used = os.wait4(pid, 0)
    with status, contextlib.suppress(OSError):
        status.send(_STATUS.pack(code, used.ru_utime + used.ru_stime))


def _become(order: dict[str, Any], files: list[int], base: list[str]) -> NoReturn:
    """Be the program."""
    if order["new_session"]:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # What the forker needs, and other programs.
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = ["", *paths, *base]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    from ekiden.core import faults

    importlib.reload(faults)
    if str(OFFLINE) in paths:
        runpy.run_path(str(OFFLINE / "sitecustomize.py"))
    code = 1
    try:
        _run_program(order["arguments"])
        code = 0
    except SystemExit as exit_:
        code = _exit_code(exit_)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _exit_code(exit_: SystemExit) -> int:
    if exit_.code is None or isinstance(exit_.code, int):
        return exit_.code or 0
    print(exit_.code, file=sys.stderr)
    return 1


def _run_program(arguments: list[str]) -> None:
    program, *rest = arguments
    if Path(program).name == "ekiden":
        from ekiden.cli.main import main

        sys.argv = arguments
        sys.exit(main())
    if rest[0] == "-m":
        sys.argv = rest[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    elif rest[0] == "-c":
        sys.argv = ["-c", *rest[2:]]
        main_module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[1], "<string>", "exec"), vars(main_module))
    else:
        sys.argv = rest
        sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")


async def _serve_once(folder: Path) -> None:
    """Answer one request, so that the routes are prepared for all children."""
    from tests.support.serving import application, client_of

    async with application(folder) as app, client_of(app) as client:
        await client.post("/api/v1/runs", json={"input": "hello"})


def _warm_up() -> None:
    """Import and call what programs need, far from everything that tests look at."""
    from ekiden.cli.main import main

    for module in _MODULES:
        importlib.import_module(module)
    place, environment = Path.cwd(), dict(os.environ)
    with TemporaryDirectory() as folder, contextlib.ExitStack() as quiet:
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        os.chdir(folder)
        os.environ.update(HOME=folder, EKIDEN_STORE="ekiden.db")
        for arguments in _WARM_UP:
            main(arguments)
        asyncio.run(_serve_once(Path(folder)))
        os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    # The test processes may end while one comes or goes.
    with socket.socket(fileno=int(sys.argv[1])) as given, contextlib.suppress(ConnectionError):
        _serve(given)
