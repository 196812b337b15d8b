"""The message bus: what agents say to each other, stored before it is delivered."""

from ekiden.bus.bus import Bus
from ekiden.bus.reading import MessageRecord
from ekiden.bus.seat import Seat
from ekiden.bus.serving.service import LATER, Service
from ekiden.bus.settings import BusSettings

__all__ = [
    "LATER",
    "Bus",
    "BusSettings",
    "MessageRecord",
    "Seat",
    "Service",
]
