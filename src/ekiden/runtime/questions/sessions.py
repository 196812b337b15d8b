"""Creates the session in which an agent works on a question or a notice of another agent."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.conversation.model import user_message
from ekiden.core.events import PRIVATE, Event
from ekiden.core.questions import Ask
from ekiden.core.values import dumps, new_id
from ekiden.runtime.state.budget import (
    SHARED_BUDGETS,
    budget_of,
    is_budget,
    open_shared_budgets,
    own_limits,
)
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import NewSession, SessionOpening
from ekiden.storage.records import NORMAL

QUERY_TIMER = "query"
"""The kind of the timers that end questions to agents."""
ANSWERS = "answers"
"""The key in a session's meta with the id of the message that the session's outcome answers."""
OWN_LIMITS = "own_limits"
"""The key in a session's meta with the limits that the question sets, by name."""
FIXED_LIMITS = "fixed_limits"
"""The key in a session's meta with the limits of the asking run that a resume cannot raise."""
_MAX_TITLE = 120


def question_session(run: RunState, message: AgentMessage, question: Ask) -> SessionOpening:
    """Create a session of the asked agent. The outcome of this session is the answer.

    The session has the priority of the question, or by default that of the asking session. It has
    the limits of the question. All sessions that the run asks share the rest of the run's own
    limits.
    """
    meta = {**_meta(run, message), ANSWERS: message.id}
    shared_budgets = open_shared_budgets(run)
    if shared_budgets:
        meta[SHARED_BUDGETS] = shared_budgets
    if own := own_limits(question.budget, question.max_turns):
        meta[OWN_LIMITS] = own
    if fixed := _fixed_limits(run):
        meta[FIXED_LIMITS] = fixed
    return session_for(
        message,
        session_id=new_id("ask"),
        meta=meta,
        user_id=run.user_id,
        priority=_priority(run, message),
        words=question.words,
        budget=budget_of(run, question.budget, question.max_turns),
        is_private=not run.config.trace_include_sensitive_data,
    )


def notice_session(run: RunState, message: AgentMessage) -> SessionOpening:
    """Create a session of the agent that gets a notice."""
    return session_for(
        message,
        session_id=new_id("told"),
        meta=_meta(run, message),
        user_id=run.user_id,
        priority=_priority(run, message),
        is_private=not run.config.trace_include_sensitive_data,
    )


def session_for(
    message: AgentMessage,
    *,
    session_id: str,
    meta: dict[str, Any],
    user_id: str | None = None,
    priority: int | None = None,
    words: str | None = None,
    budget: dict[str, float] | None = None,
    is_private: bool = False,
) -> SessionOpening:
    """Create a ready session of the message's recipient, which begins with the message.

    Without `words`, the text of the message is made from its fields. The default of `priority` is
    the priority of the message. With `is_private`, no trace shows the content.
    """
    assert message.to_agent is not None
    received = {"from": message.from_agent, "reason": message.subject}
    if message.payload is not None:
        payload = message.payload
        received["context"] = payload if isinstance(payload, str) else dumps(payload)
    cursor = Cursor().next_run(agent=message.to_agent, first=1)
    cursor.handoffs.received = received if words is None else None
    cursor.budget.narrowed = budget or {}
    details: dict[str, Any] = {"message": {**message.to_json(), "payload": None}}
    if is_private:
        details[PRIVATE] = True
    first = Event(
        session_id=session_id,
        seq=1,
        type="message",
        at_us=int(message.created_at * 1e6),
        agent=message.to_agent,
        items=(user_message(_wording(message) if words is None else words),),
        details=details,
    )
    return SessionOpening(
        new=NewSession(
            id=session_id,
            agent=message.to_agent,
            status="ready",
            user_id=user_id,
            meta=meta,
            priority=message.priority if priority is None else priority,
        ),
        events=(first,),
        cursor=cursor.to_json(),
    )


def bus_session_id(queue: str, message_id: str) -> str:
    """The id of the session for a message from the bus. Each delivery of the message gives the same
    id."""
    digest = blake2b(f"{queue}/{message_id}".encode("utf-8", "surrogatepass"), digest_size=12)
    return f"bus_{digest.hexdigest()}"


def _fixed_limits(run: RunState) -> list[str]:
    """The limits of the run that come from the budget of a handoff, an agent or a question."""
    own, fixed = run.meta.get(OWN_LIMITS, {}), run.meta.get(FIXED_LIMITS, ())
    return [
        name
        for name in ("tokens", "seconds", "money")
        if is_budget(run, name, is_own=name in own or name in fixed)
    ]


def _priority(run: RunState, message: AgentMessage) -> int:
    return run.priority if message.priority == NORMAL else message.priority


def _meta(run: RunState, message: AgentMessage) -> dict[str, Any]:
    return {
        "title": message.subject[:_MAX_TITLE],
        "task_id": message.task or run.task_id,
        "correlation_id": run.correlation_id,
        "asked_by": message.from_agent,
        "asked_in": run.session_id,
        "ask_depth": message.depth,
    }


def _wording(message: AgentMessage) -> str:
    """The text of the message for the recipient: the sender, and the payload as a fenced quote."""
    kind = "question" if message.type == "query" else "message"
    payload = message.payload
    text = payload if isinstance(payload, str) else "" if payload is None else dumps(payload)
    fence = "```"
    while fence in text:
        fence += "`"
    subject = f": {message.subject!r}" if message.subject else "."
    parts = [
        f"The agent {message.from_agent!r} has a {kind} for you{subject}",
        *([f"{fence}\n{text}\n{fence}"] if text else []),
    ]
    if message.type == "query":
        parts.append("Your answer goes to that agent.")
    return "\n\n".join(parts)
