"""Builds spans from the events of one session, in their order.

Spans need no additional stored data. The effect of an event depends only on earlier events, so
later events do not change the ids and parents of spans.

* A **run** begins with a message, or with a handoff that is requested while the session has no run.
  If a run that failed, reached a limit or was stopped is resumed, it continues as a new span with a
  link to the first span. A waiting run stays open until it continues.
* A **stay** of an agent begins with its `agent_start`, or with its first event, and ends with a
  handoff, a rollback, or the end of the run.
* A **handoff** is a child of the source's stay. It lasts from its request until it is confirmed,
  refused or rolled back, and has a link to the target's stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, Final

from ekiden.core.conversation.model import Usage
from ekiden.core.events import MADE_BY, PRIVATE, Event, EventType, VersionReader
from ekiden.tracing.session_spans import SessionSpans
from ekiden.tracing.spans import (
    NOTHING,
    CostOf,
    Span,
    SpanDraft,
    TraceContext,
    is_rewind,
    is_transfer,
    part,
    session_span_id,
    split_details,
    text,
    tokens_of,
    trace_id_of,
    usage_of,
)

_AGGREGATION: Final = "\0aggregation"


def take_question(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Process a question or a notice to another agent."""
    is_question = "asks" in details
    question = part(details.get("asks" if is_question else "tells"))
    message = question.get("id")
    name = f"{'ask' if is_question else 'tell'} {text(question.get('to'), '?')}"
    key = f"ask/{message}" if isinstance(message, str) else None
    # The key makes the span's id, which must be unique: a second event about the message gets
    # another id.
    if key is not None and key in scene.known:
        key = None
    stay = scene.working_stay(event)
    task = scene.latest_task
    is_of_task = task is not None and task.last == event.seq - 1
    parent = task if task is not None and is_of_task and task.end is None else stay
    span = scene.new(event, "message", name, parent=parent, key=key)
    if key is not None:
        scene.known[key] = span
    session = question.get("session")
    if isinstance(session, str):
        span.links = (session_span_id(session),)
    if is_question and isinstance(message, str):
        span.status = "waiting"
        scene.waits[message] = span
        parent.hold(span)
    else:
        scene.end(span)


