"""A scripted realtime model for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Required, TypeAlias
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from ekiden.compat.agents.realtime.config import RealtimeSessionModelSettings
from ekiden.compat.agents.realtime.model import (
    RealtimeModel,
    RealtimeModelConfig,
    RealtimeModelListener,
    RealtimePlaybackTracker,
)
from ekiden.compat.agents.realtime.model_events import RealtimeModelEvent
from ekiden.compat.agents.realtime.model_inputs import (
    RealtimeModelSendEvent,
    RealtimeModelSendSessionUpdate,
)

RealtimeSendMatcher: TypeAlias = (
    RealtimeModelSendEvent | type[Any] | Callable[[RealtimeModelSendEvent], bool]
)


class RealtimeScriptError(Exception):
    """Base class of errors of a script."""


class UnexpectedRealtimeSend(RealtimeScriptError):
    """Something was sent that the script does not expect."""

    def __init__(
        self, message: str, *, actual: RealtimeModelSendEvent, expected: RealtimeSendMatcher | None
    ) -> None:
        super().__init__(message)
        self.actual = actual
        self.expected = expected


class UnconsumedRealtimeSteps(RealtimeScriptError):
    """Steps are left over."""

    def __init__(self, message: str, *, remaining_steps: int) -> None:
        super().__init__(message)
        self.remaining_steps = remaining_steps


@dataclass(frozen=True)
class RealtimeStep:
    """What is expected to be sent, and what the model reports then, or raises."""

    expect: RealtimeSendMatcher
    emit: Sequence[RealtimeModelEvent] = field(default_factory=tuple)
    error: Exception | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "emit", tuple(self.emit))
        if self.emit and self.error is not None:
            raise ValueError("a RealtimeStep has events or an error, not both")

    def matches(self, event: RealtimeModelSendEvent) -> bool:
        """Whether the step expects this event."""
        if isinstance(self.expect, type):
            return isinstance(event, self.expect)
        return bool(self.expect(event)) if callable(self.expect) else self.expect == event


class RealtimeConnectCall(TypedDict, total=False):
    """How `connect` was called, without secrets."""

    api_key_provided: Required[bool]
    headers_provided: Required[bool]
    url: str
    initial_model_settings: RealtimeSessionModelSettings
    playback_tracker: RealtimePlaybackTracker
    call_id: str


class ScriptedRealtimeModel(RealtimeModel):
    """A model that answers what is sent to it with the next step of a script.

    With ``strict=False`` it ignores what no step expects.
    """

    def __init__(
        self,
        steps: Iterable[RealtimeStep] = (),
        *,
        connect_events: Iterable[RealtimeModelEvent] = (),
        connect_error: Exception | None = None,
        close_error: Exception | None = None,
        strict: bool = True,
    ) -> None:
        self._steps = list(steps)
        self._connect_events = tuple(connect_events)
        if self._connect_events and connect_error is not None:
            raise ValueError("a ScriptedRealtimeModel connects with events or an error, not both")
        self._connect_error = connect_error
        self._close_error = close_error
        self._strict = strict
        self._listeners: list[RealtimeModelListener] = []
        self._calls: list[RealtimeConnectCall] = []
        self._sent: list[RealtimeModelSendEvent] = []
        self.connected = False
        self.closed = False
        self.close_calls = 0

    @property
    def listeners(self) -> tuple[RealtimeModelListener, ...]:
        """Who is told what the model reports."""
        return tuple(self._listeners)

    @property
    def connect_calls(self) -> tuple[RealtimeConnectCall, ...]:
        """How `connect` was called."""
        return tuple(self._calls)

    @property
    def sent_events(self) -> tuple[RealtimeModelSendEvent, ...]:
        """What was sent."""
        return tuple(self._sent)

    @property
    def remaining_steps(self) -> int:
        """How many steps are left."""
        return len(self._steps)

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Report the events of the connection, or raise its error."""
        if self.connected:
            raise AssertionError("the model is connected already")
        self._calls.append(_without_secrets(options))
        if self._connect_error is not None:
            raise self._connect_error
        self.connected, self.closed = True, False
        try:
            await self.emit(*self._connect_events)
        except BaseException:
            self.connected, self.closed = False, True
            raise

    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Report to this listener."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Report no more to this listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Take the next step; `UnexpectedRealtimeSend` if it expects something else."""
        self._check_connected("send")
        step = self._next(event)
        self._sent.append(_copied(event))
        if step is None:
            return
        if step.error is not None:
            raise step.error
        await self.emit(*step.emit)

    async def send_event_if(
        self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """The same if `send_if` holds."""
        self._check_connected("send")
        if not send_if():
            return False
        await self.send_event(event)
        return True

    async def emit(self, *events: RealtimeModelEvent) -> None:
        """Report events to all listeners, in order, until the model is closed."""
        self._check_connected("emit")
        calls = self.close_calls
        for event in events:
            for listener in self.listeners:
                if self.closed or self.close_calls != calls:
                    return
                await listener.on_event(event)

    async def close(self) -> None:
        """Hang up, or raise the error of the script."""
        self.close_calls += 1
        if not self.closed:
            self.connected, self.closed = False, True
            if self._close_error is not None:
                raise self._close_error

    def assert_complete(self) -> None:
        """`UnconsumedRealtimeSteps` if steps are left."""
        if self._steps:
            left = len(self._steps)
            raise UnconsumedRealtimeSteps(f"{left} steps are left over", remaining_steps=left)

    def _next(self, event: RealtimeModelSendEvent) -> RealtimeStep | None:
        step = self._steps[0] if self._steps else None
        if step is not None and step.matches(event):
            return self._steps.pop(0)
        if not self._strict:
            return None
        expected = None if step is None else step.expect
        raise UnexpectedRealtimeSend(
            f"{event!r:.200} was sent, but the script expects "
            f"{'nothing more' if step is None else f'{expected!r:.200}'}",
            actual=_copied(event),
            expected=expected,
        )

    def _check_connected(self, what: str) -> None:
        if not self.connected or self.closed:
            raise RealtimeScriptError(f"the scripted model is not connected: it cannot {what}")


def _copied(event: Any) -> Any:
    """A copy that later changes do not reach; tools and handoffs are the same objects."""
    if isinstance(event, RealtimeModelSendSessionUpdate):
        return RealtimeModelSendSessionUpdate(_copied_settings(event.session_settings))
    return deepcopy(event)


def _copied_settings(settings: Any) -> Any:
    offers = ("tools", "handoffs")
    return {k: list(v) if k in offers else deepcopy(v) for k, v in settings.items()}


def _without_secrets(options: RealtimeModelConfig) -> RealtimeConnectCall:
    call: RealtimeConnectCall = {
        "api_key_provided": "api_key" in options,
        "headers_provided": "headers" in options,
    }
    if "url" in options:
        url = urlsplit(options["url"])
        call["url"] = url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()
    if "initial_model_settings" in options:
        call["initial_model_settings"] = _copied_settings(options["initial_model_settings"])
    if "playback_tracker" in options:
        call["playback_tracker"] = options["playback_tracker"]
    if "call_id" in options:
        call["call_id"] = options["call_id"]
    return call
