"""The message bus: messages between agents, stored before delivery."""

from ekiden.bus.bus import Bus
from ekiden.bus.client import BusClient
from ekiden.bus.messages import MessageRecord
from ekiden.bus.parts import BusSettings
from ekiden.bus.serving.service import LATER, BusService

__all__ = [
    "LATER",
    "Bus",
    "BusClient",
    "BusService",
    "BusSettings",
    "MessageRecord",
]
