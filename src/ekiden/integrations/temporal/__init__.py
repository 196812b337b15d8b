"""The engine on Temporal: a workflow per session calls `advance` as an activity."""

from ekiden.integrations.temporal import sdk as sdk
from ekiden.integrations.temporal.connection import TemporalAddress, TemporalTls, WorkerVersion
from ekiden.integrations.temporal.worker import TemporalFleet, TemporalSettings, TemporalWorker

__all__ = [
    "TemporalAddress",
    "TemporalFleet",
    "TemporalSettings",
    "TemporalTls",
    "TemporalWorker",
    "WorkerVersion",
]
