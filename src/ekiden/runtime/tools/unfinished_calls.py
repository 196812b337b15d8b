"""Tool calls that were started and have no result: closes those that the run cannot finish, and
asks people about those that cannot be repeated as they were."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ekiden.core.conversation.model import Item, function_call, function_output
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import CallChanged
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.questions import InboxItem
from ekiden.core.text.wording import lazy_pattern
from ekiden.core.tools.tool import FunctionTool
from ekiden.core.values import loads, new_id
from ekiden.core.versions import NEEDS_APPROVAL, digest, tool_signature
from ekiden.runtime.questions.questions import decided, post
from ekiden.runtime.state.cursor import Cursor, UnknownCall
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.confirmation import is_about_another
from ekiden.sessions.session import STARTED_BEFORE, RunProgress
from ekiden.storage.base import SessionRow, Store
from ekiden.tools.output import ToolResult, shortened, spelled_out

NOT_RUN = "not run"
"""The beginning of the error of a call that was certainly not made."""
BROKEN_OFF = "broken off by a handoff"
INTERRUPTED = "interrupted by a new message"
"""The errors of calls whose results are unknown."""
_WITHDRAWN = "the request for approval was withdrawn"
_NOT_STARTED = "it was not started"


@dataclass(frozen=True, slots=True)
class ClosedCall:
    """A call that the run will not finish, with its output for the model."""

    call: Item
    output: Item
    error: str | None
    """The error of the call; `None` if the result was stored. If the call was not made, the error
    begins with `NOT_RUN`."""
    key: str
    """The step key of the call; empty if the run did not make the call."""
    arguments: str | None = None
    """The arguments that a person approved instead of the arguments in the conversation."""
    version: str | None = None
    """The signature of the tool that the call was started with; `None` in older data."""
    has_call: bool = True
    """Whether the conversation contains the call. A call of code is added together with its
    output."""

    @property
    def items(self) -> tuple[Item, ...]:
        """The items that are missing in the conversation."""
        return (self.output,) if self.has_call else (self.call, self.output)

    @property
    def is_run(self) -> bool:
        """Whether the call was made, or may have been."""
        return self.error is None or not self.error.startswith(NOT_RUN)

    @property
    def is_unknown(self) -> bool:
        """Whether the call may or may not have had an effect."""
        return self.error in (BROKEN_OFF, INTERRUPTED)


def has_calls_left(row: SessionRow) -> bool:
    """Whether another process has to resume the session in the middle of a turn's calls.

    The calls may be running, or may have had their effects. The resuming process repeats them with
    the same keys. A call that waits for an answer does not count.
    """
    cursor = Cursor.from_json(row.cursor)
    is_waiting = cursor.questions.open or cursor.handoffs.is_rolling_back
    return row.status == "ready" and not is_waiting and cursor.progress.phase == "act"


async def broken_off(run: RunState) -> list[ClosedCall]:
    """The unfinished calls of the current turn, which a handoff interrupts."""
    if run.cursor.progress.phase != "act":
        return []
    calls = _calls_of(run.events, run.cursor.progress.calls)
    done = answered(run)
    left = [call for call in calls if call["call_id"] not in done]
    return await _closed(run.store, run.session_id, run.cursor, calls, left, BROKEN_OFF)


async def interrupted(
    store: Store, session_id: str, events: Sequence[Event], cursor: Cursor, left: list[Item]
) -> list[ClosedCall]:
    """The calls in `left`, which have no output, as interrupted by a new message."""
    if not left:
        return []
    calls = _calls_of(events, cursor.progress.calls)
    return await _closed(store, session_id, cursor, calls, left, INTERRUPTED)


async def interrupted_code(
    store: Store, session_id: str, events: Sequence[Event], progress: RunProgress
) -> list[ClosedCall]:
    """The calls that a code agent started and that have no result, as interrupted by a new
    message."""
    if progress.phase != "think":
        return []
    turn = progress.step_key("")
    if not await store.steps(session_id, prefix=f"{turn}i"):
        return []
    steps = await store.steps(session_id, prefix=turn)
    found = []
    for key, call in unfinished_calls(turn, steps, {event.step for event in events}):
        place = key.removeprefix(f"{turn}c")
        found.append(
            _unknown(
                call,
                INTERRUPTED,
                key,
                decision=steps.get(f"{turn}ask.c{place}"),
                version=started_with(steps[f"{turn}i{place}"]),
                has_call=False,
            )
        )
    return found


def keep_unknown(
    run: RunState, closed: Iterable[ClosedCall], *, agent: str, is_stopped: bool = False
) -> None:
    """Remember the calls of the agent whose effects are unknown, so that no call of the same tool
    starts before they are settled. The caller commits this."""
    unknown = tuple(
        UnknownCall(
            key=each.key,
            tool=each.call["name"],
            arguments=each.call["arguments"] if each.arguments is None else each.arguments,
            version=each.version,
            agent=agent,
            is_stopped=is_stopped,
        )
        for each in closed
        if each.is_unknown and each.key
    )
    if unknown and run.is_reachable:
        run.cursor.questions.unknown = (*run.cursor.questions.unknown, *unknown)


def close_calls(run: RunState, closed: Iterable[ClosedCall]) -> None:
    """Record the outputs and end the turn. The caller commits this."""
    closed = list(closed)
    keep_unknown(run, closed, agent=run.agent.name)
    for each in closed:
        details: dict[str, Any] = {"tool": each.call["name"]}
        if not each.is_run:
            details["not_run"] = True
        run.record("tool_call", items=(each.output,), details=details, error=each.error)
    run.cursor.progress.turn += 1
    run.cursor.progress.phase = "think"


def with_outputs(view: list[Item], closed: Iterable[ClosedCall]) -> list[Item]:
    """The target's view, to which the outputs of the calls in this view are added."""
    seen = {item.get("call_id") for item in view if item.get("type") == "function_call"}
    return [*view, *(each.output for each in closed if each.call["call_id"] in seen)]


