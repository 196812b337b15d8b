"""What conditions can ask about a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ekiden.core.conversation.model import text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.errors import HandoffRefused
from ekiden.runtime.conversation.corrections import view_for_others
from ekiden.runtime.state.state import RunState

if TYPE_CHECKING:
    from ekiden.conditions import Evaluation

FACTS: Mapping[str, str] = {
    "agent": "the agent that has the conversation",
    "agent_seconds": "seconds of work since it has it",
    "chain": "who had the task, beginning with `user`",
    "confidence": "how sure routing was, 0 to 1; missing if nothing was routed",
    "depth": "handoffs of the task since the last message to it",
    "error_count": "errors of the run",
    "handoffs": "handoffs of the session, refused ones included",
    "requests": "model calls of the run",
    "seconds": "seconds of work of the run",
    "session": "the session's id",
    "text": "what the person said last",
    "tokens": "tokens of the run",
    "turn": "turns of the run",
}
"""What there is beside the session's variables, and under ``run.``."""


def facts_of(run: RunState) -> dict[str, Any]:
    """The session's variables, and the run's own facts under their names and under ``run.``.

    A variable hides a fact of the same name, never what stands under ``run.``.
    """
    cursor = run.cursor
    own: dict[str, Any] = {
        "agent": run.agent.name,
        "agent_seconds": run.spent_s() - cursor.handoffs.since_s,
        "chain": list(cursor.handoffs.chain),
        "depth": cursor.handoffs.depth,
        "error_count": cursor.progress.errors,
        "handoffs": cursor.handoffs.count,
        "requests": cursor.budget.usage.requests,
        "seconds": run.spent_s(),
        "session": run.session_id,
        "text": _last_text(run),
        "tokens": cursor.budget.usage.tokens,
        "turn": cursor.progress.turn,
    }
    confidence = _confidence(run)
    if confidence is not None:
        own["confidence"] = confidence
    return {**own, **run.context.variables, "run": own}


def check_condition(run: RunState, text: str) -> None:
    """`HandoffRefused` unless the condition holds now."""
    from ekiden.conditions import compile_condition

    evaluation = compile_condition(text).evaluate(
        facts_of(run), now=run.config.clock.now_us() / 1e6
    )
    if not evaluation.value:
        raise HandoffRefused(
            "CONDITIONS_NOT_MET",
            f"its condition does not hold: {evaluation.explain()}",
            details={"evaluation": shown_evaluation(run, evaluation)},
        )


def shown_evaluation(run: RunState, evaluation: Evaluation) -> dict[str, Any]:
    """How a condition came out, for events: without values where these may be sensitive."""
    if run.config.trace_include_sensitive_data:
        return evaluation.to_json()
    return {"text": evaluation.text, "value": evaluation.value, "missing": [*evaluation.missing]}


def _last_text(run: RunState) -> str:
    for item in reversed(view_for_others(run) if run.cursor.guardrails.repairs else run.visible):
        if is_request(item):
            return text_of(item)
    return ""


def _confidence(run: RunState) -> float | None:
    for event in reversed(run.events):
        if event.type == "route" and event.details:
            sure = event.details.get("confidence")
            if isinstance(sure, int | float):
                return sure / 100
    return None
