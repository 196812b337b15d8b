"""Whom questions go to: `inbox` of the settings."""

from __future__ import annotations

from dataclasses import dataclass

from ekiden.core.inbox_item import DEFAULT_ROLE, EscalationStep


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings:
    """What holds for items that do not say otherwise."""

    role: str = DEFAULT_ROLE
    """Who is asked, by role, where an item names no other."""
    escalation: tuple[EscalationStep, ...] = ()
    """Whom to ask next if nobody answers: for items to that role that somebody waits for, and that
    have no chain of their own."""
