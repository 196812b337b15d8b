"""What the server and the worker share as processes: preparation, signals, and the end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from ekiden.project.settings import Settings
    from ekiden.project.worker import Workforce
    from ekiden.server import ServerConfig

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LEAVING_S = 5.0
"""How long cancelled work may take to end; afterwards its leases must expire."""
_TASKS_S = 1.0
_THREADS_S = 1.0
"""How long tasks, and then threads, may take to end."""
_LOOK_EVERY_S = 0.02


def check_installed() -> None:
    """`UserError` if the packages of the server are not installed."""
    missing = [
        name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None
    ]
    if missing:
        raise UserError(f"the server needs {', '.join(missing)}: pip install 'ekiden[server]'")


async def prepared_config(
    settings: Settings, store: str, *, host: str | None, port: int | None
) -> ServerConfig:
    """The server's configuration: the settings, overridden by the options.

    The store is opened once, so that its errors are reported before anything starts; a database
    that is unreachable is waited for. `ServerExposed` if other machines could call the server
    without a key.
    """
    from ekiden.core.checks.addresses import is_loopback
    from ekiden.engine.store_worker import once_reachable
    from ekiden.project.keys import KeyStore
    from ekiden.project.stores import open_store
    from ekiden.server.access.authorization import check_exposure
    from ekiden.server.configuration import server_config

    config = server_config(settings, host=host, port=port)

    async def check() -> None:
        async with open_store(store) as opened:
            if not is_loopback(config.host):
                await check_exposure(config, KeyStore(opened))

    await once_reachable(check, open_store(store).url)
    return config


def tell_console(config: ServerConfig, url: str) -> None:
    """Print the address of the console, if this server has it."""
    from ekiden.cli.output import note
    from ekiden.core.checks.addresses import is_any_address
    from ekiden.server.console import has_console

    if not has_console(config):
        return
    if is_any_address(config.host):
        # An address such as 0.0.0.0 cannot be opened in a browser: show a name of the server.
        scheme, _, address = url.partition("://")
        # The setting also allows patterns and networks, which are not names.
        name = next((each for each in config.hosts if not set(each) & {"*", "/"}), "localhost")
        url = (
            f"{scheme}://{name}"
            if ":" in name
            else f"{scheme}://{name}:{address.rpartition(':')[2]}"
        )
    note(f"console {url}/")


def start_logging(form: Literal["text", "json", "none"]) -> None:
    """Send the log of this process to standard error."""
    if form == "none":
        return
    from ekiden.tracing.logs import setup_logging

    setup_logging(format=form)


_Options = ParamSpec("_Options")


def on_fast_loop(
    command: Callable[_Options, Coroutine[Any, Any, int]],
) -> Callable[_Options, int]:
    """Run an async command on uvloop, or on Python's own loop.

    A served run takes a sixth to a third less CPU with uvloop.
    """

    @wraps(command)
    def run(*args: _Options.args, **options: _Options.kwargs) -> int:
        try:
            from uvloop import new_event_loop
        except ImportError:
            return asyncio.run(command(*args, **options))
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(command(*args, **options))

    return run


def rest_collector() -> None:
    """Exclude the objects of the start from garbage collection, and collect less often: reference
    counting frees nearly everything of a session."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def end_for_sure() -> None:
    """The last call of a command: wait for tasks and threads to end, or end the process without
    them.

    Tasks that ignore cancellation, and threads that keep working, could block the exit. Their work
    is not lost: others take over their sessions when the leases expire.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_TASKS_S)
        if left:
            end_at_once()
    loop = asyncio.get_running_loop()
    # Never cancelled: that would wait for the threads.
    await asyncio.wait({asyncio.create_task(loop.shutdown_default_executor())}, timeout=_THREADS_S)
    deadline = loop.time() + _THREADS_S
    while any(_is_busy(each) for each in threading.enumerate()):
        if loop.time() >= deadline:
            end_at_once()
        await asyncio.sleep(_LOOK_EVERY_S)


def end_at_once() -> None:
    """End the process at once, without cleanup."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _is_busy(thread: threading.Thread) -> bool:
    """Whether the interpreter would wait for the thread at exit."""
    return thread.is_alive() and not thread.daemon and thread is not threading.main_thread()


async def run_until_signal(
    workforce: Workforce, *, until_idle: bool, grace_s: float, ready: Callable[[], None]
) -> bool:
    """Work until nothing is left, or until SIGTERM or SIGINT, and return whether it was a signal.

    After a signal it takes no more work. Sessions unfinished after `grace_s` seconds, or at a
    second signal, are cancelled and left ready. If even that hangs, the process is ended.
    """
    signals = asyncio.Queue[None]()
    with on_signals(lambda: signals.put_nowait(None)):
        working = asyncio.create_task(workforce.run(until_idle=until_idle, ready=ready))
        first = asyncio.create_task(signals.get())
        await asyncio.wait({working, first}, return_when=asyncio.FIRST_COMPLETED)
        was_signal = not working.done()
        if was_signal:
            workforce.stop()
            second = asyncio.create_task(signals.get())
            await asyncio.wait(
                {working, second}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            second.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=_LEAVING_S)
            if not working.done():
                end_at_once()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await working
    return was_signal


@contextmanager
def on_signals(
    call: Callable[[], None], numbers: Sequence[signal.Signals] = _SIGNALS
) -> Iterator[None]:
    """While the body runs, call `call` for each of the signals."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        # Windows has no such handlers, nor has a thread other than the main one.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)
