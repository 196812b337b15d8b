"""The life of an item: which changes there are, and what time does to it.

An open item is answered, cancelled, or comes to its deadline, once; until then it can be assigned
and snoozed, and goes along its escalation chain. What time does follows from the item and the clock
alone, so everybody who looks at an item sees the same, whether or not somebody wrote it down yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ekiden.core.questions import NOBODY, InboxAnswer, InboxItem

ChangeName: TypeAlias = Literal[
    "posted", "assigned", "snoozed", "back", "escalated", "answered", "expired", "cancelled"
]
"""What can happen to an item; `back`: the end of a snooze."""

CLOCK = "clock"
"""From where a change came that time made."""
_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that happened to an item."""

    name: ChangeName
    item: InboxItem
    """As it is afterwards."""
    by: str
    via: str
    at_us: int
    edited: bool = False
    """For `answered`: the person changed the arguments."""


def is_snoozed(item: InboxItem, now_us: int) -> bool:
    """Whether it is hidden for now."""
    return item.snoozed_until_us is not None and item.snoozed_until_us > now_us


def next_due_us(item: InboxItem) -> int | None:
    """When time changes it next; `None`: never."""
    return None if item.status != "open" else min(_times(item), default=None)


def due_changes(item: InboxItem, now_us: int) -> list[Change]:
    """What time did to an item by now, in order; each at the time it was due."""
    changes: list[Change] = []
    while True:
        due = next_due_us(item)
        if due is None or due > now_us:
            return changes
        change = _due_change(item, due)
        changes.append(change)
        item = change.item


def closed(
    item: InboxItem,
    *,
    status: Literal["answered", "expired", "cancelled"],
    by: str,
    at_us: int,
    reason: str = "",
    answer: InboxAnswer | None = None,
) -> InboxItem:
    """The item at its end."""
    return replace(
        item,
        status=status,
        answer=answer,
        closed_at_us=at_us,
        closed_by=by,
        reason=reason,
        snoozed_until_us=None,
    )


def escalation_start_us(item: InboxItem) -> int | None:
    """When an item that begins now goes to the first of its chain."""
    if item.escalate_at_us is not None or not item.chain:
        return item.escalate_at_us
    return item.created_at_us + round(item.chain[0].after_s * _US)


def _times(item: InboxItem) -> list[int]:
    times = (
        item.deadline_us,
        item.escalate_at_us if item.chain else None,
        item.snoozed_until_us,
    )
    return [each for each in times if each is not None]


def _due_change(item: InboxItem, due: int) -> Change:
    if item.deadline_us == due:
        return _over(item, due)
    if item.chain and item.escalate_at_us == due:
        return _escalated(item, due)
    back = replace(item, snoozed_until_us=None)
    return Change(name="back", item=back, by=NOBODY, via=CLOCK, at_us=due)


def _over(item: InboxItem, due: int) -> Change:
    answer = None
    if item.default is not None:
        answer = InboxAnswer(
            choice=item.default if item.options else "",
            text="" if item.options else item.default,
            by=NOBODY,
            at_us=due,
            via=CLOCK,
        )
    after = closed(
        item, status="expired", by=NOBODY, at_us=due, reason="no answer in time", answer=answer
    )
    return Change(name="expired", item=after, by=NOBODY, via=CLOCK, at_us=due)


def _escalated(item: InboxItem, due: int) -> Change:
    """To the next role: an assignment or a snooze ends."""
    step, *rest = item.chain
    after = replace(
        item,
        role=step.role,
        assignee=None,
        snoozed_until_us=None,
        chain=tuple(rest),
        escalate_at_us=due + round(rest[0].after_s * _US) if rest else None,
    )
    return Change(name="escalated", item=after, by=NOBODY, via=CLOCK, at_us=due)
