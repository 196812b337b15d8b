"""The collaboration protocol: agents find each other, negotiate, agree and do the work."""

from ekiden.collaboration.collaborations import Collaborations, run_due
from ekiden.collaboration.execution import Executor
from ekiden.collaboration.ledger import CollaborationSettings
from ekiden.collaboration.party import Party
from ekiden.collaboration.protocol.record import (
    Collaboration,
    Terms,
)
from ekiden.collaboration.reception import Incoming, Offer, capability_bid, matcher_bid
from ekiden.collaboration.tools import negotiation_tools

__all__ = [
    "Collaboration",
    "CollaborationSettings",
    "Collaborations",
    "Executor",
    "Incoming",
    "Offer",
    "Party",
    "Terms",
    "capability_bid",
    "matcher_bid",
    "negotiation_tools",
    "run_due",
]
