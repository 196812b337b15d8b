"""How long a run waits for a model."""

from __future__ import annotations

import asyncio
from contextvars import Context
from types import TracebackType


class Deadline:
    """Cuts one wait of a run short after the other, each after its time: `TimeoutError`.

    It does what `asyncio.timeout` does, with one timer for all waits of the run: one that fires too
    early is set again. A timer that was cancelled stays in the loop for a while, and with it the
    context that it was made in, which refers to the run: therefore that is an empty one.
    """

    __slots__ = ("_at", "_cancelling", "_task", "_timer", "_when", "expired")

    def __init__(self) -> None:
        self.expired = False
        """Whether the last wait was cut short."""
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0
        """When the timer fires."""
        self._when = 0.0
        """When the wait under way is over."""
        self._task: asyncio.Task[object] | None = None
        """Who waits."""
        self._cancelling = 0

    def after(self, seconds: float) -> Deadline:
        """``with deadline.after(60):`` is one wait."""
        loop = asyncio.get_running_loop()
        self._when = loop.time() + seconds
        if self._timer is None or self._at > self._when:
            self._arm(loop)
        return self

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling, self.expired = task, task.cancelling(), False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self.expired and task is not None:
            is_ours = task.uncancel() <= self._cancelling
            if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError from exc

    def close(self) -> None:
        """There is nothing more to wait for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._at = self._when
        self._timer = loop.call_at(self._at, self._fire, context=Context())

    def _fire(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._when > self._at:
            self._arm(self._task.get_loop())
        else:
            self.expired = True
            self._task.cancel()
