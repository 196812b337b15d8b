"""Which session that is ready is taken first: a priority is a head start in the line, no more.

A session's place in the line is the time at which it became ready, less the head start of its
priority. So whoever is more important goes first, but nobody waits for ever: a session is overtaken
only by those that came at most the difference of the head starts later.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ekiden.core.errors import UserError
from ekiden.core.values import priority_number
from ekiden.storage.records import NewSession

NORMAL = 2

HEAD_START_S: Mapping[int, int] = MappingProxyType({1: -60, 2: 0, 3: 60, 4: 600})
"""By priority: low (1), normal (2), high (3), urgent (4)."""


def check_priority(new: NewSession) -> int:
    """The priority of a new session; `UserError` if it is none."""
    if isinstance(new.priority, str):
        raise UserError(f"a stored priority is a number, 1 to 4, not {new.priority!r:.40}")
    return priority_number(new.priority)


def head_start_us(priority: int) -> int:
    """So many microseconds before it came a session is in the line."""
    return HEAD_START_S.get(priority, 0) * 1_000_000


def head_start_sql(priority: str) -> str:
    """Its head start in seconds, as SQL; `priority` is a column or a parameter."""
    cases = " ".join(f"when {number} then {start}" for number, start in HEAD_START_S.items())
    return f"case {priority} {cases} else 0 end"
