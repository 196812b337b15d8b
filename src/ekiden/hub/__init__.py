"""The event hub: delivers new events of a store to all subscribers in a process."""

from ekiden.hub.hub import EventHub as EventHub, EventStream as EventStream
from ekiden.hub.reader import HubEvent as HubEvent, Subscription as Subscription
from ekiden.hub.tails import SessionTails as SessionTails, Tail as Tail
