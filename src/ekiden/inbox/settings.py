"""Whom questions go to: `inbox` of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.questions.inbox_item import DEFAULT_ROLE, EscalationStep


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings(Checked):
    """Defaults for inbox items."""

    role: Annotated[str, Allowed(what="a role's name")] = DEFAULT_ROLE
    """The default role: the people to ask if the agent names no other role."""
    escalation: tuple[EscalationStep, ...] = ()
    """Roles to ask next, each after so many seconds without an answer: for items to the default
    role that an agent waits for and that have no escalation of their own."""
