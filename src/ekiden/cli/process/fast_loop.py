"""Runs long-lived commands on uvloop where that is installed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

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
