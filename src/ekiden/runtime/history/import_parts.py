"""Reads and checks the parts of an imported session: items, events, steps and cursor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Required, TypeAlias

from annotated_types import Ge, Len, Lt
from pydantic import BeforeValidator
from typing_extensions import TypedDict

from ekiden.core.conversation.model import Item, is_message
from ekiden.core.conversation.shapes import (
    Amount,
    Amounts,
    Count,
    FindingShape,
    Key,
    Name,
    Object,
    Received,
    Used,
    check,
    read_by,
    shape,
)
from ekiden.core.errors.stored_data import SessionImportInvalid
from ekiden.core.events import Event, EventType
from ekiden.core.plan import AgentResult, TaskDecomposition
from ekiden.core.runs import Conclusion
from ekiden.core.values import loads
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.cursor_handoffs import unconfirmed_handoffs
from ekiden.runtime.state.step_record import REWOUND, is_shared_step, stays_here
from ekiden.sessions import is_rewind, is_transfer
from ekiden.sessions.state import STATE

_CALL_OF_CODE = re.compile(r"[0-9]+\.[0-9]+\.c")
_ENDS = ("agent_complete", "agent_error")


def check_items(value: Any, place: str) -> list[Item]:
    """Return the items. Each item must be a message, a call, an output, or another item of a
    model."""
    items: list[Item] = check(list[Object], value, place)
    for number, item in enumerate(items):
        at = f"{place}[{number}]"
        check(Said, item, at)
        if is_message(item):
            check(Message, item, at)
        elif item.get("type") == "function_call":
            check(ToolCallShape, item, at)
        elif item.get("type") == "function_call_output":
            check(Output, item, at)
        elif "type" not in item:
            raise SessionImportInvalid(at, "it has neither a type nor a role")
    return items


def read_events(data: Any, session_id: str) -> list[Event]:
    """The events, which must be numbered from 1. Raises `SessionImportInvalid` with the
    position."""
    events, keys = [], set[str]()
    for number, each in enumerate(check(list[Object], data, "events")):
        place = f"events[{number}]"
        event = _event(check(StoredEvent, each, place), place, session_id)
        if event.seq != number + 1:
            raise SessionImportInvalid(f"{place}.seq", f"it is {event.seq}, expected {number + 1}")
        # An approval in a document does not count: it is asked for again, and recorded under the
        # same step key.
        if event.step is not None and event.type != "tool_confirmation":
            if event.step in keys:
                raise SessionImportInvalid(f"{place}.step", "another event has it too")
            keys.add(event.step)
        _check_event(event, place)
        events.append(event)
    return events


def _event(data: Any, place: str, session_id: str) -> Event:
    took = data.get("duration_ms")
    return Event(
        session_id=session_id,
        seq=data["seq"],
        type=data["event_type"],
        at_us=round(data["timestamp"] * 1e6),
        agent=data.get("agent_name"),
        step=data.get("step"),
        duration_us=None if took is None else round(took * 1e3),
        details=data.get("details"),
        items=tuple(check_items(data.get("items", []), f"{place}.items")),
        error=data.get("error"),
    )


def _check_event(event: Event, place: str) -> None:
    details, inside = event.details or {}, f"{place}.details"
    if is_rewind(event):
        check(REWINDING, details, inside)
    if _CALL_OF_CODE.match(event.step or ""):
        _check_call_of_code(event, place)
    if event.type in _ENDS and details.get("outcome") in OF_END:
        check(OF_END[details["outcome"]], details, inside)
    if event.type in OF_TYPE:
        check(OF_TYPE[event.type], details, inside)
    if is_transfer(event):
        for number, item in enumerate(event.items):
            check(Name, item.get("call_id"), f"{place}.items[{number}].call_id")


def _check_call_of_code(event: Event, place: str) -> None:
    """Check the tool call of a code agent, which is reused when the code runs again."""
    kinds = [item.get("type") for item in event.items]
    if kinds != ["function_call", "function_call_output"]:
        raise SessionImportInvalid(f"{place}.items", "it is not a call and its output")
    call, output = event.items
    _check_json(call.get("arguments"), f"{place}.items[0].arguments")
    if output.get("output") is None:
        raise SessionImportInvalid(f"{place}.items[1].output", "it is missing")
    if (event.details or {}).get("json"):
        _check_json(output["output"], f"{place}.items[1].output")


def _check_json(value: Any, place: str) -> None:
    try:
        loads(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise SessionImportInvalid(place, "it is not JSON") from exc


_LONGEST = 500
_KEY = re.compile(r"[0-9]+\.[0-9]+\.(.+)", re.ASCII | re.DOTALL)
_OF_PEOPLE = re.compile(r"(?:ask\.|[ipxw][0-9]|xt[0-9]).*|a\.s[0-9r]+\.x.*", re.ASCII | re.DOTALL)
"""The steps of decisions of people, and of started calls, whose result is only known to the
process that started them."""
_TOOL = re.compile(r"t[0-9]+", re.ASCII)
_ENTRY = re.compile(r".+\.([vsn])[0-9]+(?:r[0-9]+)?", re.ASCII)
"""The entries of a journal (see `runtime.state.journal`), except for questions."""
_PLAN = re.compile(r"s([0-9]*)\.([0-9]+)\.(began|try|pause|result)(?:\.[0-9]+)?", re.ASCII)
_MODEL_OF_PLAN = re.compile(r"s\.(?:plan|answer)[0-9]*\.m[0-9]+", re.ASCII)


def read_steps(data: Any) -> dict[str, Any]:
    """The steps that a resumed run may reuse. Raises `SessionImportInvalid` with the position.

    Decisions of people are left out, also those of earlier turns that a rewind may restore. A
    document cannot decide for people, so people are asked again.
    """
    steps = {}
    for key, value in check(Object, data, "resume.steps").items():
        if not 0 < len(key) <= _LONGEST:
            raise SessionImportInvalid("resume.steps", f"{key[:40]!r} is not a key")
        if not (is_of_people(key, value) or is_shared_step(key) or stays_here(key)):
            steps[key] = value
    for key, value in steps.items():
        _check(key, value, f"resume.steps.{key}", steps)
    return steps


def _kind(key: str) -> str:
    """The step key without the numbers of run and turn; empty if it is not a step key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else ""


