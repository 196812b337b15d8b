"""The collaboration protocol: agents find each other, negotiate, agree and do the work."""

from ekiden.collaboration.collaborations import (
    Collaborations as Collaborations,
    Incoming as Incoming,
    Offer as Offer,
    capability_bid as capability_bid,
    matcher_bid as matcher_bid,
    run_due as run_due,
)
from ekiden.collaboration.execution import Executor as Executor
from ekiden.collaboration.ledger import CollaborationSettings as CollaborationSettings
from ekiden.collaboration.party import Party as Party
from ekiden.collaboration.record import Collaboration as Collaboration, Terms as Terms
from ekiden.collaboration.tools import negotiation_tools as negotiation_tools