def take_answer(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Process the answer to a question, or the end of a question without an answer."""
    answer = part(details.get("answer"))
    scene.working_run(event)
    asked = scene.waits.pop(answer["id"], None) if isinstance(answer.get("id"), str) else None
    if asked is None:
        name = f"answer of {text(answer.get('from'), '?')}"
        scene.moment(event, "message", name, parent=scene.working_stay(event))
        return
    scene.assign(event, asked)
    facts, words = split_details(details)
    asked.update(event.seq, facts, words)
    state = text(answer.get("state"), "answered")
    if event.error is not None or state != "answered":
        asked.fail(event.error or f"the question was {state}")
    scene.end(asked)


def take_inbox(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Process a new or decided inbox item."""
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
        scene.moment(event, "inbox", text(details.get("kind"), "answer"), parent=scene.innermost())
        return
    scene.working_run(event)
    scene.assign(event, posted)
    posted.update(event.seq, *split_details(details))
    if "answer" not in details:
        posted.fail(event.error or f"the question was {text(details.get('status'), 'closed')}")
    scene.end(posted)


def take_task(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Process a step in the plan of a supervisor."""
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
        scene.assign(event, task)
        task.update(event.seq, *split_details(details))
    scene.latest_task = task


def _finish_task(
    scene: SessionSpans, event: Event, task_id: str, parent: SpanDraft, details: Mapping[str, Any]
) -> None:
    task = scene.tasks.pop(task_id, None)
    if task is None or task.end is not None:
        name = f"{task_id or 'task'}: {text(details.get('agent'), '?')}"
        task = scene.new(event, "task", text(name), parent=parent)
    else:
        scene.assign(event, task)
        task.update(event.seq, *split_details(details))
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
    scene.assign(event, plan)
    plan.details["phase"] = "completed"
    scene.end(plan)


_MODEL: Final[Mapping[str, str]] = {"kind": "model"}


def take_handoff(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Process a status change of a handoff."""
    found = details.get("id")
    handoff_id = found if isinstance(found, str) else event.event_id
    key = f"handoff/{handoff_id}"
    handoff = scene.known.get(key)
    if handoff is None:
        handoff = scene.known[key] = _new_handoff(scene, event, details, key)
        scene.open_handoffs[key] = handoff
    else:
        _update_handoff(scene, handoff, event, details)
    if "compensation" in details:
        _note_compensation(handoff, event, details)
        return
    if is_transfer(event, details) and handoff.end is None:
        scene.end_stay()
        scene.arriving = handoff
        scene.heard.extend(event.items)
    match details.get("status", "completed"):
        case "completed":
            scene.end(handoff)
        case "failed" | "rolled_back":
            handoff.fail(event.error)
            scene.end(handoff)
            scene.heard.extend(event.items)
            if scene.arriving is handoff:
                scene.arriving = None
            if "undoes" in details:
                scene.end_stay("rolled_back", event.error or "rolled back")
    if handoff.end is not None:
        scene.open_handoffs.pop(key, None)


def _new_handoff(
    scene: SessionSpans, event: Event, details: Mapping[str, Any], key: str
) -> SpanDraft:
    name = f"{text(details.get('from'), '?')} → {text(details.get('to'), '?')}"
    parent = _parent_of_handoff(scene, event, details)
    handoff = scene.new(event, "handoff", name, parent=parent, key=key)
    handoff.details.setdefault("policy", "graceful")
    handoff.details.setdefault("by", _MODEL)
    handoff.details["moves"] = _moves(details)
    wanted = details.get("at")
    began = wanted.get("initiated") if isinstance(wanted, Mapping) else None
    if isinstance(began, int) and handoff.parent is not None:
        handoff.start = max(min(began, handoff.start), handoff.parent.start)
    if event.error is not None and "compensation" in details:
        # The error is that of the compensation.
        handoff.error, handoff.status = None, "ok"
    return handoff


def _parent_of_handoff(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> SpanDraft:
    """The stay of the source; the run or session for a handoff without work of its source."""
    is_made = is_transfer(event, details)
    if details.get("begins_run") or (scene.run is None and not is_made):
        return scene.run or scene.session
    if details.get("status") == "completed" and not is_made:
        return scene.innermost()  # It began before the first event that is known here.
    if event.agent != details.get("from") and scene.stay is not None:
        return scene.stay
    return scene.working_stay(event)


def _update_handoff(
    scene: SessionSpans, handoff: SpanDraft, event: Event, details: Mapping[str, Any]
) -> None:
    scene.assign(event, handoff)
    if "compensation" in details:
        return
    facts, words = split_details(details)
    facts["moves"] = [*handoff.details.get("moves", ()), *_moves(details)]
    handoff.update(event.seq, facts, words)


def _note_compensation(handoff: SpanDraft, event: Event, details: Mapping[str, Any]) -> None:
    tried: dict[str, Any] = {"key": details.get("compensation"), "attempt": details.get("attempt")}
    if event.error is not None:
        tried["failed"] = True
        handoff.content.setdefault("compensation_errors", []).append(event.error)
    handoff.details.setdefault("compensations", []).append(tried)


def _moves(details: Mapping[str, Any]) -> list[Any]:
    moves = details.get("moves")
    return list(moves) if isinstance(moves, list) else [details.get("status", "completed")]


_ENDED_BADLY: Final = frozenset({"failed", "out_of_budget"})


class SpanBuilder(SessionSpans):
    """Builds the spans of one session. Call `add` with the session's events in order."""

    def __init__(self, session_id: str, context: TraceContext, **options: Any) -> None:
        super().__init__(session_id, context, **options)
        self._versions = VersionReader()

    def add(self, event: Event) -> None:
        """Process the next event."""
        made_by = self._versions.made_by(event)
        if made_by is not None and MADE_BY not in (event.details or NOTHING):
            event = copy(event)
            event.details = {**(event.details or {}), MADE_BY: made_by}
        details = event.details or NOTHING
        self.begin(event, details)
        if _begins_run(event, details, is_open=self.run is not None):
            self.begin_run(event)
        before = self.run
        _TAKES[event.type](self, event, details)
        run = self.run or before
        if run is not None and PRIVATE in details:
            run.is_private = True


def spans_of(
    events: Iterable[Event],
    session_id: str,
    context: TraceContext | None = None,
    *,
    cost: CostOf | None = None,
) -> list[Span]:
    """Return the spans of a session, built from its `events` in their stored order. Each span comes
    after its parent.

    Without `context`, the trace id differs from the trace id in the result of `read_trace`. That
    trace id depends on the creation time of the session, which the events do not contain. For
    example::

        spans = spans_of(await session.events(), session.session_id)
    """
    context = context or TraceContext(trace_id=trace_id_of(session_id, 0))
    builder = SpanBuilder(session_id, context, cost=cost)
    for event in events:
        builder.add(event)
    return builder.spans()


def _begins_run(event: Event, details: Mapping[str, Any], *, is_open: bool) -> bool:
    if event.type == "handoff":
        return bool(details.get("begins_run")) and is_transfer(event, details)
    if event.type != "message" or event.step is not None or not event.items:
        return False
    if "closes" in details:
        return False
    # A message of an agent without a step belongs to a live conversation, which a person began.
    return not (is_open and all(each.get("role") == "assistant" for each in event.items))


def _take_message(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    if is_rewind(event, details):
        scene.end_run("rewound")
        scene.moment(event, "message", "rewind", parent=scene.session)
    elif (event.step or "").startswith("0."):
        _say(scene, event, "items", parent=scene.session)
    elif "asks" in details or "tells" in details:
        take_question(scene, event, details)
    elif "answer" in details and not event.items:
        take_answer(scene, event, details)
    elif scene.run is not None and scene.run.first == event.seq:
        sender = text(part(details.get("message")).get("from_agent"), "user")
        _say(scene, event, sender, parent=scene.run)
    elif "closes" in details or ("state" in details and "by" in details and not event.items):
        _say(scene, event, "state" if "state" in details else "closes", parent=scene.innermost())
    else:
        _take_work(scene, event, details)


def _take_work(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    """Process a message of a code agent, or another event during a stay."""
    stay = scene.working_stay(event)
    if event.items and event.step is None and scene.run is not None:
        scene.run.details["live"] = True
    name = text(details.get("published")) or text(details.get("warning"))
    name = name or ("trigger" if "trigger" in details else "")
    if not name:
        name = stay.name if event.items else "state" if "state" in details else "note"
    _say(scene, event, name, parent=stay)


def _say(scene: SessionSpans, event: Event, name: str, *, parent: SpanDraft) -> None:
    said = scene.moment(event, "message", name, parent=parent)
    if not event.items:
        return
    is_answer = any(each.get("role") == "assistant" or "call_id" in each for each in event.items)
    said.content["output" if is_answer else "input"] = list(event.items)
    scene.heard.extend(event.items)
    for item in event.items:
        if item.get("type") == "function_call":
            scene.remember_call(item)


def _take_start(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    stay = scene.stay
    if stay is not None and stay.agent == event.agent and stay.is_started:
        scene.end_stay()
    stay = scene.working_stay(event)
    stay.is_started = True
    scene.assign(event, stay)


def _take_end(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    run = scene.working_run(event)
    stay = scene.stay
    scene.assign(event, stay or run)
    run.last = event.seq
    facts, words = split_details(details)
    outcome = text(facts.pop("outcome", None), "done")
    if outcome == "waiting":
        for each in (run, stay):
            if each is not None:
                each.status = "waiting"
                each.details["waiting_for"] = text(words.get("reason"), "somebody")
        return
    for each in (run, stay):
        if each is not None:
            each.details.pop("waiting_for", None)
            each.update(event.seq, facts, words)
    error = event.error
    if outcome in _ENDED_BADLY or event.type == "agent_error":
        error = error or f"out of budget: {text(facts.get('limit'), 'the limit was reached')}"
    scene.end_run(outcome, error)


def _take_call(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    stay = scene.working_stay(event)
    model = text(details.get("model"))
    call = scene.new(event, "llm_call", model or "model", parent=stay)
    _count(scene, call, event, details, usage_of(details) or Usage(requests=1))
    if scene.heard:
        call.content["input"] = scene.heard
        scene.heard = []
    if event.items:
        call.content["output"] = list(event.items)
        for item in event.items:
            if item.get("type") == "function_call":
                scene.remember_call(item)
    scene.end(call)


def _count(
    scene: SessionSpans, call: SpanDraft, event: Event, details: Mapping[str, Any], usage: Usage
) -> None:
    call.tokens = tokens_of(usage)
    if usage.cost:
        call.cost = usage.cost
    elif scene.cost is not None:
        call.cost = scene.cost(text(details.get("model"), "?"), usage, event.at_us)


def _take_tool(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    stay = scene.working_stay(event)
    call = scene.new(event, "tool_call", text(details.get("tool"), "?"), parent=stay)
    for item in event.items:
        if item.get("type") == "function_call":
            scene.remember_call(item)
        elif item.get("type") == "function_call_output":
            call_id = item.get("call_id")
            if isinstance(call_id, str):
                call.details["call_id"] = call_id
                asked = scene.calls.pop(call_id, None)
                if asked is not None and asked[1] is not None:
                    call.content["arguments"] = asked[1]
            call.content["result"] = item.get("output")
    scene.heard.extend(event.items)
    scene.end(call)


def _take_confirmation(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    stay = scene.working_stay(event)
    scene.moment(event, "tool_confirmation", text(details.get("tool"), "?"), parent=stay)


def _take_guardrail(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    stay = scene.working_stay(event)
    check = scene.moment(event, "guardrail", text(details.get("guardrail"), "?"), parent=stay)
    if details.get("result") == "failed":
        check.fail(None)
    if event.items:
        check.content["output"] = list(event.items)
        scene.heard.extend(event.items)


def _take_route(scene: SessionSpans, event: Event, details: Mapping[str, Any]) -> None:
    run = scene.working_run(event)
    choice = scene.new(event, "route", text(details.get("agent"), "nobody"), parent=run)
    handoff, scene.arriving = scene.arriving, None
    if handoff is not None:
        handoff.links = (choice.id,)
    usage = usage_of(details)
    if usage is not None:
        _count(scene, choice, event, details, usage)
    scene.end(choice)


_TAKES: Final[Mapping[EventType, Callable[[SessionSpans, Event, Mapping[str, Any]], None]]] = {
    "agent_complete": _take_end,
    "agent_error": _take_end,
    "agent_start": _take_start,
    "guardrail": _take_guardrail,
    "handoff": take_handoff,
    "inbox": take_inbox,
    "llm_call": _take_call,
    "message": _take_message,
    "route": _take_route,
    "task": take_task,
    "tool_call": _take_tool,
    "tool_confirmation": _take_confirmation,
}
