"""What a model is told that has to answer again, and what others see of the conversation then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.core.conversation.model import Item, user_message
from ekiden.core.conversation.quotes import quote
from ekiden.core.events import Event

if TYPE_CHECKING:
    from ekiden.core.guardrails import Violation
    from ekiden.runtime.state.state import RunState

_CORRECTION = "Your last answer was not let through. Answer again, in full, without what is wrong:"
_ROLLED_BACK = (
    "[Notice of the system, not of the person] The handoff to {target} was made without a call of "
    "yours and rolled back: {reason}. You have the conversation again; go on with it."
)
UNDONE = "undone"
"""In the message that begins a run: handoffs whose rollback ended the run before."""
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


def rollback_notices(run: RunState) -> list[Item]:
    """What the active agent is told of its handoffs that were rolled back since its last answer,
    and that no call of its own is answered with: triggers, people and programs made them.

    It is no part of the conversation, which is as it was before the handoff.
    """
    notices: list[Item] = []
    undone_from = run.next_seq
    run.looks_for_undone = False
    for event in reversed(run.events):
        if event.type == "llm_call" and event.seq < undone_from:
            break
        details = event.details
        if not details or event.seq >= undone_from:
            continue
        if event.type == "handoff" and "undoes" in details:
            undone_from = details["undoes"][0]
            run.looks_for_undone = True
            if details["from"] == run.agent.name and not event.items:
                notices.append(_notice(undone_told(event)))
        elif event.type == "message" and UNDONE in details:
            run.looks_for_undone = True
            notices += map(_notice, reversed(details[UNDONE]))
    notices.reverse()
    return notices


def undone_told(event: Event) -> list[str]:
    """Whom a handoff that was rolled back led to, and what its source is told of it."""
    details = event.details or {}
    left_over = details.get("not_compensated")
    more = f". {not_undone(left_over)}" if left_over else ""
    return [details["to"], f"{event.error}{more}"]


def not_undone(left_over: Sequence[str]) -> str:
    """What the source is told of effects that stay."""
    return f"Not undone, and left to people: {', '.join(left_over)}"


def _notice(told: Sequence[str]) -> Item:
    target, reason = told
    return user_message(_ROLLED_BACK.format(target=target, reason=quote(reason)))


def view_for_others(run: RunState) -> list[Item]:
    """What the active agent sees, without what guardrails withhold from anybody else: drafts of
    answers, corrections, and what refused handoffs would have passed on."""
    produced = run.said_since(max(run.cursor.view.after, run.cursor.progress.first))
    return [
        *run.visible[: run.history_length],
        *(item for event in produced for item in event.items),
        *run.brought,
    ]


def has_withheld(run: RunState) -> bool:
    """Whether `view_for_others` may differ from what the active agent sees."""
    return bool(
        run.cursor.guardrails.repairs
        or run.agent.handoff_guardrails
        or run.config.handoff_guardrails
    )
