"""What a model is told that has to answer again, and what others see of the conversation then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.core.items import Item, is_message, user_message

if TYPE_CHECKING:
    from ekiden.core.guardrails import Violation
    from ekiden.runtime.state import RunState

_CORRECTION = "Your last answer was not let through. Answer again, in full, without what is wrong:"
_LISTED = 50
"""So many violations a model is told of."""


def correction(violations: Sequence[Violation]) -> Item:
    """The order to answer again, with everything that is wrong.

    It has the role of the user: what providers make of other roles in the middle of a conversation
    differs too much.
    """
    lines = [f"- {each}" for each in violations[:_LISTED]]
    if len(violations) > _LISTED:
        lines.append(f"- and {len(violations) - _LISTED} more")
    return user_message("\n".join([_CORRECTION, *lines]))


def is_request(item: Item) -> bool:
    """Whether the item is something that a person said, in a view without corrections."""
    return is_message(item) and item.get("role") == "user"


def view_for_others(run: RunState) -> list[Item]:
    """What the active agent sees, without what guardrails withhold from anybody else: drafts of
    answers, corrections, and what refused handoffs would have passed on."""
    produced = run.said_since(max(run.cursor.after, run.cursor.first))
    return [
        *run.visible[: run.history_length],
        *(item for event in produced for item in event.items),
    ]


def has_withheld(run: RunState) -> bool:
    """Whether `view_for_others` may differ from what the active agent sees."""
    return bool(run.cursor.repairs or run.agent.handoff_guardrails or run.config.handoff_guardrails)
