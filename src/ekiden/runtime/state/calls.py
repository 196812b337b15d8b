"""Calls of user code, which may be sync or async, and compensations, which undo side effects."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ekiden.core.agent import Agent
from ekiden.core.errors import CompensationNotFindable, HandoffError, UserError
from ekiden.core.faults import fault_point
from ekiden.core.values import dumps
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.cursor_handoffs import Compensation
from ekiden.tools.under_way import current_call

T = TypeVar("T")
_MAIN = ("__main__", "__mp_main__")
"""The names of the main program, in its own process and in child processes of `multiprocessing`."""


async def settled(value: Any) -> Any:
    """Return `value`, or its result if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def to_the_end(work: Awaitable[T]) -> tuple[T, asyncio.CancelledError | None]:
    """Await `work` to its end, even if this task is cancelled meanwhile.

    Returns the result, and the cancellation, which the caller must raise. If `work` fails, its
    exception is raised. If this task was also cancelled, the cancellation is raised, with that
    exception as its cause. Pass a future if possible, because a coroutine needs a task, which takes
    ten times as long.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        waiter = asyncio.get_running_loop().create_future()
        task.add_done_callback(partial(_wake, waiter))  # `asyncio.wait` takes four times as long.
        try:
            await waiter
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None and not task.cancelled() and task.exception() is not None:
        raise cancelled from task.exception()
    return task.result(), cancelled


def _wake(waiter: asyncio.Future[None], _: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def both(first: Awaitable[None] | None, second: Awaitable[None] | None) -> None:
    """Await two hooks concurrently. One of them may be missing. If a hook fails, the other is
    cancelled."""
    if first is None:
        if second is not None:
            await second
        return
    if second is None:
        await first
        return
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_as_coroutine(first))
            group.create_task(_as_coroutine(second))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable


_MAX_KEY = 500


class Registrar(Protocol):
    """The parts of a run that a registration needs."""

    agent: Agent[Any]
    cursor: Cursor
    staged: list[Compensation] | None

    async def commit_cursor(self) -> None:
        """Store the registered compensations."""
        ...


class Registration:
    """A registered compensation. It is stored with the step, or at once if the caller awaits this
    object."""

    __slots__ = ("_run",)

    def __init__(self, run: Registrar | None) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, None]:
        if self._run is not None:
            fault_point("handoff.registration.before_commit")
            yield from self._run.commit_cursor().__await__()
            fault_point("handoff.registration.after_commit")


def register(
    run: Registrar, function: Callable[..., Any], *, key: str, arguments: Any
) -> Awaitable[None]:
    """Register `function` as a compensation for the open handoff. If the key is already registered,
    nothing changes. Raises `CompensationNotFindable` if another process could not find the
    function."""
    if not callable(function):
        raise UserError(f"on_rollback needs a function, not {type(function).__name__}")
    if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
        raise UserError(f"on_rollback needs a `key` of 1 to {_MAX_KEY} characters")
    takes_rollback(function)
    try:
        dumps(arguments)
    except (TypeError, ValueError) as exc:
        raise UserError(f"`arguments` of on_rollback must be JSON: {exc}") from exc
    name = _name_of(function)
    pending = run.cursor.handoffs.pending
    if run.staged is not None:
        # Callbacks of a handoff in preparation register for this handoff.
        registered, store_now = run.staged, None
    elif pending is not None and pending.failure is None:
        registered, store_now = pending.compensations, run
    else:
        return Registration(None)
    if not any(each.key == key for each in registered):
        registered.append(Compensation(key, name, arguments, run.agent.name))
        call = current_call()
        if call is not None:
            call.compensations += (key,)
    return Registration(store_now)


def function_of(each: Compensation) -> Callable[..., Any]:
    """The function of a compensation. Raises `HandoffError` if it cannot be found."""
    if each.function is None:
        raise HandoffError(f"the function for {each.key!r} was not stored, so nothing can find it")
    try:
        function: Callable[..., Any] = _by_name(each.function)
    except (ImportError, AttributeError) as exc:
        raise HandoffError(f"the function {each.function!r} no longer exists") from exc
    if not callable(function):
        raise HandoffError(f"{each.function!r} is no longer a function")
    return function


def takes_rollback(function: Callable[..., Any]) -> bool:
    """Whether the function takes a `Rollback`. Raises `UserError` if it takes other arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function in C without a signature
        return False
    for given in (("rollback",), ()):
        try:
            signature.bind(*given)
        except TypeError:
            continue
        return bool(given)
    raise UserError(
        f"a function for on_rollback takes one argument (a Rollback) or none, not {signature}: "
        "pass what it needs as `arguments`"
    )


def _name_of(function: Callable[..., Any]) -> str:
    """``module:name``, the name under which another process finds the function. Raises
    `CompensationNotFindable` if there is none."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if isinstance(function, partial) or not module or not name:
        raise CompensationNotFindable(function, "it is an object without a name of its own")
    if "<lambda>" in name:
        raise CompensationNotFindable(function, "it is a lambda")
    if "<locals>" in name:
        raise CompensationNotFindable(function, "it is defined inside another function")
    try:
        # Equal and not the same: each access to a class method makes a new object.
        is_found = _attribute(sys.modules.get(module), name) == function
    except AttributeError:
        is_found = False
    if not is_found:
        raise CompensationNotFindable(
            function, f"the name {name!r} of the module {module!r} does not lead to it"
        )
    if module in _MAIN:
        module = _name_of_main()
        if module is None:
            raise CompensationNotFindable(
                function, "no other process can import the program that defines it"
            )
    return f"{module}:{name}"


def _name_of_main() -> str | None:
    """The name under which other processes can import the main program, such as ``trip`` after
    ``python trip.py``."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        name = spec.name
    else:
        # A command without a suffix, such as `bin/trip`, often has the name of a package.
        path = Path(file or "")
        name = path.stem if path.suffix == ".py" else ""
    return None if not name or name.endswith("__main__") else name


def _by_name(reference: str) -> Any:
    module, _, name = reference.partition(":")
    is_main = module == _name_of_main()
    return _attribute(sys.modules["__main__"] if is_main else importlib.import_module(module), name)


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner
