"""The engine on Temporal. Each session has a workflow, which calls `advance` as an activity."""

from ekiden.integrations.temporal.connection import (
    TemporalAddress as TemporalAddress,
    TemporalTls as TemporalTls,
    WorkerVersion as WorkerVersion,
)
from ekiden.integrations.temporal.worker import (
    TemporalFleet as TemporalFleet,
    TemporalSettings as TemporalSettings,
    TemporalWorker as TemporalWorker,
)
