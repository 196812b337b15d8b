"""Engines: the callers of `advance`."""

from ekiden.engine.bus_server import BusServer
from ekiden.engine.worker import Worker, submit

__all__ = ["BusServer", "Worker", "submit"]
