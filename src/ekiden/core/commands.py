"""Keeps track of what a context object made, so that no forgotten `await` or `return` loses work.

Methods marked with `command` return a `Command`. The code that called the method must await the
command before the code ends. What must be returned, such as a handoff, is noted with
`Commands.note`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from types import FrameType
from typing import Any, Protocol, TypeVar, cast

from ekiden.core.errors import CommandForgotten

T = TypeVar("T")
_Method = TypeVar("_Method", bound=Callable[..., Coroutine[Any, Any, Any]])


class Command(Coroutine[Any, Any, T]):
    """The coroutine of one call of a context's method. It knows where the call was made."""

    __slots__ = ("_commands", "_coroutine", "is_started", "origin")

    def __init__(self, coroutine: Coroutine[Any, Any, T], commands: Commands, origin: Origin):
        self._coroutine = coroutine
        self._commands = commands
        self.origin = origin
        self.is_started = False

    def __await__(self) -> Command[T]:
        # This object is its own iterator, so that every step of an `await` goes through `_step`.
        return self

    def __iter__(self) -> Command[T]:
        return self

    def __next__(self) -> Any:
        return self._step(self._coroutine.send, None)

    def send(self, value: Any) -> Any:
        """Run the coroutine to its next wait."""
        return self._step(self._coroutine.send, value)

    def throw(self, *exc: Any) -> Any:
        """Raise an exception where the coroutine waits."""
        return self._step(self._coroutine.throw, *exc)

    def close(self) -> None:
        """End the coroutine where it waits."""
        self._commands.made.pop(self, None)
        self._coroutine.close()

    def _step(self, step: Callable[..., Any], *given: Any) -> Any:
        commands = self._commands
        if commands.is_closed and not self.is_started:
            raise _cancelled()  # The task of this command begins after the code's end.
        self.is_started = True
        try:
            return step(*given)
        except BaseException as exc:
            commands.made.pop(self, None)
            if commands.is_closed and not isinstance(exc, StopIteration):
                # The code has ended, so nothing handles the exception, and asyncio would log it.
                raise _cancelled() from None
            raise


def _cancelled() -> BaseException:
    from asyncio import CancelledError  # Agents are defined without asyncio.

    return CancelledError()


class Origin:
    """Where code made something, for the message of an error."""

    __slots__ = ("_argument", "_file", "_line", "_method")

    def __init__(self, method: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        self._method = method
        self._argument = arguments[0] if arguments else None
        self._file, self._line = frame.f_code.co_filename, frame.f_lineno

    @property
    def call(self) -> str:
        """The call, such as ``ctx.call('pay', …)``."""
        name = getattr(self._argument, "name", self._argument)
        return f"ctx.{self._method}({f'{name!r:.80}, …' if isinstance(name, str) else '…'})"

    def __str__(self) -> str:
        return f"{self.call} in {self._file}, line {self._line}"


class Commands:
    """The commands that code has made and not finished, and what it has to return."""

    __slots__ = ("is_closed", "made")

    def __init__(self) -> None:
        self.made: dict[Any, Origin] = {}
        """By command, or by the object that the code has to return."""
        self.is_closed = False

    def add(
        self, coroutine: Coroutine[Any, Any, T], method: str, arguments: tuple[Any, ...]
    ) -> Command[T]:
        """Make a command of the coroutine, for the caller of this function's caller."""
        origin = Origin(method, arguments, sys._getframe(2))
        made = Command(coroutine, self, origin)
        self.made[made] = origin
        return made

    def note(self, returned: Any, method: str, arguments: tuple[Any, ...]) -> None:
        """Note an object that the caller of this function's caller has to return."""
        self.made[_Same(returned)] = Origin(method, arguments, sys._getframe(2))

    def check(self, who: str, result: Any) -> None:
        """Raise `CommandForgotten` if the code forgot an `await` or a `return` before it returned
        `result`."""
        self.made.pop(_Same(result), None)
        if not self.made:
            return
        is_unfinished = inspect.isawaitable(result)
        problems = []
        for made, origin in self.made.items():
            if not isinstance(made, Command):
                problems.append(f"did not return {origin}: write `return {origin.call}`")
            elif is_unfinished:
                problems.append(f"did not await {origin}: write `return await {origin.call}`")
            else:
                problems.append(f"did not await {origin}: write `await {origin.call}`")
        raise CommandForgotten(who, problems)

    def close(self) -> None:
        """Drop the commands that have not started; commands in other tasks can start no more."""
        self.is_closed = True
        for made in list(self.made):
            if isinstance(made, Command) and not made.is_started:
                made.close()


class _Same:
    """Compares objects by identity."""

    __slots__ = ("_object",)

    def __init__(self, object: Any) -> None:
        self._object = object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._object is self._object

    def __hash__(self) -> int:
        return id(self._object)


class _MakesCommands(Protocol):
    def _commands(self) -> Commands | None: ...


def command(method: _Method) -> _Method:
    """Make commands of the calls of an async method of a context."""

    @wraps(method)
    def make(self: _MakesCommands, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        coroutine, commands = method(self, *args, **kwargs), self._commands()
        return coroutine if commands is None else commands.add(coroutine, method.__name__, args)

    return cast("_Method", make)


class WatchedMemory:
    """A long-term memory whose methods make commands."""

    __slots__ = ("_commands", "_memory")

    def __init__(self, memory: Any, commands: Commands) -> None:
        self._memory = memory
        self._commands = commands

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._memory, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def make(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return self._commands.add(found(*args, **kwargs), f"memory.{name}", args)

        return make


def refuse_awaitable(who: str, result: Any) -> None:
    """Raise `CommandForgotten` if code returned an awaitable instead of its result."""
    if not inspect.isawaitable(result):
        return
    name = getattr(result, "__qualname__", None) or type(result).__name__
    if inspect.iscoroutine(result):
        result.close()  # Otherwise Python warns that it was never awaited.
    raise CommandForgotten(who, [f"returned {name}, which is not finished: write `return await …`"])
