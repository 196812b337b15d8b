"""Threads and processes that the code of an agent starts also act for the agent.

Python passes context variables on to tasks, but not to threads, functions in a pool of threads, or
processes. So `pass_on_agents` wraps the functions of the standard library that start them. Outside
of an agent's code the wrappers only read a context variable.
"""

from __future__ import annotations

import _thread
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, wraps
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from ekiden.core.current_agent import (
    ACTING,
    AGENT_VARIABLE,
    acting_as,
    lineage_mark,
    mark_this_process,
)

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

T = TypeVar("T")
Function = Callable[..., Any]


def pass_on_agents() -> None:
    """Let the threads and processes that agents start in this process act for the agents.

    Call this function before an agent's code runs. Only the first call has an effect, except that
    later calls include modules that were imported meanwhile.
    """
    _wrap_standard_library()
    if "multiprocessing.process" in sys.modules:
        _wrap_multiprocessing()
    if "uvloop" in sys.modules:
        _wrap_uvloop()


@cache
def _wrap_standard_library() -> None:
    _wrap(Thread, "start", _thread_start)
    _wrap(ThreadPoolExecutor, "submit", _submit)
    for name in ("start_new_thread", "start_new"):
        _wrap(_thread, name, _start_new_thread)
    _wrap(subprocess.Popen, "__init__", _start_program)
    for name in ("system", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            _wrap(os, name, _start_marked)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


@cache
def _wrap_multiprocessing() -> None:
    from multiprocessing.process import BaseProcess

    _wrap(BaseProcess, "start", _process_start)


@cache
def _wrap_uvloop() -> None:
    """Wrap uvloop, which starts programs without `subprocess.Popen`."""
    import uvloop

    for name in ("subprocess_exec", "subprocess_shell"):
        _wrap(uvloop.Loop, name, _start_program_on_uvloop)


def _wrap(owner: Any, name: str, wrapper: Callable[[Function], Function]) -> None:
    function = getattr(owner, name)
    setattr(owner, name, wraps(function)(wrapper(function)))


def _thread_start(start: Callable[[Thread], None]) -> Callable[[Thread], None]:
    def started(thread: Thread) -> None:
        if agent := ACTING.get():
            vars(thread)["run"] = partial(_run_thread, agent, thread, thread.run)
        start(thread)

    return started


def _run_thread(agent: str, thread: Thread, run: Callable[[], None]) -> None:
    del vars(thread)["run"]  # A cycle that would keep the thread.
    with acting_as(agent):
        run()


def _start_new_thread(start: Function) -> Function:
    def started(function: Function, /, *args: Any, **kwargs: Any) -> int:
        agent = ACTING.get()
        ident: int = start(partial(_call, agent, function) if agent else function, *args, **kwargs)
        return ident

    return started


def _submit(submit: Callable[..., Future[T]]) -> Callable[..., Future[T]]:
    def submitted(
        pool: ThreadPoolExecutor, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        agent = ACTING.get()
        if not agent:
            return submit(pool, function, *args, **kwargs)
        with acting_as(""):  # A thread of the pool, started here, also serves others.
            return submit(pool, partial(_call, agent, function), *args, **kwargs)

    return submitted


def _call(agent: str, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    with acting_as(agent):
        return function(*args, **kwargs)


def _process_start(start: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
    def started(process: BaseProcess) -> None:
        if agent := ACTING.get():
            vars(process)["run"] = partial(_run_process, agent, process.run)
        try:
            start(process)
        finally:
            vars(process).pop("run", None)

    return started


def _run_process(agent: str, run: Callable[[], None]) -> None:
    mark_this_process(agent)
    run()


def _after_fork() -> None:
    if agent := ACTING.get():
        mark_this_process(agent)


def _start_program(start: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(start)

    def started(*args: Any, **kwargs: Any) -> None:
        agent = ACTING.get()
        if not agent:
            return start(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        with _marked(agent, given.arguments):
            return start(*given.args, **given.kwargs)

    return started


def _start_program_on_uvloop(start: Function) -> Function:
    async def started(*args: Any, **kwargs: Any) -> Any:
        agent = ACTING.get()
        if not agent:
            return await start(*args, **kwargs)
        with _marked(agent, kwargs):
            return await start(*args, **kwargs)

    return started


@contextmanager
def _marked(agent: str, options: dict[str, Any]) -> Iterator[None]:
    """Change the options of a program so that it is marked as started by the agent."""
    given = options.get("env")
    options["env"] = {AGENT_VARIABLE: agent, **(os.environ if given is None else given)}
    with lineage_mark(agent) as marks:
        if options.get("close_fds", True):
            options["pass_fds"] = (*options.get("pass_fds", ()), *marks)
        else:
            _let_inherit(marks)
        yield


def _start_marked(start: Function) -> Function:
    def started(*args: Any, **kwargs: Any) -> Any:
        agent = ACTING.get()
        if not agent:
            return start(*args, **kwargs)
        with lineage_mark(agent) as marks:
            _let_inherit(marks)
            return start(*args, **kwargs)

    return started


def _let_inherit(marks: tuple[int, ...]) -> None:
    for mark in marks:
        os.set_inheritable(mark, True)