def is_of_people(key: str, value: Any) -> bool:
    """Whether the step is a decision of people about a call, a handoff, a question or a case."""
    kind = _kind(key)
    if _OF_PEOPLE.fullmatch(kind):
        return True
    return ".q" in kind and value is not True and not _is_answer_of_agent(value)


def _is_answer_of_agent(value: Any) -> bool:
    try:
        _check_answer(value, "")
    except SessionImportInvalid:
        return False
    return True


def _check_answer(value: Any, place: str) -> None:
    """Check the answer of an agent to a question."""
    stored = check(Answered, value, place)
    if not stored["id"].startswith("msg_"):
        raise SessionImportInvalid(place, "it is not the answer of an agent")
    given = stored["answer"]
    if given is not None and (
        "choice" in given or not ("payload" in given or isinstance(given.get("error"), str))
    ):
        raise SessionImportInvalid(f"{place}.answer", "it is not the answer of an agent")


def _check(key: str, value: Any, place: str, steps: Mapping[str, Any]) -> None:
    kind = _kind(key)
    if kind == "filter" or kind.startswith("filter.") or _MODEL_OF_PLAN.fullmatch(kind):
        check_items(value, place)
    elif _TOOL.fullmatch(kind):
        _check_tool(value, place)
    elif kind == "s.plan":
        _check_plan(value, place)
    elif (entry := _ENTRY.fullmatch(kind)) is not None and value is not True:
        if "value" not in check(Object, value, place) and entry[1] == "v":
            raise SessionImportInvalid(place, "it has no value")
    elif (found := _PLAN.fullmatch(kind)) is not None:
        _check_task(key, found[3], value, place, steps)


def _check_tool(value: Any, place: str) -> None:
    """Check the result of a tool: output, error, microseconds, and findings of guardrails."""
    if not isinstance(value, list) or len(value) < 3:
        raise SessionImportInvalid(place, "it is not the result of a tool")
    output, error, duration_us, *checks = value
    if not isinstance(output, str):
        check_items([{"type": "function_call_output", "call_id": "x", "output": output}], place)
    check(str | None, error, f"{place}[1]")
    check(Amount, duration_us, f"{place}[2]")
    check(list[FindingShape], checks, place)


