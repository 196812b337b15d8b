"""Engines: workers that claim stored sessions and run them with `advance`."""

from ekiden.engine.bus_server import BusServer as BusServer
from ekiden.engine.worker import Worker as Worker, submit as submit