def _calls_of(events: Iterable[Event], seq: int) -> list[Item]:
    return [
        item
        for event in events
        if event.seq == seq
        for item in event.items
        if item.get("type") == "function_call"
    ]


def answered(run: RunState) -> set[str]:
    """The ids of the calls of the current turn whose outputs are stored."""
    return {
        item["call_id"]
        for event in run.events
        if event.seq > run.cursor.progress.calls
        for item in event.items
        if item.get("type") == "function_call_output"
    }


async def _closed(
    store: Store,
    session_id: str,
    cursor: Cursor,
    calls: list[Item],
    left: Iterable[Item],
    why: str,
) -> list[ClosedCall]:
    """The calls in `left`, each with its place among the turn's `calls`, as closed calls."""
    steps = await store.steps(session_id, prefix=cursor.progress.step_key(""))
    places = {call["call_id"]: place for place, call in enumerate(calls)}
    return [_closed_call(cursor, steps, places.get(call["call_id"]), call, why) for call in left]


def _closed_call(
    cursor: Cursor, steps: Mapping[str, Any], place: int | None, call: Item, why: str
) -> ClosedCall:
    """A stored result is shown; the result of a call that may have been made is unknown."""
    if place is None:  # The call came with the conversation.
        return _unknown(call, why)
    key = cursor.progress.step_key(f"t{place}")
    known = steps.get(key)
    if known:
        return ClosedCall(call, function_output(call["call_id"], known[0]), None, key)
    started = cursor.progress.tools
    if tuple(started or ()) == STARTED_BEFORE or _may_be_earlier(cursor, call):
        return _unknown(call, why)
    reason = _why_not_made(cursor, steps, place, call["name"])
    if reason is not None:
        error = f"{NOT_RUN}: {reason}"
        output = f"Error: this call was {error}. It had no effect."
        return ClosedCall(call, function_output(call["call_id"], output), error, key)
    return _unknown(
        call,
        why,
        key,
        decision=steps.get(cursor.progress.step_key(f"ask.t{place}")),
        version=None if started is None else started[place],
    )


def _unknown(
    call: Item,
    why: str,
    key: str = "",
    *,
    decision: Mapping[str, Any] | None = None,
    version: str | None = None,
    has_call: bool = True,
) -> ClosedCall:
    """A call that may have been made. `decision` is the stored approval of the call."""
    text = (
        f"Error: this call was {why} and its result is not known; it may or may not have had an "
        "effect."
    )
    return ClosedCall(
        call,
        function_output(call["call_id"], text),
        why,
        key,
        arguments=None if decision is None else decision["arguments"],
        version=version,
        has_call=has_call,
    )


def _may_be_earlier(cursor: Cursor, call: Item) -> bool:
    """Whether the call may have been made as the repetition of an earlier call, whose effect stays
    unknown."""
    arguments = call.get("arguments") or ""
    return any(
        each.tool == call["name"] and same_arguments(each.arguments, arguments)
        for each in cursor.questions.unknown
    )


