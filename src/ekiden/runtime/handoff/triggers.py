"""Evaluates the triggers of handoffs, and makes the handoff of a trigger that fires."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import error_names
from ekiden.core.handoffs import Actor, Handoff, HandoffTrigger
from ekiden.core.values import dumps
from ekiden.runtime.conversation import facts_of, shown_evaluation
from ekiden.runtime.handoff.controller import carry_out, store_refusal
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.state import RunState

_log = logging.getLogger("ekiden.triggers")


@dataclass(slots=True, kw_only=True, eq=False)
class _Fired:
    place: int
    edge: Handoff[Any, Any]
    trigger: HandoffTrigger
    why: dict[str, Any]


def watched(run: RunState) -> list[tuple[int, Handoff[Any, Any], HandoffTrigger]]:
    """The active agent's handoffs whose triggers have not fired yet, with their indexes."""
    found: list[tuple[int, Any, HandoffTrigger]] = []
    for place, edge in enumerate(run.agent.handoffs):
        trigger = edge.terms.trigger if isinstance(edge, Handoff) else None
        if trigger is not None and place not in run.cursor.triggers.fired:
            found.append((place, edge, trigger))
    return found


async def look_at_triggers(run: RunState) -> bool:
    """Evaluate the triggers after a step, and return whether a trigger handed over the run.

    Each trigger fires at most once while the agent has the run. After a rollback the remaining
    triggers are evaluated again with the same facts.
    """
    published, errors = run.cursor.triggers.published, run.cursor.triggers.tool_errors
    fired = []
    for place, edge, trigger in watched(run) if run.agent.handoffs else ():
        why = _reason(run, place, trigger, published, errors)
        if why is not None:
            fired.append(_Fired(place=place, edge=edge, trigger=trigger, why=why))
    # Events and errors are kept if a handoff was made: after its rollback the other triggers need
    # them again.
    if await _fire(run, fired):
        return True
    run.cursor.triggers = run.cursor.triggers.checked()
    return False


async def fire_for_error(run: RunState, exc: Exception) -> bool:
    """Evaluate the triggers of type `error` after a failed step, and return whether a trigger
    handed over the run."""
    if not run.agent.handoffs:
        return False
    names = error_names(exc)
    fired = [
        _Fired(place=place, edge=edge, trigger=trigger, why={"error": names[0]})
        for place, edge, trigger in watched(run)
        if trigger.type == "error" and _matches(trigger, names)
    ]
    return await _fire(run, fired)


async def fire_for_time(run: RunState) -> bool:
    """Evaluate the triggers of type `timeout`. At least the trigger with the next timeout fires."""
    timed = [
        (place, edge, trigger, trigger.seconds)
        for place, edge, trigger in watched(run)
        if trigger.type == "timeout" and trigger.seconds is not None
    ]
    if not timed:
        return False
    # The event loop's timer may fire slightly before the run's clock reaches the time; the next
    # trigger must fire anyway.
    spent = max(run.spent_s() - run.cursor.handoffs.since_s, min(seconds for *_, seconds in timed))
    fired = [
        _Fired(place=place, edge=edge, trigger=trigger, why={"seconds": round(spent, 3)})
        for place, edge, trigger, seconds in timed
        if spent >= seconds
    ]
    return await _fire(run, fired)


def seconds_to_trigger(run: RunState) -> float | None:
    """Seconds of work until the next trigger of type `timeout` fires; `None` if there is no such
    trigger."""
    if not run.agent.handoffs:
        return None
    due = [
        trigger.seconds
        for _, _, trigger in watched(run)
        if trigger.type == "timeout" and trigger.seconds is not None
    ]
    return min(due) - (run.spent_s() - run.cursor.handoffs.since_s) if due else None


def _matches(trigger: HandoffTrigger, names: Sequence[str]) -> bool:
    return not trigger.errors or any(name in trigger.errors for name in names)


def _reason(
    run: RunState,
    place: int,
    trigger: HandoffTrigger,
    published: Sequence[str],
    errors: Sequence[str],
) -> dict[str, Any] | None:
    """Why the trigger fires now; `None` if it does not."""
    match trigger.type:
        case "condition":
            return _condition(run, place, trigger)
        case "event":
            return {"event": trigger.event} if trigger.event in published else None
        case "error":
            return _tool_error(trigger, errors)
        case "capability":
            return _capability(run, trigger)
        case "timeout":
            spent = run.spent_s() - run.cursor.handoffs.since_s
            is_over = trigger.seconds is not None and spent >= trigger.seconds
            return {"seconds": round(spent, 3)} if is_over else None
        case "explicit":
            return None


def _tool_error(trigger: HandoffTrigger, tool_errors: Sequence[str]) -> dict[str, Any] | None:
    """The first tool error that matches the trigger; an error text begins with its class names."""
    for tool_error in tool_errors:
        names, _, message = tool_error.partition(": ")
        if _matches(trigger, names.split("|")):
            return {"error": message or names}
    return None


def _condition(run: RunState, place: int, trigger: HandoffTrigger) -> dict[str, Any] | None:
    from ekiden.conditions import compile_condition

    condition = compile_condition(trigger.expression or "")
    evaluation = condition.evaluate(facts_of(run), now=run.config.clock.now_us() / 1e6)
    if evaluation.value:
        return {"evaluation": shown_evaluation(run, evaluation)}
    decided = str([each.value for each in evaluation.trace if isinstance(each.value, bool)])
    if run.trigger_notes.get(place) != decided:
        # Recorded the first time, and whenever the result of a part changes: this answers the
        # question why a trigger did not fire.
        run.trigger_notes[place] = decided
        details: dict[str, Any] = {"trigger": str(trigger), "fired": False}
        details["evaluation"] = shown_evaluation(run, evaluation)
        run.record("message", details=details)
    return None


def _capability(run: RunState, trigger: HandoffTrigger) -> dict[str, Any] | None:
    from ekiden.capabilities import missing_capabilities

    missing = missing_capabilities(trigger.capabilities, run.agent.capabilities)
    return {"missing": list(missing)} if missing else None


async def _fire(run: RunState, fired: list[_Fired]) -> bool:
    """Try the handoffs of these triggers, highest priority first, until one is made."""
    fired.sort(key=lambda each: (-each.trigger.priority, each.place))
    for each in fired:
        also = [other.edge.agent_name for other in fired if other is not each]
        why = {"type": each.trigger.type, **each.why, **({"also": also} if also else {})}
        attempt = Attempt(
            edge=each.edge,
            arguments=dumps({"reason": f"trigger {each.trigger}"}),
            by=Actor(kind="trigger", name=str(each.trigger)),
            why=why,
            place=each.place,
        )
        _log.debug("%s: trigger %s fires", run.session_id, each.trigger)
        if await carry_out(run, attempt):
            return True
        # Stored before the next one is tried, so that each attempt has its own record.
        await store_refusal(run)
    return False
