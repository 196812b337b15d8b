"""What a run waits for, as spans: questions to agents and to people, and tasks of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ekiden.core.events import Event
from ekiden.tracing.building.parts import SpanDraft, part, split_details, text
from ekiden.tracing.building.scene import SessionSpans
from ekiden.tracing.spans import session_span_id

_AGGREGATION: Final = "\0aggregation"


def take_question(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """An agent asked or told another one something."""
    is_asked = "asks" in details
    told = part(details.get("asks" if is_asked else "tells"))
    message = told.get("id")
    name = f"{'ask' if is_asked else 'tell'} {text(told.get('to'), '?')}"
    key = f"ask/{message}" if isinstance(message, str) else None
    if key is not None and key in scene.known:
        key = None
    stay = scene.working_stay(event)
    task = scene.latest_task
    is_of_task = task is not None and task.last == event.seq - 1
    parent = task if task is not None and is_of_task and task.end is None else stay
    asked = scene.new(event, "message", name, parent=parent, key=key)
    if key is not None:
        scene.known[key] = asked
    session = told.get("session")
    if isinstance(session, str):
        asked.links = (session_span_id(session),)
    if is_asked and isinstance(message, str):
        asked.status = "waiting"
        scene.waits[message] = asked
        parent.hold(asked)
    else:
        scene.end(asked)


def take_answer(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """The answer came, or the question ended without one."""
    told = part(details.get("answer"))
    scene.working_run(event)
    asked = scene.waits.pop(told["id"], None) if isinstance(told.get("id"), str) else None
    if asked is None:
        name = f"answer of {text(told.get('from'), '?')}"
        scene.moment(event, "message", name, parent=scene.working_stay(event))
        return
    scene.tells_of(event, asked)
    facts, words = split_details(details)
    asked.tell(event.seq, facts, words)
    state = text(told.get("state"), "answered")
    if event.error is not None or state != "answered":
        asked.fail(event.error or f"the question was {state}")
    scene.end(asked)


def take_inbox(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Something is put before people, or was decided."""
    found = details.get("item")
    item = found if isinstance(found, str) else ""
    if "status" in details:
        _take_decision(scene, event, details, scene.waits.pop(item, None))
        return
    parent = scene.session if scene.run is None else scene.working_stay(event)
    name = f"{text(details.get('kind'), 'question')} for {text(details.get('role'), 'people')}"
    posted = scene.new(event, "inbox", name, parent=parent)
    waits = details.get("change") == "posted" or details.get("kind") == "handoff"
    if not waits or parent is scene.session:
        scene.end(posted)
        return
    posted.status = "waiting"
    parent.hold(posted)
    if item:
        scene.waits[item] = posted


def _take_decision(
    scene: SessionSpans, event: Event, details: Mapping[str, Any], posted: SpanDraft | None
) -> None:
    if posted is None:
        scene.moment(event, "inbox", text(details.get("kind"), "answer"), parent=scene.place())
        return
    scene.working_run(event)
    scene.tells_of(event, posted)
    posted.tell(event.seq, *split_details(details))
    if "answer" not in details:
        posted.fail(event.error or f"the question was {text(details.get('status'), 'closed')}")
    scene.end(posted)


def take_task(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """A move in the plan of a supervisor."""
    stay = scene.working_stay(event)
    found = details.get("task_id")
    task_id = found if isinstance(found, str) else ""
    match details.get("phase"):
        case "decomposed":
            scene.plan = _open(scene, event, "plan", stay)
        case "started":
            _start_task(scene, event, task_id, scene.plan or stay, details)
        case "finished":
            _finish_task(scene, event, task_id, scene.plan or stay, details)
        case "aggregating":
            scene.tasks[_AGGREGATION] = _open(scene, event, "aggregate", scene.plan or stay)
        case _:
            _complete(scene, event, stay)


def _open(scene: SessionSpans, event: Event, name: str, parent: SpanDraft) -> SpanDraft:
    made = scene.new(event, "task", name, parent=parent)
    parent.hold(made)
    return made


def _start_task(
    scene: SessionSpans, event: Event, task_id: str, parent: SpanDraft, details: Mapping[str, Any]
) -> None:
    task = scene.tasks.get(task_id)
    if task is None or task.end is not None:
        name = f"{task_id or 'task'}: {text(details.get('agent'), '?')}"
        task = scene.tasks[task_id] = _open(scene, event, text(name), parent)
    else:
        scene.tells_of(event, task)
        task.tell(event.seq, *split_details(details))
    scene.latest_task = task


def _finish_task(
    scene: SessionSpans, event: Event, task_id: str, parent: SpanDraft, details: Mapping[str, Any]
) -> None:
    task = scene.tasks.pop(task_id, None)
    if task is None or task.end is not None:
        name = f"{task_id or 'task'}: {text(details.get('agent'), '?')}"
        task = scene.new(event, "task", text(name), parent=parent)
    else:
        scene.tells_of(event, task)
        task.tell(event.seq, *split_details(details))
    if event.error is not None or details.get("success") is False:
        task.fail(event.error)
    scene.end(task)


def _complete(scene: SessionSpans, event: Event, stay: SpanDraft) -> None:
    aggregation = scene.tasks.pop(_AGGREGATION, None)
    if aggregation is not None:
        scene.end(aggregation)
    plan, scene.plan = scene.plan, None
    if plan is None:
        scene.moment(event, "task", "completed", parent=stay)
        return
    scene.tells_of(event, plan)
    plan.details["phase"] = "completed"
    scene.end(plan)
