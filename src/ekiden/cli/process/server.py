"""Preparation of the server and the worker: installed packages, configuration, logs, a fast
loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from ekiden.project.settings import Settings
    from ekiden.server import ServerConfig


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

    `ServerExposed` if other machines could call it without a key; `StoreError` if the store cannot
    be opened, reported before anything starts. A database that cannot be reached is waited for.
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
    from ekiden.cli.terminal.output import note
    from ekiden.core.checks.addresses import is_any_address
    from ekiden.server.console import has_console

    if not has_console(config):
        return
    if is_any_address(config.host):
        # Nobody calls it so: by one of its names, or on this machine.
        scheme, _, address = url.partition("://")
        # Patterns and networks are no name that anybody can call.
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
        import asyncio

        try:
            from uvloop import new_event_loop
        except ImportError:
            return asyncio.run(command(*args, **options))
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(command(*args, **options))

    return run
