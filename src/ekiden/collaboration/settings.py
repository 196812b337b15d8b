"""How collaborations are run."""

from __future__ import annotations

from dataclasses import dataclass

from ekiden.core.checks.fields import Checked, Count, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationSettings(Checked):
    """Times are in seconds, on the store's clock.

    For example::

        Collaborations(bus, settings=CollaborationSettings(max_rounds=3, negotiation_s=60))
    """

    max_rounds: Count = 5
    """So many terms may be put on the table, the first included."""
    bids_s: Seconds = 30.0
    """How long bids are collected."""
    negotiation_s: Seconds = 300.0
    """How long a negotiation or an answer to a request may take; then it is expired."""
    lifetime_s: Seconds = 86_400.0
    """How long a collaboration may take from its beginning to its completion."""
    max_participants: Count = 256
    max_message_bytes: Count = 65_536
    """As JSON text; what is bigger is refused."""
    lease_s: Seconds = 30.0
    """If whoever executes an agreement says nothing for so long, another one does it."""
    max_attempts: Count = 5
    """So often an execution is begun that nobody finished, before it counts as failed."""
    concurrency: Count = 16
    """So many agreements are executed at once by one `Collaborations`."""
