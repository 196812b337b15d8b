"""Answers to queries as they are stored: a payload, or the error of whoever was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.core.errors import EkidenError
from ekiden.core.message_errors import BusError, DeadlockError, QueryFailed, QueryTimeout
from ekiden.core.messages import AgentMessage

_MAX_ERROR = 2_000


def answer_json(payload: Any) -> dict[str, Any]:
    """An answer."""
    return {"payload": payload}


def error_json(error: str, *, code: str) -> dict[str, Any]:
    """The error of whoever was asked."""
    return {"error": error[:_MAX_ERROR], "code": code}


def exception_json(exc: BaseException) -> dict[str, Any]:
    """An exception of whoever was asked."""
    if isinstance(exc, EkidenError):
        return error_json(str(exc), code=exc.code)
    try:
        text = str(exc)
    except Exception:
        text = "(it cannot be shown)"
    return error_json(f"{type(exc).__name__}: {text}", code="bus.handler_failed")


def deadlock_json(cycle: list[str], *, victim: str) -> dict[str, Any]:
    """The end of a wait that was given up because of a deadlock."""
    shown = " waits for ".join(cycle)
    return {**error_json(f"deadlock: {shown}", code=DeadlockError.code), "cycle": cycle,
            "victim": victim}  # fmt: skip


def error_of(answer: Mapping[str, Any], query: AgentMessage) -> BusError | None:
    """What is raised at the asker's for a stored answer; `None` if it is a good one."""
    error = answer.get("error")
    if error is None:
        return None
    cycle = answer.get("cycle")
    if cycle is not None:
        return DeadlockError(cycle, victim=answer.get("victim", ""), message_id=query.id)
    return QueryFailed(
        query.to_agent or "", error, error_code=answer.get("code", ""), message_id=query.id
    )


def timeout_of(query: AgentMessage) -> QueryTimeout:
    """What is raised when no answer came in time."""
    return QueryTimeout(
        query.from_agent, query.to_agent or "", query.timeout_seconds, message_id=query.id
    )
