"""The engine on Temporal: a workflow per session calls `advance` as an activity."""

from ekiden.engine.temporal import sdk as sdk
from ekiden.engine.temporal.branch import Terms
from ekiden.engine.temporal.connecting import TemporalAddress, TemporalTls
from ekiden.engine.temporal.fleet import TemporalFleet
from ekiden.engine.temporal.versions import WorkerVersion
from ekiden.engine.temporal.worker import TemporalWorker

__all__ = [
    "TemporalAddress",
    "TemporalFleet",
    "TemporalTls",
    "TemporalWorker",
    "Terms",
    "WorkerVersion",
]
