"""Engines: workers that claim stored sessions and run them with `advance`."""

from ekiden.engine.bus_server import BusServer
from ekiden.engine.worker import Worker, submit

__all__ = ["BusServer", "Worker", "submit"]
