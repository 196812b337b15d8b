"""The steps of scripts for models and servers, and a clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ekiden.core.conversation.model import (
    Item,
    ModelResponse,
    Usage,
    assistant_message,
    is_message,
    text_of,
    to_item,
)
from ekiden.core.errors import UserError
from ekiden.core.values import dumps

_START_US = 1_700_000_000_000_000


class ManualClock:
    """A `Clock` that moves only when you call `advance` or `jump`.

    Use the clock only in the thread of the event loop.
    """

    def __init__(self, *, start_us: int = _START_US) -> None:
        self._now_us = start_us
        self._elapsed_us = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now_us(self) -> int:
        return self._now_us

    def monotonic(self) -> float:
        return self._elapsed_us / 1e6

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass: move the wall clock and the monotonic clock forward, and wake the
        tasks whose sleep is over."""
        if seconds < 0:
            raise UserError("time does not run backwards; use jump() to set the wall clock back")
        moved_us = round(seconds * 1e6)
        self._now_us += moved_us
        self._elapsed_us += moved_us
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_us:
            _, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or back, as an operator or NTP does. The monotonic clock does
        not move."""
        self._now_us += round(seconds * 1e6)

    async def sleep(self, seconds: float) -> None:
        """Sleep until `advance` has moved the clock forward by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._elapsed_us + round(seconds * 1e6)
        heapq.heappush(self._sleepers, (due, next(self._order), sleeper))
        self._notify()
        await sleeper

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until at least `count` tasks sleep on this clock."""
        if self._asleep() >= count:
            return
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((count, watcher))
        await watcher

    def _asleep(self) -> int:
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    def _notify(self) -> None:
        asleep = self._asleep()
        for count, watcher in self._watchers:
            if count <= asleep and not watcher.done():
                watcher.set_result(None)
        self._watchers = [entry for entry in self._watchers if not entry[1].done()]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStep:
    """A step that answers with these items."""

    output: tuple[Item, ...]
    """The items. A tool call without ``call_id`` gets a ``call_id`` when the step is played."""
    transfers: frozenset[int] = frozenset()
    """The positions in `output` whose ``name`` may be the name of an agent instead of a tool."""
    usage: Usage | None = None
    response_id: str | None = None
    model: str | None = None

    def __str__(self) -> str:
        return " + ".join(map(_describe_item, self.output)) or "an empty answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A step that plays `step` in pieces if the request is streamed."""

    step: Step
    chunks: int | tuple[str, ...]
    """The number of pieces, or the pieces themselves."""

    def __str__(self) -> str:
        return f"stream({self.step})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureStep:
    """A step that raises `error`."""

    error: BaseException

    def __str__(self) -> str:
        return f"fail({self.error!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A step that waits, and then plays `step`."""

    until: float | asyncio.Event
    step: Step
    clock: ManualClock | None = None

    def __str__(self) -> str:
        wait = "an event" if isinstance(self.until, asyncio.Event) else f"{self.until:g} s"
        return f"delay({wait}, {self.step})"

    async def wait(self, clock: ManualClock | None = None) -> None:
        """Wait for the event of the step. Without an event, wait for a time on the clock of the
        step, otherwise on `clock`, otherwise in real time."""
        clock = self.clock or clock
        if isinstance(self.until, asyncio.Event):
            await self.until.wait()
        elif clock is not None:
            await clock.sleep(self.until)
        else:
            await asyncio.sleep(self.until)


@dataclass(frozen=True, slots=True)
class Hang:
    """A step that never answers. The call ends when it is cancelled."""

    def __str__(self) -> str:
        return "hang()"


@dataclass(frozen=True, slots=True)
class Crash:
    """A step that kills the process."""

    def __str__(self) -> str:
        return "crash()"


Step: TypeAlias = AnswerStep | Streamed | FailureStep | Delayed | Hang | Crash

StepLike: TypeAlias = Step | str | BaseException | ModelResponse | Iterable[Any]
"""A step, or a value that `to_step` accepts."""


def say(text: str, *, usage: Usage | None = None) -> AnswerStep:
    """A step in which the model answers with `text`."""
    return AnswerStep(output=(assistant_message(text),), usage=usage)


