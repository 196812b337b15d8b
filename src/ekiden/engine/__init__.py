"""Engines: who calls `advance`."""

from ekiden.engine.on_bus import TeamOnBus
from ekiden.engine.submit import submit
from ekiden.engine.worker import Worker

__all__ = ["TeamOnBus", "Worker", "submit"]
