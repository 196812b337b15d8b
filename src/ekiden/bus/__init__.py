"""The message bus: messages between agents, stored before delivery."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.bus.bus import Bus as Bus, BusClient as BusClient
    from ekiden.bus.messages import MessageRecord as MessageRecord
    from ekiden.bus.parts import BusSettings as BusSettings
    from ekiden.bus.service import LATER as LATER, BusService as BusService

__getattr__ = lazy_names(__name__)
