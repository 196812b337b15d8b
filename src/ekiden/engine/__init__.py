"""Engines: who calls `advance`."""

from ekiden.engine.submit import submit
from ekiden.engine.worker import Worker

__all__ = ["Worker", "submit"]