def call(tool: str, /, call_id: str | None = None, **arguments: Any) -> AnswerStep:
    """A step of a script in which the model calls a tool. For parallel calls, put several calls
    into one list."""
    item: Item = {"type": "function_call", "name": tool, "arguments": dumps(arguments)}
    if call_id is not None:
        item["call_id"] = call_id
    return AnswerStep(output=(item,))


def transfer(to: Any, /, call_id: str | None = None, **arguments: Any) -> AnswerStep:
    """A step in which the model requests a handoff. `to` is an agent, the name of an agent, a
    `Handoff`, or the name of a handoff tool."""
    name = to if isinstance(to, str) else getattr(to, "tool_name", None) or to.name
    return replace(call(name, call_id, **arguments), transfers=frozenset({0}))


def fail(error: BaseException | type[BaseException]) -> FailureStep:
    """A step in which the model call raises `error`."""
    return FailureStep(error=error() if isinstance(error, type) else error)


def delay(
    until: float | asyncio.Event, step: StepLike, *, clock: ManualClock | None = None
) -> Delayed:
    """Delay a step until an event is set, or by a number of seconds on `clock`. The default of
    `clock` is the clock of the `ScriptedModel`. If the model has no clock, the delay takes real
    time."""
    return Delayed(until=until, step=to_step(step), clock=clock)


def hang() -> Hang:
    """A step in which the model never answers, to test timeouts and cancellation."""
    return Hang()


def crash() -> Crash:
    """A step that kills the process with SIGKILL during the model call. It works only with
    ``EKIDEN_TESTING=1``."""
    return Crash()


def stream(step: StepLike, *, chunks: int | Sequence[str]) -> Streamed:
    """Stream the answer of a step. `chunks` is the number of pieces, or a list of the pieces
    themselves.

    With a list of pieces, the step can also be something other than an answer:
    ``stream(fail(error), chunks=["half an ans"])`` fails in the middle of an answer.
    """
    if not isinstance(chunks, int):
        chunks = tuple(chunks)
    elif chunks < 1:
        raise UserError(f"a step is streamed in at least one piece, not {chunks}")
    return Streamed(step=to_step(step), chunks=chunks)


def to_step(value: StepLike) -> Step:
    """Convert `value` to a step. `value` is a text, an exception, a response, or a list of items
    and answers."""
    match value:
        case AnswerStep() | Streamed() | FailureStep() | Delayed() | Hang() | Crash():
            return value
        case str():
            return say(value)
        case BaseException():
            return FailureStep(error=value)
        case ModelResponse():
            counted = value.usage if value.usage != Usage() else None
            return AnswerStep(
                output=tuple(map(to_item, value.output)),
                usage=counted,
                response_id=value.response_id,
                model=value.model,
            )
        case list() | tuple():
            return _joined(value)
    raise UserError(
        f"a scripted step must be a text, an exception, a list of items, or made by say(), call(), "
        f"transfer(), fail(), delay(), hang(), crash() or stream(); not {type(value).__name__}"
    )


def pieces(text: str, count: int) -> list[str]:
    """Split `text` into `count` pieces of about the same length. A short text gives fewer
    pieces."""
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _joined(parts: Iterable[Any]) -> AnswerStep:
    """One answer with all `parts`: items, texts, and results of `say`, `call` and `transfer`."""
    output: list[Item] = []
    transfers: set[int] = set()
    usage: Usage | None = None
    for part in parts:
        if isinstance(part, str):
            output.append(assistant_message(part))
        elif isinstance(part, AnswerStep):
            transfers.update(len(output) + index for index in part.transfers)
            output.extend(part.output)
            usage = part.usage or usage
        else:
            output.append(to_item(part))
    return AnswerStep(output=tuple(output), transfers=frozenset(transfers), usage=usage)


def _describe_item(item: Item) -> str:
    if item.get("type") == "function_call":
        return f"call {item.get('name')}({str(item.get('arguments'))[:80]})"
    if is_message(item):
        return f"say({text_of(item)[:80]!r})"
    return str(item.get("type"))
