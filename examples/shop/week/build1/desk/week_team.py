"""The team of the week: the desk, and agents that only the week needs."""

from __future__ import annotations

from ekiden import Team, load_team

from .intruder import intruder
from .payouts import payouts, till

_desk = load_team("desk.team:team")
team = Team(*_desk, intruder, payouts, till, entry=_desk.entry.name)
