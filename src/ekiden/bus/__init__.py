"""The message bus: messages between agents, stored before delivery."""

from ekiden.bus.bus import Bus
from ekiden.bus.client import BusClient
from ekiden.bus.message_views import MessageRecord
from ekiden.bus.serving.service import LATER, Service
from ekiden.bus.settings import BusSettings

__all__ = [
    "LATER",
    "Bus",
    "BusClient",
    "BusSettings",
    "MessageRecord",
    "Service",
]
