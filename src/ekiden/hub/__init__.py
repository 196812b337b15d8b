"""The event hub: everybody in a process who wants to see events as they happen reads it."""

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
