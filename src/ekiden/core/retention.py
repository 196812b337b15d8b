"""How long what is over is kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What may be let go of; without any rule everything is kept.

    For example::

        Worker(store, team, retention=Retention(days=30, count=1000))
    """

    days: float | None = None
    """Sessions that nothing happened in for so long, and what is as old beside them."""
    count: int | None = None
    """All sessions but so many, the newest."""

    @property
    def has_rules(self) -> bool:
        """Whether anything is ever let go of."""
        return self.days is not None or self.count is not None
