"""Those who look on at every run of this process, whoever makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ekiden.core.events import Event


class SeenRun(Protocol):
    """What an onlooker is told of a run."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the session's row says of it."""
        ...

    @property
    def created_at_us(self) -> int:
        """When the store made the session."""
        ...

    @property
    def number(self) -> int:
        """Which run of the session it is."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """All stored events of the run, also those of earlier processes."""
        ...

    @property
    def store(self) -> Any:
        """Where the session is."""
        ...


class RunOnlooker(Protocol):
    """Somebody who is shown what becomes of every run of this process."""

    async def see(self, run: SeenRun, events: Sequence[Event]) -> None:
        """Take the events that were just stored; the run goes on when this returns."""
        ...


ONLOOKERS: list[RunOnlooker] = []
"""Who looks on now; with nobody in it a run costs nothing more."""
