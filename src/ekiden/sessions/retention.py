"""How long what is over is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention(Checked):
    """What may be let go of; without any rule everything is kept.

    For example::

        Worker(store, team, retention=Retention(days=30, count=1000))
    """

    days: Annotated[float | None, Allowed(low=0.01, high=36500)] = None
    """Sessions in which nothing happened for so many days are removed, with what is as old beside
    them; null keeps them."""
    count: Annotated[int | None, Allowed(low=1)] = None
    """Only so many sessions are kept, the newest; null keeps all."""

    @property
    def has_rules(self) -> bool:
        """Whether anything is ever let go of."""
        return self.days is not None or self.count is not None
