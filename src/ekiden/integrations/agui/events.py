"""Converts a run to a stream of AG-UI events.

A turn of an agent becomes a step, and its answer becomes a message. Tools and handoffs become tool
calls, and the session's variables become the state. A question to people ends the run with an
interrupt. Everything else becomes a `CUSTOM` event: `ekiden.run` (run and session),
`ekiden.handoff`, `ekiden.route`, `ekiden.inbox`, and `ekiden.withdrawn` (a message is incomplete
and does not count).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Run, session_id_of
from ekiden.core.values import dumps
from ekiden.hub.hub import Shown
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people
from ekiden.server.access import Caller
from ekiden.server.streams.follow import (
    VIA,
    Broken,
    Piece,
    Speech,
    SpeechEnded,
    SpeechStarted,
    choices,
    decide,
)
from ekiden.server.streams.live import BEAT, cut_off, data_event
from ekiden.tools.output import shortened

_MOST_SHOWN = 4_000


class ResumeEntry(BaseModel):
    """The decision of a person about one interrupt."""

    interruptId: str = Field(min_length=1, max_length=200)
    status: Literal["resolved", "cancelled"]
    payload: Any = Field(
        default=None,
        description="The decision, as the interrupt's `responseSchema` describes it. For an "
        "approval, you can also send `true` or `false`. For a choice or a free answer, you can "
        "also send a text.",
    )


def interrupt(item: InboxItem, *, call_id: str | None = None) -> dict[str, Any]:
    """Convert a question to an interrupt, with the id of the inbox item."""
    made: dict[str, Any] = {
        "id": item.id,
        "reason": _reason(item, call_id),
        "message": shortened("\n".join(filter(None, (item.subject, item.body))), _MOST_SHOWN),
        "responseSchema": _schema(item),
        "metadata": {
            "kind": item.kind,
            "from": item.from_agent,
            "role": item.role,
            "options": list(item.options),
            "tool": item.tool,
            "arguments": item.arguments,
        },
    }
    if call_id is not None:
        made["toolCallId"] = call_id
    if item.deadline_us is not None:
        made["expiresAt"] = datetime.fromtimestamp(item.deadline_us / 1e6, UTC).isoformat()
    return made


async def resolve(tenant: TenantService, caller: Caller, entry: ResumeEntry) -> None:
    """Answer the question, or cancel it if the person dismissed it.

    Raises `Forbidden`, `InboxForbidden` for agents, `RequestInvalid` for an invalid answer, and the
    errors of `decide`.
    """
    if entry.status == "cancelled":
        caller.check("answer")
        await tenant.inbox.cancel(entry.interruptId, by=caller.name, reason="dismissed", via=VIA)
        return
    item = await tenant.inbox.get(entry.interruptId)
    await decide(tenant, caller, item.id, **_answer(item, entry.payload))


def _answer(item: InboxItem, payload: Any) -> dict[str, Any]:
    """The payload as arguments of `decide`."""
    if isinstance(payload, bool):
        return {"approve": payload}
    if isinstance(payload, str):
        return {"choice": payload} if item.options else {"text": payload}
    if not isinstance(payload, dict):
        raise RequestInvalid(
            f"the payload for {item.id} is not an answer: see the responseSchema of its interrupt"
        )
    text = payload.get("text") or payload.get("reason") or ""
    answer: dict[str, Any] = {"text": text if isinstance(text, str) else dumps(text)}
    approved = payload.get("approved", payload.get("approve"))
    if isinstance(approved, bool):
        answer["approve"] = approved
    elif isinstance(payload.get("choice"), str):
        answer["choice"] = payload["choice"]
    edited = payload.get("editedArgs")
    if edited is not None:
        answer["arguments"] = edited if isinstance(edited, str) else dumps(edited)
    return answer


def _reason(item: InboxItem, call_id: str | None) -> str:
    if item.kind == "confirmation" and call_id is not None:
        return "tool_call"
    return "confirmation" if choices(item) is not None else "input_required"


def _schema(item: InboxItem) -> dict[str, Any]:
    text = {"type": "string"}
    if choices(item) is not None:
        properties: dict[str, Any] = {"approved": {"type": "boolean"}, "reason": text}
        if item.kind == "confirmation":
            properties["editedArgs"] = {"type": "object"}
        return {"type": "object", "properties": properties, "required": ["approved"]}
    if item.options:
        properties = {"choice": {"enum": list(item.options)}, "text": text}
        return {"type": "object", "properties": properties, "required": ["choice"]}
    return {"type": "object", "properties": {"text": text}, "required": ["text"]}


_CUSTOM_TYPES = ("handoff", "route", "inbox")
_CUSTOM_DETAILS = (
    "id", "from", "to", "status", "moves", "reason", "code", "agent", "method", "confidence",
    "item", "kind", "subject", "change", "role", "options", "tool",
)  # fmt: skip
"""The details of a `CUSTOM` event; other details are only in Ekiden's own API."""


