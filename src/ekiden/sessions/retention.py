"""Rules for deleting old sessions."""

from __future__ import annotations

from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention(Checked):
    """Rules for deleting old data. Without any rule, everything is kept.

    For example::

        Worker(store, team, retention=Retention(days=30, count=1000))
    """

    days: Annotated[float | None, Allowed(low=0.01, high=36500)] = None
    """Sessions without a new event for this many days are deleted, together with other data of that
    age. With null, nothing is deleted because of its age."""
    count: Annotated[int | None, Allowed(low=1)] = None
    """The number of most recent sessions to keep; older sessions are deleted. With null, the number
    of sessions is not limited."""

    @property
    def has_rules(self) -> bool:
        """Whether there is any rule."""
        return self.days is not None or self.count is not None
