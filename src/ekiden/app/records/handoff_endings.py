"""Where sessions stand after handoffs that people and programs asked for, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import HandoffNotFound
from ekiden.core.handoff_record import HandoffResult
from ekiden.core.items import is_message, text_of
from ekiden.handoff.records import read_handoff
from ekiden.sessions import said
from ekiden.storage.base import SessionRow, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Where a session stands after a handoff that was asked for."""

    row: SessionRow
    speaker: str | None
    """Who said the answer; `None` if there is none, or the session is being run."""
    answer: str | None
    problem: tuple[str, str] | None
    """Code and message, if the run that followed failed."""


async def ending_of(store: Store, session_id: str, result: HandoffResult) -> Ending:
    """What came after the handoff."""
    row = await store.get(session_id)
    try:
        record = await read_handoff(store, result.request_id)
    except HandoffNotFound:  # only the request for it is known
        return Ending(row=row, speaker=None, answer=None, problem=None)
    if not record.is_made:
        return Ending(row=row, speaker=None, answer=None, problem=None)
    events = await store.events(session_id, after=record.moves[0].seq)
    is_over = row.outcome is not None and row.owner is None
    speaker = answer = problem = None
    if is_over:
        for event in said(events):
            texts = [text_of(item) for item in event.items if _is_answer(item)]
            if any(texts):
                speaker, answer = event.agent, "\n".join(filter(None, texts))
    if is_over and row.outcome not in ("done", "waiting"):
        failed = next((each for each in reversed(events) if each.type == "agent_error"), None)
        code = (failed.details or {}).get("code") if failed is not None else None
        error = failed.error if failed is not None else None
        problem = (code or f"run.{row.outcome}", error or f"the run ended: {row.outcome}")
    return Ending(row=row, speaker=speaker, answer=answer, problem=problem)


def start_record(result: HandoffResult, end: Ending) -> dict[str, Any]:
    """A handoff that was asked for and what came after it, as `ekiden handoff start` tells it."""
    return {
        "id": result.request_id,
        "session_id": end.row.id,
        **_fields(result),
        "agent": end.row.agent,
        "outcome": end.row.outcome,
        "speaker": end.speaker,
        "output": end.answer,
    }


def cancel_record(handoff_id: str, result: HandoffResult) -> dict[str, Any]:
    """What became of a handoff that was to be cancelled, as `ekiden handoff cancel` tells it."""
    return {"id": handoff_id, **_fields(result)}


def _fields(result: HandoffResult) -> dict[str, Any]:
    return {name: value for name, value in result.to_json().items() if name != "request_id"}


def _is_answer(item: Any) -> bool:
    return is_message(item) and item.get("role") == "assistant"
