"""Replays the events of a run, to compute the run's cursor after any event."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ekiden.core.conversation.model import Item, Usage, is_message, text_of
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.events import AUDITED, Event
from ekiden.handoff.requests import TriedHandoff
from ekiden.runtime.handoff.controller import passed_digest
from ekiden.runtime.state.attempt import PASSED, received
from ekiden.runtime.state.cursor import ConversationView, Cursor
from ekiden.sessions import is_rewind, is_transfer
from ekiden.sessions.state import recorded_changes

GIVEN = "given"
"""The key in the details of a message event with the id of a handoff. The event records the
additions of this handoff, which follows."""
_BROKEN_OFF = ("cancelled", "failed", "out_of_budget")


class Replay:
    """A run's cursor. `apply` moves the cursor from event to event.

    The seconds of work are the durations of model and tool calls. State that no event contains has
    its default. This applies to open questions and the data for a rollback of open handoffs.
    """

    __slots__ = ("_calls", "_given", "_is_inside", "_last", "agent", "cursor", "outcome")

    def __init__(self, *, agent: str, cursor: Cursor, outcome: str = "") -> None:
        self.agent = agent
        self.cursor = cursor
        self.outcome = outcome
        self._calls: dict[str, Item] = {}
        """The calls of the current turn that have no output yet."""
        self._is_inside = False
        """Whether the last event was stored together with the next one."""
        self._last: Event | None = None
        self._given: int | None = None
        """The number of the last event, if it records the additions of a handoff."""

    def apply(self, event: Event) -> None:
        """Move the cursor to the point after this event. It must follow the last applied event."""
        change, before, self._last = recorded_changes(event), self._last, event
        self._given = before.seq if before is not None and GIVEN in (before.details or {}) else None
        # After a rollback, a change restores earlier values, which is no work.
        if change is not None and (before is None or "undoes" not in (before.details or {})):
            # The exact count of changes is not recorded, and not needed: `work` only has to grow.
            self.cursor.handoffs.work += len(change.get("set", ())) + len(change.get("deleted", ()))
        if event.error is not None:
            self.cursor.progress.errors += 1
        if event.type in ("llm_call", "message") and _kind(event) == "m":
            self._answer(event)
            return
        match event.type:
            case "agent_start":
                self.cursor.progress.started = True
            case "tool_call":
                self._tool(event)
            case "handoff":
                self._handoff(event, event.details or {})
            case "route":
                self._route(event)
            case "message":
                self._message(event)
            case "agent_complete" | "agent_error":
                self._end(event)
            case _:
                pass

    def note(self, event: Event) -> None:
        """Note the first event of the run."""
        self._last = event

    def was_stored_with_last(self, event: Event) -> bool:
        """Whether `event` was stored together with the last applied event, so that no run could
        have continued between them.

        A turn is stored together with all its outputs, and an answer with the end of the run. A
        rollback that has begun is finished when the run resumes.
        """
        last, details = self._last, event.details or {}
        if begins_run(event):
            return last is not None and _closes(last)
        if _confirms(event):
            return True
        if event.type == "route" and event.step is None:
            return last is not None and begins_run(last)
        if event.type == "guardrail" and last is not None and last.type == "tool_call":
            return True
        if _only_changes_state(event) and last is not None and last.type in AUDITED:
            return not _confirms(last) and self.cursor.progress.phase != "end"
        return self._is_inside and details.get("outcome") not in _BROKEN_OFF

    def _answer(self, event: Event) -> None:
        cursor = self.cursor
        cursor.progress.calls = event.seq
        cursor.progress.turn = _turn(event) - 1
        self._calls = {
            item["call_id"]: item for item in event.items if item.get("type") == "function_call"
        }
        if event.type == "llm_call":
            cursor.triggers = cursor.triggers.checked()
            cursor.handoffs.work += any(
                is_message(item) and bool(text_of(item)) for item in event.items
            )
        self._count(event)
        if self._calls:
            cursor.progress.phase = "act"
        else:
            cursor.progress.turn += 1
            cursor.progress.phase = "answered"
        self._is_inside = not self._calls

    def _tool(self, event: Event) -> None:
        cursor = self.cursor
        if event.error is None:
            cursor.handoffs.work += 1
        else:
            name = event.error.partition(":")[0]
            cursor.triggers = cursor.triggers.with_tool_error(f"{name}: {event.error}")
        if _kind(event)[:1] != "c":  # The calls of code agents are part of their own time.
            self._count(event)
        self._is_inside = False
        self._take_outputs(event)

    def _take_outputs(self, event: Event) -> None:
        """Note the outputs in the event. The turn ends with the output of the last call."""
        if not self._calls:
            return
        for item in event.items:
            if item.get("type") == "function_call_output":
                self._calls.pop(item["call_id"], None)
        self._is_inside = bool(self._calls)
        if not self._calls:
            self.cursor.progress.turn += 1
            self.cursor.progress.phase = "think"

    def _handoff(self, event: Event, details: dict[str, Any]) -> None:
        cursor = self.cursor
        number = str(details.get("id", "")).rpartition(".h")[2]
        if number.isdecimal() and number.isascii():
            cursor.handoffs.count = max(cursor.handoffs.count, int(number))
        elif "initiated" in details.get("moves", ()):
            cursor.handoffs.count += 1
        cursor.handoffs.drop_tried(details.get("id"))
        if "compensation" in details:
            self._is_inside = True
        elif is_transfer(event):
            self._transfer(event, details)
        elif "undoes" in details:
            self._roll_back(details)
        elif details.get("status") in ("initiated", "validating"):
            names = (details["id"], details["from"], details["to"])
            cursor.handoffs.tried = (*cursor.handoffs.tried, TriedHandoff(event.step or "", *names))
        elif details.get("status") == "completed":
            cursor.handoffs.open = [
                each for each in cursor.handoffs.open if each.id != details["id"]
            ]
        else:
            if "place" in details:
                cursor.triggers = cursor.triggers.with_fired(details["place"])
            self._take_outputs(event)

    def _transfer(self, event: Event, details: dict[str, Any]) -> None:
        cursor, source, target = self.cursor, details["from"], details["to"]
        chain = list(cursor.handoffs.chain)
        cursor.handoffs.chain = list(details.get("chain", chain))
        call_id = next((item["call_id"] for item in event.items if "call_id" in item), None)
        data = _passed_data(details, self._calls.get(call_id) if call_id else None)
        # A person returned the conversation with an answer. See `answer_as_person`.
        if details.get("by", {}).get("kind") == "person" and "request" not in details:
            cursor.handoffs.work += 1
        if "place" in details:
            cursor.triggers = cursor.triggers.with_fired(details["place"])
        pending = cursor.way_back(
            details["id"], source, target, call_id=call_id, seq=self._given or event.seq
        )
        pending.mark(
            begins_run=bool(details.get("begins_run")), chain=chain if "chain" in details else None
        )
        cursor.handoffs.open.append(pending)
        if "filter" in details:
            cursor.view = ConversationView(details["filter"], event.seq)
        is_return = target in cursor.handoffs.chain
        cursor.transfer(
            source,
            target,
            received=data,
            tools=details.get("tools"),
            budget=dict(details["budget"]) if "budget" in details else None,
            passed=passed_digest(source, target, data) if is_return else None,
            since_s=cursor.budget.spent_s,
        )
        cursor.progress.turn = _turn(event)
        self._hand_to(target, started=False)

    def _roll_back(self, details: dict[str, Any]) -> None:
        cursor = self.cursor
        while cursor.handoffs.open[-1].id != details["id"]:  # IndexError if it was never opened.
            cursor.handoffs.open.pop()
        pending = cursor.handoffs.open[-1]
        cursor.roll_back(pending)
        self._hand_to(pending.source, started=True)
        if pending.begins_run:
            cursor.progress.phase = "end"
            self._is_inside = True

    def _hand_to(self, agent: str, *, started: bool) -> None:
        self.agent = agent
        self.cursor.progress.phase = "think"
        self.cursor.progress.started = started
        self._calls, self._is_inside = {}, False

    def _route(self, event: Event) -> None:
        if event.step is None:
            return
        self.cursor.handoffs.route = None
        self._count(event)
        target = (event.details or {}).get("agent")
        if target:
            self.cursor.handoffs.chain[-1] = target
            self._hand_to(target, started=False)
        else:
            self._is_inside = True

    def _message(self, event: Event) -> None:
        name = (event.details or {}).get("published")
        if _only_changes_state(event) and self.cursor.progress.phase == "act":
            self._is_inside = True  # A tool of the turn changed it, and the tool's output follows.
        if GIVEN in (event.details or {}):
            self._is_inside = True  # The handoff with these additions follows.
        if name is not None:
            self._is_inside = True
            self.cursor.triggers = self.cursor.triggers.with_published(name)

    def _end(self, event: Event) -> None:
        outcome = (event.details or {}).get("outcome", "done")
        if outcome in ("done", "refused"):
            self.cursor.progress.phase = "end"
        self.outcome = "" if outcome in ("cancelled", "waiting") else outcome
        self._is_inside = False

    def _count(self, event: Event) -> None:
        cursor, seconds = self.cursor, (event.duration_us or 0) / 1e6
        used = Usage.from_json((event.details or {}).get("usage") or {})
        cursor.budget.usage.add(used)
        cursor.budget.spent_s += seconds
        if event.agent is not None and (used.tokens or seconds):
            cursor.budget.spend(event.agent, used.tokens, seconds, used.cost)


def begins_run(event: Event) -> bool:
    """Whether a run begins with the event: a message, a rewind, or a handoff that was requested
    while no run was active."""
    if event.type == "message":
        return is_rewind(event) or (event.step is None and bool(event.items))
    return is_transfer(event) and bool(event.details and event.details.get("begins_run"))


def _confirms(event: Event) -> bool:
    """Whether the event confirms a handoff; it is stored with the answer of the target."""
    return event.type == "handoff" and (event.details or {}).get("moves") == ["completed"]


def _only_changes_state(event: Event) -> bool:
    """Whether the event only records changes of variables."""
    return event.type == "message" and not event.items and recorded_changes(event) is not None


def _closes(event: Event) -> bool:
    """Whether the event belongs to the next one: it closes calls of the earlier run before a
    message, or records the additions of a handoff."""
    details = event.details or {}
    return event.type == "message" and ("closes" in details or GIVEN in details)


def is_given(events: list[Event], first: Event) -> bool:
    """Whether the event before `first`, a handoff, records the additions of this handoff."""
    return first.seq > 1 and GIVEN in (events[first.seq - 2].details or {})


def runs_begun(events: list[Event]) -> list[Event]:
    """The events that begin runs, in the order of the runs."""
    return [event for event in events if begins_run(event) and not _closes(event)]


def beginning(events: list[Event], first: Event) -> int:
    """The number of the first event in the commit with which the run of event `first` began."""
    before = events[first.seq - 2] if first.seq > 1 else None
    return first.seq - 1 if before is not None and _closes(before) else first.seq


def _passed_data(details: dict[str, Any], call: Item | None) -> dict[str, Any]:
    """The data that the target received, from the event or from the model's call."""
    if "received" in details:
        return dict(details["received"])
    if call is not None:
        with suppress(ModelBehaviorError):
            return received(details["from"], call["arguments"])
    return {"from": details["from"], **{key: details[key] for key in PASSED if key in details}}


def _kind(event: Event) -> str:
    """The last part of the key of the event's step."""
    return (event.step or "").rpartition(".")[2]


def _turn(event: Event) -> int:
    return int((event.step or "").split(".")[1])