class AguiEvents:
    """Translates the events of a run, or of the part of a run that the client reads, to AG-UI
    events."""

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        our_run_id: str,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """`run_id` is the client's id of the run. `state` contains the session's variables at the
        start; it is `None` if they are unknown."""
        self._thread_id = thread_id
        self._run_id = run_id
        self._our_run_id = our_run_id
        self._speech = Speech(f"msg_{our_run_id}_")
        self._step: str | None = None
        self._state = None if state is None else deepcopy(dict(state))
        self._calls: dict[str, dict[str, Any]] = {}
        """Calls without a result, by id."""

    def know(self, events: Iterable[Event]) -> None:
        """Process the events before the part that the client reads, without output. Calls that are
        open in these events may get a result later."""
        for event in events:
            for _ in self._speech.take(event):
                pass
            for _ in self._called(event):
                pass
            if event.type == "agent_start" and event.agent:
                self._step = event.agent

    def start(self) -> Iterator[dict[str, Any]]:
        """Return the first events: the run, its state, and its current step."""
        yield {"type": "RUN_STARTED", "threadId": self._thread_id, "runId": self._run_id}
        ours = {"run_id": self._our_run_id, "session_id": session_id_of(self._our_run_id)}
        yield _custom("run", ours)
        if self._state is not None:
            yield {"type": "STATE_SNAPSHOT", "snapshot": deepcopy(self._state)}
        if self._step is not None:
            yield {"type": "STEP_STARTED", "stepName": self._step}

    def take(self, shown: Shown) -> Iterator[dict[str, Any]]:
        """Convert an event or a text delta to AG-UI events."""
        for each in self._speech.take(shown):
            yield from _message_events(each)
        if isinstance(shown, Event):
            yield from self._events(shown)

    def finish(self, run: Run, questions: Sequence[InboxItem] = ()) -> Iterator[dict[str, Any]]:
        """Return the last events: the outcome of the run, or the questions that the run waits
        for."""
        for each in self._speech.close():
            yield from _message_events(each)
        yield from self._step_to(None)
        if run.status in ("done", "refused"):
            yield self._finished(run, {"type": "success"}, result=run.output)
        elif run.status == "waiting" and questions:
            interrupts = [interrupt(item, call_id=self._call_of(item)) for item in questions]
            yield self._finished(run, {"type": "interrupt", "interrupts": interrupts})
        else:
            yield {"type": "RUN_ERROR", **_error(run), "usage": _usage(run)}

    def _events(self, event: Event) -> Iterator[dict[str, Any]]:
        if event.type == "agent_start" and event.agent:
            yield from self._step_to(event.agent)
        yield from self._called(event)
        details = event.details or {}
        if event.type in _CUSTOM_TYPES:
            shown = {name: details[name] for name in _CUSTOM_DETAILS if name in details}
            yield _custom(event.type, {"agent": event.agent, **shown})
        if isinstance(details.get("state"), Mapping):
            yield from self._state_changed(details["state"])

    def _called(self, event: Event) -> Iterator[dict[str, Any]]:
        if event.type not in ("llm_call", "message", "tool_call", "handoff"):
            return
        if event.type == "message" and event.step is None:
            return
        for item in event.items:
            call_id = item.get("call_id")
            if item.get("type") == "function_call" and isinstance(call_id, str):
                self._calls[call_id] = item
                yield from _call(item, call_id)
            elif item.get("type") == "function_call_output" and isinstance(call_id, str):
                self._calls.pop(call_id, None)
                yield {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": f"{call_id}:result",
                    "toolCallId": call_id,
                    "content": _as_text(item.get("output")),
                    "role": "tool",
                }

    def _step_to(self, agent: str | None) -> Iterator[dict[str, Any]]:
        if self._step is not None:
            yield {"type": "STEP_FINISHED", "stepName": self._step}
        self._step = agent
        if agent is not None:
            yield {"type": "STEP_STARTED", "stepName": agent}

    def _state_changed(self, change: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if self._state is None:
            base = change.get("base")
            self._state = deepcopy(dict(base)) if isinstance(base, Mapping) else {}
            yield {"type": "STATE_SNAPSHOT", "snapshot": deepcopy(self._state)}
        delta: list[dict[str, Any]] = []
        for name, value in (change.get("set") or {}).items():
            self._state[name] = value
            delta.append({"op": "add", "path": _pointer(name), "value": value})
        for name in change.get("deleted") or ():
            if name in self._state:
                del self._state[name]
                delta.append({"op": "remove", "path": _pointer(name)})
        if delta:
            yield {"type": "STATE_DELTA", "delta": delta}

    def _call_of(self, item: InboxItem) -> str | None:
        """The id of the open call that the question is about."""
        for call_id, call in self._calls.items():
            if call["name"] == item.tool and (call.get("arguments") or "{}") == item.arguments:
                return call_id
        return None

    def _finished(self, run: Run, outcome: dict[str, Any], *, result: Any = None) -> dict[str, Any]:
        event = {
            "type": "RUN_FINISHED",
            "threadId": self._thread_id,
            "runId": self._run_id,
            "outcome": outcome,
            "usage": _usage(run),
        }
        return event if result is None else {**event, "result": result}


def _message_events(each: SpeechStarted | Piece | SpeechEnded | Broken) -> Iterator[dict[str, Any]]:
    match each:
        case SpeechStarted(id=name):
            yield {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
        case Piece(id=name, text=text):
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text}
        case SpeechEnded(id=name, refusal=refusal):
            if refusal:
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": refusal}
            yield {"type": "TEXT_MESSAGE_END", "messageId": name}
        case Broken(id=name):
            yield {"type": "TEXT_MESSAGE_END", "messageId": name}
            yield _custom("withdrawn", {"message_id": name})


def _call(item: Mapping[str, Any], call_id: str) -> Iterator[dict[str, Any]]:
    yield {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": item["name"]}
    arguments = item.get("arguments")
    if arguments:
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": _as_text(arguments)}
    yield {"type": "TOOL_CALL_END", "toolCallId": call_id}


def _error(run: Run) -> dict[str, Any]:
    match run.status:
        case "failed":
            return {"message": run.failure.message, "code": run.failure.code}
        case "out_of_budget":
            return {"message": "the run used up its budget", "code": "run.out_of_budget"}
        case "stopped":
            return {"message": "the run was stopped", "code": "run.stopped"}
        case _:
            return {
                "message": "the server is stopping, and the run continues: connect again",
                "code": "server.stopping",
            }


def _usage(run: Run) -> list[dict[str, int]]:
    used = run.usage
    return [
        {
            "inputTokens": used.input_tokens,
            "outputTokens": used.output_tokens,
            "totalTokens": used.tokens,
        }
    ]


def _custom(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "CUSTOM", "name": f"ekiden.{name}", "value": value}


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


async def agui_stream(
    tenant: TenantService,
    run_id: str,
    shown: AsyncGenerator[Shown | None, None],
    events: AguiEvents,
) -> AsyncGenerator[bytes, None]:
    """The server-sent events of a run, from its current state to its end."""
    for event in events.start():
        yield data_event(event)
    try:
        async with aclosing(shown):
            async for each in shown:
                if each is None:
                    yield BEAT
                    continue
                for event in events.take(each):
                    yield data_event(event)
        run = await tenant.runs.read(run_id)
        questions = await questions_to_people(tenant.store, run.session_id)
    except EkidenError as exc:
        yield data_event({"type": "RUN_ERROR", "message": cut_off(run_id, exc), "code": exc.code})
        return
    for event in events.finish(run, questions):
        yield data_event(event)


def agui_run_stream(
    tenant: TenantService, run_id: str, *, through_waits: bool = False
) -> AsyncGenerator[bytes, None]:
    """The events of a run from its start, as AG-UI events, for `GET /runs/{run_id}/events`.

    AG-UI events have no ids. After a disconnect, a client gets all events again.
    """
    session_id = session_id_of(run_id)
    events = AguiEvents(thread_id=session_id, run_id=run_id, our_run_id=run_id)
    shown = tenant.runs.watch(run_id, through_waits=through_waits)
    return agui_stream(tenant, run_id, shown, events)
