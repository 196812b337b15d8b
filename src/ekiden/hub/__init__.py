"""The event hub: delivers new events of a store to all subscribers in a process."""

from ekiden.hub.hub import EventHub as EventHub, SessionTails as SessionTails, Tail as Tail
from ekiden.hub.reader import (
    EventStream as EventStream,
    HubEvent as HubEvent,
    Subscription as Subscription,
)
