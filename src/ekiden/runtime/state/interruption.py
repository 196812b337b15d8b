"""What somebody outside wants of a run, and the step under way, which it may cut short."""

from __future__ import annotations

import asyncio

from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.recording import WorkClock


class Interruption:
    """What somebody outside wants of a run, as soon as it can be."""

    __slots__ = ("_clock", "_cursor", "_scope", "at_once", "look")

    def __init__(self, cursor: Cursor, clock: WorkClock) -> None:
        self._cursor = cursor
        self._clock = clock
        self._scope: asyncio.Timeout | None = None
        self.look = False
        """Look into the store for requests of handoffs, at the end of the step."""
        self.at_once = False
        """The step under way is not to be finished."""

    def want(self, *, at_once: bool) -> None:
        """Somebody asked for a handoff of this session: look at the end of the step, or now."""
        self.look = True
        if at_once:
            self.at_once = True
            if self._cursor.handoffs.is_rolling_back:
                return  # A rollback that was begun is finished first.
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    def clear(self) -> None:
        """Nobody wants anything any more."""
        self.look = self.at_once = False

    def begin_step(self, scope: asyncio.Timeout) -> None:
        """A step begins that `scope` can end."""
        self._clock.deadline = self._scope = scope
        if self.at_once:
            self.want(at_once=True)

    @property
    def is_timed(self) -> bool:
        """Whether the step under way is cut short after some time."""
        return self._scope is not None and self._scope.when() is not None

    def take_time(self) -> None:
        """The step under way is not to be cut short any more."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(None)

    def end_step(self) -> None:
        """The step is over."""
        self._clock.deadline = self._scope = None
