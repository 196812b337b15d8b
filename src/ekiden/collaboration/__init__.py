"""The collaboration protocol: agents that find each other, negotiate, agree and do it."""

from ekiden.collaboration.bidding import BidFunction, Offer, capability_bid, matcher_bid
from ekiden.collaboration.collaborations import Collaborations
from ekiden.collaboration.execution import Executor
from ekiden.collaboration.party import Party
from ekiden.collaboration.protocol.moves import Move, Phase
from ekiden.collaboration.protocol.record import (
    AgreedTerms,
    Bid,
    Collaboration,
    CollaborationOutcome,
    ProtocolMessage,
    Terms,
)
from ekiden.collaboration.reception import Incoming
from ekiden.collaboration.settings import CollaborationSettings
from ekiden.collaboration.tools import negotiation_tools
from ekiden.collaboration.upkeep import run_due

__all__ = [
    "AgreedTerms",
    "Bid",
    "BidFunction",
    "Collaboration",
    "CollaborationOutcome",
    "CollaborationSettings",
    "Collaborations",
    "Executor",
    "Incoming",
    "Move",
    "Offer",
    "Party",
    "Phase",
    "ProtocolMessage",
    "Terms",
    "capability_bid",
    "matcher_bid",
    "negotiation_tools",
    "run_due",
]
