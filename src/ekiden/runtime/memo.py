"""Results of the turn under way that are stored: what was computed once is not computed again."""

from __future__ import annotations

from typing import Any

from ekiden.core.events import Event
from ekiden.runtime.state import RunState


async def load_memo(run: RunState) -> None:
    """Read what is stored of the turn under way into `run.memo`, and what others may have changed
    while it waited."""
    await run.learn_shared()
    prefix = run.step_key("")
    run.memo = {
        **await run.store.steps(run.session_id, prefix=prefix),
        **{
            event.step: _replay(event)
            for event in run.events
            if event.step and event.step.startswith(f"{prefix}c")
        },
    }


def _replay(event: Event) -> tuple[Any, ...]:
    """What a code agent's call gave, and what it was, from the event that recorded it."""
    call, output = event.items
    is_json = bool((event.details or {}).get("json"))
    return output["output"], event.error, is_json, call["name"], call["arguments"]
