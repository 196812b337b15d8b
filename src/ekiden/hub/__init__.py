"""The event hub: delivers new events of a store to all subscribers in a process."""

from ekiden.hub.hub import EventHub, EventStream
from ekiden.hub.reader import HubEvent, Subscription
from ekiden.hub.tails import SessionTails, Tail

__all__ = [
    "EventHub",
    "EventStream",
    "HubEvent",
    "SessionTails",
    "Subscription",
    "Tail",
]