def same_arguments(one: str, other: str) -> bool:
    """Whether the arguments, as JSON text, are the same, also in their types: 1 is not true."""
    try:
        return digest(loads(one or "{}")) == digest(loads(other or "{}"))
    except ValueError:
        return False


def _why_not_made(cursor: Cursor, steps: Mapping[str, Any], place: int, tool: str) -> str | None:
    """Why a call without a result was certainly not made; `None` if it may have been.

    A call is made only after its tool was noted, and after the decision about it is stored. So a
    stored question about it without a decision proves that the call was not made. `steps` has the
    steps of the turn.
    """
    started = cursor.progress.tools
    if started is not None and tuple(started) == STARTED_BEFORE:
        return _NOT_STARTED  # Under the keys of this run.
    if started is not None and (place >= len(started) or started[place] is None):
        return _NOT_STARTED
    if any(each.tool == tool for each in cursor.questions.unknown):
        return _NOT_STARTED  # The earlier call would have been settled before.
    step = cursor.progress.step_key(f"ask.t{place}")
    decision = steps.get(step)
    if decision is not None:
        return None if decision["approved"] else str(decision["reason"])
    if any(key.startswith(f"{step}.") for key in (*steps, *cursor.questions.open)):
        return _WITHDRAWN
    needs_approval = started is not None and str(started[place]).startswith(NEEDS_APPROVAL)
    # An "always" approval is stored with the result of the call.
    is_granted = any(each.tool == tool for each in cursor.questions.always)
    return _NOT_STARTED if needs_approval and not is_granted else None


def may_have_run(run: RunState, place: int, call: Item, offer: Any) -> bool:
    """Whether the call of a model, which has no result, may have been made before an
    interruption."""
    is_handoff = offer is not None and not isinstance(offer, FunctionTool)
    if is_handoff and run.cursor.progress.tools is None:
        return False  # Older data has no notes about the tools.
    return _why_not_made(run.cursor, run.memo, place, call["name"]) is None


def why_changed(name: str, arguments: str, version: str | None, offer: Any) -> str | None:
    """Why a call that may have been made cannot be repeated as it was; `None` if it can.

    `version` is the signature of the tool that the call was started with, and `offer` is what the
    agent has under this name now.
    """
    if not isinstance(offer, FunctionTool):
        return f"the agent has no tool {name!r} now"
    if offer.read_only:
        return None
    is_same = accepts(offer, arguments) if version is None else version == tool_signature(offer)
    return None if is_same else f"the tool {name!r} has changed"


_TYPES: Mapping[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict, "null": type(None),
}  # fmt: skip


def accepts(tool: FunctionTool, arguments: str) -> bool:
    """Whether the arguments match the names, and the plain types, in the tool's schema."""
    try:
        given = loads(arguments or "{}")
    except ValueError:
        return False
    schema = tool.params_json_schema
    known = schema.get("properties") or {}
    if not isinstance(given, dict) or not set(schema.get("required") or ()) <= set(given):
        return False
    if schema.get("additionalProperties") is False and not set(given) <= set(known):
        return False
    types = {name: _TYPES.get(str(known.get(name, {}).get("type"))) for name in given}
    return all(kind is None or isinstance(given[name], kind) for name, kind in types.items())


