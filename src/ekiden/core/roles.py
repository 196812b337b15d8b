"""Small roles that let lower floors use what higher floors provide."""

from __future__ import annotations

from typing import Protocol

from ekiden.core.events import Event


class Clock(Protocol):
    """Where times come from; tests move it by hand."""

    def now_us(self) -> int:
        """Microseconds since 1970, for people: it may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from some start, for measuring: it never goes back."""
        ...


class EventSink(Protocol):
    """Somebody who wants to see events after they are stored."""

    def emit(self, event: Event) -> None:
        """Take the event; must return quickly and must not raise."""
        ...
