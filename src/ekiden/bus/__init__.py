"""The message bus: what agents say to each other, stored before it is delivered."""

from ekiden.bus.bus import Bus
from ekiden.bus.exchange import Broadcast
from ekiden.bus.reading import MessageRecord
from ekiden.bus.seat import Seat
from ekiden.bus.serving.service import LATER, Service
from ekiden.bus.settings import BusSettings

__all__ = [
    "LATER",
    "Broadcast",
    "Bus",
    "BusSettings",
    "MessageRecord",
    "Seat",
    "Service",
]
