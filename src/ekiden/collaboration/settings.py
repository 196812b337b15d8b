"""How collaborations are run."""

from __future__ import annotations

from dataclasses import dataclass

from ekiden.core.checks.fields import Checked, Count, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationSettings(Checked):
    """Settings of collaborations. Times are in seconds, on the store's clock.

    For example::

        Collaborations(bus, settings=CollaborationSettings(max_rounds=3, negotiation_s=60))
    """

    max_rounds: Count = 5
    """The most proposals, including the first."""
    bids_s: Seconds = 30.0
    """How long bids are collected."""
    negotiation_s: Seconds = 300.0
    """How long a negotiation or an answer to a request may take; after that it expires."""
    lifetime_s: Seconds = 86_400.0
    """The longest time from the start of a collaboration to its completion."""
    max_participants: Count = 256
    max_message_bytes: Count = 65_536
    """The largest message, as JSON text; larger ones are refused."""
    lease_s: Seconds = 30.0
    """How long an executor may be silent before another one takes over."""
    max_attempts: Count = 5
    """How often an unfinished execution is started before it counts as failed."""
    concurrency: Count = 16
    """Concurrent executions of one `Collaborations`."""
