"""Errors between a worker and a Temporal cluster."""

from __future__ import annotations

from ekiden.core.errors import EkidenError


class TemporalUnavailable(EkidenError):
    """No Temporal server answers at the address."""

    code = "temporal.unavailable"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"no Temporal server answers at {address}: {reason}; start one with "
            "`temporal server start-dev`, or name another with --address"
        )
        self.address = address