# A call whose effect is unknown is never repeated under another key or with other arguments, and
# never reported as not made. If it cannot be repeated as it was, a person decides.
REPEAT = "repeat"
ENTER = "enter a result"
ABANDON = "abandon"
_OLD_CHOICES = {"retry as it was": REPEAT}
"""Choices in the answers of earlier versions."""
_MAX_SHOWN = 2_000
_MAX_SUBJECT = 200
_REPEAT = (
    "{repeat}: the earlier call is made again with its arguments and its idempotency key, unless "
    "its result is stored; the result is used.\n"
)
_CHOICES = (
    "{enter}: your text, such as what you found out at the other system, is used as the result of "
    "the call.\n"
    "{abandon}: the call is given up, and its effect stays unknown. Compensations that it "
    "registered stay registered: they run if the handoff is rolled back. What is called from now "
    "on has a new key."
)
_PLACE = lazy_pattern(r"[ci]([0-9]+)", re.ASCII)
_STARTED = lazy_pattern(r"i([0-9]+(?:r[0-9]+)?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision of a person about a call whose effect is unknown."""

    choice: str
    by: str
    text: str = ""

    def result(self) -> ToolResult:
        """The result of a call that is not repeated."""
        if self.choice == ENTER:
            return ToolResult(output=self.text, value=self.text)
        error = f"its effect is unknown, and it was given up by {self.by}"
        output = (
            f"Error: this call was started before an interruption; {error}. It may or may not have "
            "had an effect."
        )
        return ToolResult(output=output, value=None, error=error)


async def decide(
    run: RunState,
    call: UnknownCall,
    question: str,
    why: str,
    *,
    tool: FunctionTool | None,
    is_finished: bool = False,
    can_repeat: bool = False,
) -> Verdict:
    """The decision of a person about the call. `question` is the key of the question's step, and
    `tool` is the tool that can repeat the call, unless the caller `can_repeat` it.

    Raises `Suspended` until a person has decided, and `CallChanged` if no person can be asked.
    """
    key, number = question, 1
    while _has_no_decision(run.memo.get(key)):
        number += 1
        key = f"{question}.{number}"
    agent = call.agent
    before = f"{call.tool}({spelled_out(shortened(call.arguments, _MAX_SHOWN))})"
    if not run.is_reachable:
        raise CallChanged(agent, before=before, now=why, is_finished=is_finished)
    if key not in run.memo and key not in run.cursor.questions.open:
        item_id = new_id("inb")
        changed = CallChanged(agent, before=before, now=why, is_finished=is_finished, item=item_id)
        run.exception = changed
        can_repeat = can_repeat or is_finished or tool is not None
        choices = f"{_REPEAT if can_repeat else ''}{_CHOICES}"
        shown = choices.format(repeat=REPEAT, enter=ENTER, abandon=ABANDON)
        item = InboxItem(
            id=item_id,
            kind="approval",
            from_agent=agent,
            subject=f"the effect of a call of {agent} is unknown: {before}"[:_MAX_SUBJECT],
            body=f"{changed}\n\n{shown}",
            options=(REPEAT, ENTER, ABANDON) if can_repeat else (ENTER, ABANDON),
            context={
                "code": CallChanged.code,
                "tool": call.tool,
                "arguments": call.arguments,
                "idempotency_key": f"{run.session_key}:{call.key}",
                "version": call.version,
                "version_now": None if tool is None else tool_signature(tool),
                "finished": is_finished,
            },
            created_at_us=await run.store.now_us(),
            session_id=run.session_id,
        )
        post(run, key, item)
    answer = decided(run, key)
    choice = _OLD_CHOICES.get(answer.choice, answer.choice)
    return Verdict(choice=choice, by=answer.by, text=answer.text)


def _has_no_decision(stored: Any) -> bool:
    """Whether the question was closed without a decision, or without the result to enter."""
    if stored is None:
        return False
    answer = stored["answer"]
    return answer is None or (answer.get("choice") == ENTER and not answer.get("text"))


def verdict_on(run: RunState, place: str) -> dict[str, Any] | None:
    """The stored decision about the call at this place of the turn, for its event."""
    first = run.step_key(f"x{place}")
    for key, stored in run.memo.items():
        if (key == first or key.startswith(f"{first}.")) and not _has_no_decision(stored):
            choice = stored["answer"]["choice"]
            return {"choice": _OLD_CHOICES.get(choice, choice), "by": stored["answer"]["by"]}
    return None


# Calls of code agents. Code that runs again must make the same calls in the same order, because a
# call is identified by its position. Tool and arguments are stored before the call is made, so that
# one idempotency key always means one effect.


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A call that the code started before an interruption."""

    tool: str
    arguments: str
    """The arguments as JSON text."""
    is_finished: bool
    version: str | None = None
    """The signature of the tool; `None` in older data."""

    def is_for(self, tool: FunctionTool, arguments: str) -> bool:
        """Whether the call has this tool and these arguments. The result of a finished call is
        known, whatever its tool is now."""
        is_same = self.is_finished or self.version in (None, tool_signature(tool)) or tool.read_only
        return is_same and self.tool == tool.name and same_arguments(self.arguments, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCall:
    """The place of a call of code."""

    place: str
    before: Intent | None = None
    """The earlier call at this place, which a person decided to use instead."""
    verdict: Verdict | None = None


async def begin_call(run: RunState, place: str, tool: FunctionTool, arguments: str) -> None:
    """Store the call before it is made, unless no other process can resume the run."""
    key = run.step_key(f"i{place}")
    if run.is_reachable and key not in run.memo:
        fault_point("code.intent.before_commit")
        await run.commit_step(key, [tool.name, arguments, tool_signature(tool)])
        fault_point("code.intent.after_commit")


def call_key(run: RunState, place: str) -> str:
    """The step key of the call, which is also in its idempotency key."""
    return run.step_key(f"c{place}")


async def place_of(
    run: RunState, number: int, tool: FunctionTool | None, arguments: str = ""
) -> CodeCall:
    """The place of call number `number`. If a person decides so, an earlier call at this position
    is used instead.

    `tool` is `None` if the code no longer makes this call. The place of a call that was given up is
    not used again, and neither is the place of a call that was approved and not made. Raises
    `Suspended` while a person decides about a changed call, and `CallChanged` if no person can
    decide.
    """
    place, tries = str(number), 0
    while True:
        before = _intent(run, place)
        if before is None:
            if tool is None or not is_about_another(run, call_key(run, place), tool, arguments):
                return CodeCall(place=place)
        else:
            decision = verdict_on(run, place)
            is_given_up = decision is not None and decision["choice"] == ABANDON
            if not is_given_up:
                is_same = tool is not None and before.is_for(tool, arguments)
                if is_same and decision is None:
                    return CodeCall(place=place)
                verdict = await _decision(run, place, before, tool, arguments)
                if verdict.choice != ABANDON:
                    return CodeCall(place=place, before=before, verdict=verdict)
        tries += 1
        place = f"{number}r{tries}"


async def _decision(
    run: RunState, place: str, before: Intent, tool: FunctionTool | None, arguments: str
) -> Verdict:
    call = UnknownCall(
        key=call_key(run, place),
        tool=before.tool,
        arguments=before.arguments,
        version=before.version,
        agent=run.agent.name,
    )
    if tool is None:
        why = "its code makes no call now"
    elif tool.name == before.tool and same_arguments(arguments, before.arguments):
        why = f"the tool {tool.name!r} has changed"
    else:
        why = (
            f"its code calls {tool.name}({arguments}) now: calls must not depend on chance, time "
            "or anything else that changes"
        )
    question = run.step_key(f"x{place}")
    return await decide(
        run,
        call,
        question,
        why,
        tool=able_tool(run, before.tool, before.arguments),
        is_finished=before.is_finished,
    )


def able_tool(run: RunState, name: str, arguments: str) -> FunctionTool | None:
    """The agent's tool with this name, if it accepts the arguments."""
    tool = run.offer.by_name.get(name)
    return tool if isinstance(tool, FunctionTool) and accepts(tool, arguments) else None


def last_place(run: RunState) -> int:
    """The number of the last stored call of the turn."""
    prefix = run.step_key("")
    found = (_PLACE.match(key.removeprefix(prefix)) for key in run.memo)
    return max((int(place[1]) for place in found if place), default=0)


def unfinished_calls(
    turn: str,
    steps: Mapping[str, Any],
    finished: Collection[str | None],
    *,
    with_given_up: bool = False,
) -> list[tuple[str, Item]]:
    """The calls that were started and are not in `finished`, each with its step key. The keys of
    the turn's steps begin with `turn`. Calls that a person gave up are left out, unless
    `with_given_up` is set."""
    found = []
    for key, began in steps.items():
        started = _STARTED.fullmatch(key.removeprefix(turn))
        if started is None or f"{turn}c{started[1]}" in finished:
            continue
        question = f"{turn}x{started[1]}"
        decisions = (
            each
            for name, each in steps.items()
            if name == question or name.startswith(f"{question}.")
        )
        is_given_up = any((each["answer"] or {}).get("choice") == ABANDON for each in decisions)
        if with_given_up or not is_given_up:
            made = f"{turn}c{started[1]}"
            found.append((made, function_call(call_id_of(made), began[0], began[1])))
    return found


def call_id_of(key: str) -> str:
    """The call id, in the conversation, of the code's call with this step key."""
    return f"call_{key.replace('.', '_')}"


def _intent(run: RunState, place: str) -> Intent | None:
    made = run.memo.get(call_key(run, place))
    if made is not None:
        return Intent(tool=made[3], arguments=made[4], is_finished=True)
    began = run.memo.get(run.step_key(f"i{place}"))
    if began is None:
        return None
    return Intent(tool=began[0], arguments=began[1], is_finished=False, version=started_with(began))


def started_with(began: Sequence[Any]) -> str | None:
    """The signature of the tool in the step of a started call; `None` in older data."""
    return began[2] if len(began) > 2 else None
