"""How collaborations are run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ekiden.core.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationSettings:
    """Times are in seconds, on the store's clock.

    For example::

        Collaborations(bus, settings=CollaborationSettings(max_rounds=3, negotiation_s=60))
    """

    max_rounds: int = 5
    """So many terms may be put on the table, the first included."""
    bids_s: float = 30.0
    """How long bids are collected."""
    negotiation_s: float = 300.0
    """How long a negotiation or an answer to a request may take; then it is expired."""
    lifetime_s: float = 86_400.0
    """How long a collaboration may take from its beginning to its completion."""
    max_participants: int = 256
    max_message_bytes: int = 65_536
    """As JSON text; what is bigger is refused."""
    lease_s: float = 30.0
    """If whoever executes an agreement says nothing for so long, another one does it."""
    max_attempts: int = 5
    """So often an execution is begun that nobody finished, before it counts as failed."""
    concurrency: int = 16
    """So many agreements are executed at once by one `Collaborations`."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not (math.isfinite(value) and value > 0):
                raise UserError(
                    f"`{each.name}` of a collaboration must be a number above 0, not {value!r:.40}"
                )
