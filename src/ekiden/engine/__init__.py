"""Engines: the callers of `advance`."""

from ekiden.engine.bus_server import BusServer
from ekiden.engine.submit import submit
from ekiden.engine.worker import Worker

__all__ = ["BusServer", "Worker", "submit"]