def _check_plan(value: Any, place: str) -> None:
    check(StoredPlan, value, place)
    read_by(TaskDecomposition.from_json, value, place)


def _check_task(key: str, part: str, value: Any, place: str, steps: Mapping[str, Any]) -> None:
    """Check a step of a plan's task."""
    if part == "began":
        check(Count, value, place)
    elif part == "try":
        _check_answer(value, place)
    elif part == "result":
        if not isinstance(value, list) or len(value) != 3:
            raise SessionImportInvalid(place, "it is not the result of a task")
        number, result, attempt = value
        check(Count, number, place)
        check(StoredResult, result, f"{place}[1]")
        data = number if result["success"] else None
        read_by(AgentResult.from_json, {**result, "data": data}, place)
        tried = f"{key.removesuffix('.result')}.try.{attempt}"
        if check(Count, attempt, f"{place}[2]") and result["success"] and tried not in steps:
            raise SessionImportInvalid(f"{place}[2]", "there is no such attempt")


def read_cursor(data: Any, events: int, steps: Mapping[str, Any]) -> tuple[Cursor, list[list[str]]]:
    """The cursor of a session with this number of events, and the id, source and target of each of
    its unconfirmed handoffs."""
    place = "resume.cursor"
    stored = check(Object, data, place)
    opened = unconfirmed_handoffs(stored, place)
    return _cursor(stored, place, events, steps), opened


def ended_run(events: Sequence[Event], agent: str) -> dict[str, Any]:
    """The part ``resume`` of a document without it, which versions with a store of format 1 to 3
    wrote. The last run counts as ended."""
    if not events:
        return {"cursor": {}, "steps": {}}
    steps = [event.step for event in events if event.step is not None and _kind(event.step)]
    handoffs = [event.details or {} for event in events if event.type == "handoff"]
    last = {each["id"]: each for each in handoffs}
    return {
        "cursor": {
            "r": max((int(step.partition(".")[0]) for step in steps), default=1),
            "t": 0,
            "p": "end",
            "f": max(
                (each.seq for each in events if each.type == "message" and not each.step), default=1
            ),
            "ch": ["user", agent],
            "h": len(last),
            "ho": [
                [each["id"], each["from"], each["to"]]
                for each in last.values()
                if each.get("status") == "transferring"
            ],
        },
        "steps": {},
    }


def check_snapshot(data: Any, place: str, events: int, steps: Mapping[str, Any]) -> None:
    """Check a snapshot as strictly as the current state, because a rewind restores it."""
    snapshot = check(Snapshot, data, place)
    _cursor(snapshot["cursor"], f"{place}.cursor", events, steps)
    if REWOUND in snapshot:
        check_snapshot(snapshot[REWOUND], f"{place}.{REWOUND}", events, steps)


def _cursor(stored: dict[str, Any], place: str, events: int, steps: Mapping[str, Any]) -> Cursor:
    cursor = Cursor.imported(stored, place, events=events, steps=steps)
    base = cursor.view.base
    if base is not None:
        check_items(steps[base], f"resume.steps.{base}")
    return cursor


# The shapes contain only what the runtime relies on; everything else in a part stays unchanged. The
# components of a cursor have their own shapes.
class ContentPart(TypedDict, total=False):
    """A part of a message's content."""

    type: str | None
    text: str | None
    refusal: str | None


def _parts_of(value: Any) -> Any:
    return [] if isinstance(value, str) else value


Content: TypeAlias = Annotated[list[ContentPart] | None, BeforeValidator(_parts_of)]
"""Text, or a list of parts."""


class Said(TypedDict, total=False):
    """Any item."""

    type: str | None
    role: str | None
    content: Content


class Message(Said):
    """A message."""

    role: Name  # type: ignore[misc]


class ToolCallShape(Said, total=False):
    """A call of a tool."""

    call_id: Required[Name]
    name: Required[str]
    arguments: str | None


class Output(Said, total=False):
    """The output of a tool call."""

    call_id: Required[Name]
    output: Content


