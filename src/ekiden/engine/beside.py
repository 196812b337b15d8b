"""What a worker does beside the sessions of a store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ekiden.core.retention import Retention
from ekiden.engine.enlisting import Enlisting
from ekiden.engine.fleet import Beside
from ekiden.engine.housekeeping import Housekeeping
from ekiden.engine.posting import Posting
from ekiden.engine.station import Station
from ekiden.engine.stops import StopHere, Stops
from ekiden.engine.timing import Timekeeping


class Crew(Protocol):
    """Those who run the sessions."""

    @property
    def concurrency(self) -> int:
        """How many sessions they run at a time."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether no further session is taken."""
        ...


def beside(
    station: Station,
    fleet: Crew,
    *,
    retention: Retention,
    labels: Collection[str],
    engine: str,
    also_stops: StopHere | None = None,
    rarely: bool = False,
    keeps_time: bool = True,
) -> list[Beside]:
    """Keep time, tidy up, deliver memories, stop what is to be stopped, be on the list of workers.

    `rarely`: the store is one of many, and is looked at less often. Without `keeps_time` somebody
    else sees to timers.
    """
    enlisting = Enlisting(
        station,
        concurrency=fleet.concurrency,
        labels=labels,
        engine=engine,
        is_draining=lambda: fleet.is_stopping,
    )
    timing = [Timekeeping(station.store, rarely=rarely).run] if keeps_time else []
    return [
        *timing,
        Housekeeping(station.store, retention, policy=station.config.bus.victim).run,
        Posting(station.store, station.team, station.config).run,
        Stops(station, also=also_stops).run,
        enlisting.run,
    ]
