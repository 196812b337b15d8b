"""How long what is over is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention(Checked):
    """Rules for deleting old data; without any rule everything is kept.

    For example::

        Worker(store, team, retention=Retention(days=30, count=1000))
    """

    days: Annotated[float | None, Allowed(low=0.01, high=36500)] = None
    """Sessions without an event for this many days are deleted, with other data of that age; null
    keeps them."""
    count: Annotated[int | None, Allowed(low=1)] = None
    """The number of sessions to keep, newest first; null keeps all."""

    @property
    def has_rules(self) -> bool:
        """Whether anything is ever deleted."""
        return self.days is not None or self.count is not None