State: Any = shape(
    "State",
    {
        **dict.fromkeys(("set", "base"), Object),
        **dict.fromkeys(("deleted", "user", "app"), list[str]),
    },
)
"""The changes of variables in an event."""

_TEXTS = (
    "id", "from", "to", "status", "model", "outcome", "published", "filter", "hash", "reason",
    "summary", "code", "phase", "task", "correlation", "tool", "call_id", "item", "kind", "role",
    "subject", "method", "type", "result", "behavior", "guardrail",
)  # fmt: skip
"""The details that are texts in every type of event."""

Details: Any = shape(
    "Details",
    {
        **dict.fromkeys(_TEXTS, str | None),
        STATE: State,
        "usage": Used | None,
        "guardrails": list[FindingShape],
        "undoes": Annotated[list[int], Len(2, 2)],
        "keeps": list[int],
        "conclusion": Conclusion | None,
    },
)
"""The details of events of all types."""

Letter: Any = shape(
    "Letter", dict.fromkeys(("id", "to", "session", "subject", "from_agent"), str | None)
)
Handoff: Any = shape(
    "Handoff",
    {
        **dict.fromkeys(("id", "from", "to"), Required[Name]),
        **dict.fromkeys(("moves", "chain"), list[str]),
        "tools": list[str] | None,
        "budget": Amounts,
        "place": int,
        "received": Received,
        "by": Object,
    },
)
OF_TYPE: Final[Mapping[str, Any]] = {
    "handoff": Handoff,
    "guardrail": FindingShape,
    "message": shape("Letters", dict.fromkeys(("message", "asks", "tells"), Letter)),
    "task": shape("Tasks", {"tasks": list[Object]}),
    "route": shape("Route", {"agent": str | None}),
}
"""The further details of an event, by its type."""
OF_END: Final[Mapping[str, Any]] = {
    "refused": shape("Refused", {"reason": Required[str]}),
    "waiting": shape("Waiting", {"reason": Required[str]}),
    "out_of_budget": shape(
        "Spent", {"limit": Required[str], **dict.fromkeys(("allowed", "used"), Required[Amount])}
    ),
    "failed": shape("Failed", {"code": Required[str]}),
}
"""The further details of a run's last event, by outcome."""
REWINDING: Final = shape("Rewound", {"rewound": Required[int], "undoes": Required[list[int]]})
"""The details of a rewind's event."""


class StoredEvent(TypedDict, total=False):
    """An event."""

    event_type: Required[EventType]
    seq: Required[int]
    timestamp: Required[Annotated[float, Ge(0), Lt(1e11)]]
    agent_name: Key | None
    step: Key | None
    duration_ms: Annotated[float, Ge(0), Lt(1e14)] | None
    details: Details | None
    error: str | None


Outcome: TypeAlias = Literal[None, "", "done", "waiting", "refused", "failed", "out_of_budget"]


class Snapshot(TypedDict, total=False):
    """A session before a run, or after a rewind."""

    cursor: Required[Object]
    agent: Required[Name]
    variables: Required[Object]
    outcome: Outcome


class Meta(TypedDict, total=False):
    """Facts that the session was created with."""

    ask_depth: Count


class Header(TypedDict, total=False):
    """The session itself."""

    session_id: Required[Name]
    agent: Required[Name]
    user_id: Name | None
    outcome: Outcome
    priority: Annotated[int, Ge(1), Lt(5)]
    meta: Required[Meta]
    variables: Required[Object]


class AnswerShape(TypedDict, total=False):
    """The stored answer to a question."""

    error: str | None
    code: str | None
    victim: str | None
    cycle: list[str] | None


class Answered(TypedDict):
    """A stored question with its answer."""

    id: Name
    who: Name
    by: Name
    state: Name
    answer: AnswerShape | None


class StoredTask(TypedDict, total=False):
    """A task of a plan."""

    task_id: str | None
    agent: str | None
    description: str | None
    parameters: Object
    created_at: Amount
    depends_on: list[str]


class StoredPlan(TypedDict, total=False):
    """A plan."""

    tasks: Required[list[StoredTask]]
    reasoning: str
    notes: list[str]


class StoredResult(TypedDict, total=False):
    """The result of a plan's task."""

    success: Required[bool]
    task_id: str | None
    agent: str | None
    error: str | None
