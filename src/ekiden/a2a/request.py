"""What a remote agent is told when it gets a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.core.items import is_message, text_of

if TYPE_CHECKING:
    from ekiden.runtime import CodeContext

_MAX_BEFORE = 20_000
_WORDS = (("reason", "Why"), ("summary", "Summary"), ("context", "Context"))


def handed_text(ctx: CodeContext[Any], *, is_new: bool) -> str:
    """What the person said last; after a handoff (`is_new`) also what the source passed along and
    what was said before, as far as the handoff lets the agent see it."""
    parts = [ctx.text]
    received = ctx.received
    if is_new and received:
        told = [f"{word}: {received[key]}" for key, word in _WORDS if received.get(key)]
        parts.append("\n".join([f"Handed over by {received['from']}.", *told]))
    if is_new and (before := _before(ctx)):
        parts.append(f"What was said before:\n{before}")
    return "\n\n".join(filter(None, parts))


def _before(ctx: CodeContext[Any]) -> str:
    """The conversation without what was said last; its end, if it is long."""
    said = [item for item in ctx.items if is_message(item) and text_of(item)]
    lines = [f"{item['role']}: {text_of(item)}" for item in said]
    last = next((i for i in reversed(range(len(said))) if said[i]["role"] == "user"), None)
    if last is not None:
        del lines[last]
    return "\n".join(lines)[-_MAX_BEFORE:]
