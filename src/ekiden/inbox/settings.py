"""Whom questions go to: `inbox` of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.questions import DEFAULT_ROLE, EscalationStep


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings(Checked):
    """What holds for items that do not say otherwise."""

    role: Annotated[str, Allowed(what="a role's name")] = DEFAULT_ROLE
    """The default role of the people to ask."""
    escalation: tuple[EscalationStep, ...] = ()
    """The next roles to ask without an answer, each after a number of seconds. It applies to items
    for ``inbox.role`` that an agent waits for and that have no chain of their own."""
