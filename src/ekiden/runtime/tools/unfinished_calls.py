"""Closes unfinished tool calls that the run cannot finish, and handles calls that code has
changed."""

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
from ekiden.core.values import loads, new_id
from ekiden.runtime.questions.questions import decided, post
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.state import RunState
from ekiden.sessions.session import RunProgress
from ekiden.storage.base import SessionRow, Store
from ekiden.tools.output import shortened, spelled_out

NOT_RUN = "not run"
"""The beginning of the error of a call that was certainly not made."""
BROKEN_OFF = "broken off by a handoff"
INTERRUPTED = "interrupted by a new message"
"""The errors of calls whose results are unknown."""
_WITHDRAWN = "the request for approval was withdrawn"


@dataclass(frozen=True, slots=True)
class ClosedCall:
    """A call that the run will not finish, with its output for the model."""

    call: Item
    output: Item
    error: str | None
    """The error of the call; `None` if the result was stored. If the call was not made, the error
    begins with `NOT_RUN`."""
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
    turn = run.step_key("")
    questions = run.cursor.questions.open
    return await _closed(run.store, run.session_id, questions, turn, calls, left, BROKEN_OFF)


async def interrupted(
    store: Store, session_id: str, events: Sequence[Event], cursor: Cursor, left: list[Item]
) -> list[ClosedCall]:
    """The calls in `left`, which have no output, as interrupted by a new message."""
    if not left:
        return []
    turn = cursor.progress.step_key("")
    calls = _calls_of(events, cursor.progress.calls)
    return await _closed(store, session_id, cursor.questions.open, turn, calls, left, INTERRUPTED)


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
    calls = unfinished_calls(turn, steps, {event.step for event in events})
    return [
        ClosedCall(call, _unknown_result(call, INTERRUPTED), INTERRUPTED, has_call=False)
        for call in calls
    ]


def close_calls(run: RunState, closed: Iterable[ClosedCall]) -> None:
    """Record the outputs and end the turn. The caller commits this."""
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
    questions: Iterable[str],
    turn: str,
    calls: list[Item],
    left: Iterable[Item],
    why: str,
) -> list[ClosedCall]:
    """A stored result is shown; the result of a call that may have been made is unknown."""
    steps = await store.steps(session_id, prefix=turn)
    keys = (*steps, *questions)
    places = {call["call_id"]: place for place, call in enumerate(calls)}
    found = []
    for call in left:
        place = places.get(call["call_id"])
        known = steps.get(f"{turn}t{place}")
        reason = _not_made(steps.get(f"{turn}ask.t{place}"), f"{turn}ask.t{place}.", keys)
        error: str | None = None
        if known:
            output = known[0]
        elif reason is not None:
            error = f"{NOT_RUN}: {reason}"
            output = f"Error: this call was {error}. It had no effect."
        else:
            found.append(ClosedCall(call, _unknown_result(call, why), why))
            continue
        found.append(ClosedCall(call, function_output(call["call_id"], output), error))
    return found


def _unknown_result(call: Item, why: str) -> Item:
    text = (
        f"Error: this call was {why} and its result is not known; it may or may not have had an "
        "effect."
    )
    return function_output(call["call_id"], text)


def _not_made(decision: Any, questions: str, keys: Collection[str]) -> str | None:
    """Why a call without a result was certainly not made; `None` if it may have been.

    A call is made only after the decision about it is stored. So a stored question about it (its
    key begins with `questions`) without a decision proves that the call was not made.
    """
    if decision is not None:
        return None if decision["approved"] else str(decision["reason"])
    return _WITHDRAWN if any(key.startswith(questions) for key in keys) else None


# Calls of code agents. Code that runs again must make the same calls in the same order, because a
# call is identified by its position. Tool and arguments are stored before the call is made, so that
# one idempotency key always means one effect. If the code later makes another call at the position,
# or none, the effect of the first call is unknown: a person decides whether the first call is
# repeated with its own key, or given up.
RETRY = "retry as it was"
ABANDON = "abandon"
_MAX_SHOWN = 2_000
_MAX_SUBJECT = 200
_CHOICES = (
    f"{RETRY}: the earlier call is made under its own key, unless it was, and its result is used.\n"
    f"{ABANDON}: the earlier call is given up, whatever it did; what the code calls now is made "
    "under a new key."
)
_PLACE = lazy_pattern(r"[ci]([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A call that the code started before an interruption."""

    tool: str
    arguments: str
    """The arguments as JSON text."""
    is_finished: bool

    def is_for(self, tool: str, arguments: str) -> bool:
        """Whether the call has this tool and these arguments."""
        return self.tool == tool and loads(self.arguments) == loads(arguments)

    def __str__(self) -> str:
        return f"{self.tool}({spelled_out(shortened(self.arguments, _MAX_SHOWN))})"


async def begin_call(run: RunState, place: str, tool: str, arguments: str) -> None:
    """Store the call before it is made, unless no other process can resume the run."""
    key = run.step_key(f"i{place}")
    if run.is_reachable and key not in run.memo:
        fault_point("code.intent.before_commit")
        await run.commit_step(key, [tool, arguments])
        fault_point("code.intent.after_commit")


def call_key(run: RunState, place: str) -> str:
    """The step key of the call, which is also in its idempotency key."""
    return run.step_key(f"c{place}")


async def place_of(
    run: RunState, number: int, tool: str | None, arguments: str = ""
) -> tuple[str, Intent | None]:
    """The position of call number `number`. Also returns the earlier call at this position, if that
    call must be repeated instead.

    `tool` is `None` if the code no longer makes this call. The position of a call that was given up
    is not used again. Raises `Suspended` while a person decides about a changed call, and
    `CallChanged` if no person can decide.
    """
    place, tries = str(number), 0
    while (before := _intent(run, place)) is not None:
        if tool is not None and before.is_for(tool, arguments):
            return place, None
        now = "makes no call" if tool is None else f"calls {tool}({arguments})"
        if await _decision(run, place, before, now) == RETRY:
            return place, before
        tries += 1
        place = f"{number}r{tries}"
    return place, None


def last_place(run: RunState) -> int:
    """The number of the last stored call of the turn."""
    prefix = run.step_key("")
    found = (_PLACE.match(key.removeprefix(prefix)) for key in run.memo)
    return max((int(place[1]) for place in found if place), default=0)


def unfinished_calls(
    turn: str, steps: Mapping[str, Any], finished: Collection[str | None]
) -> list[Item]:
    """The calls that were started and are not in `finished`, except for calls that a person gave
    up. The keys of the turn's steps begin with `turn`."""
    found = []
    for key, began in steps.items():
        place = key.removeprefix(f"{turn}i")
        if place == key or f"{turn}c{place}" in finished:
            continue
        question = f"{turn}x{place}"
        decisions = (
            each
            for name, each in steps.items()
            if name == question or name.startswith(f"{question}.")
        )
        if not any((each["answer"] or {}).get("choice") == ABANDON for each in decisions):
            tool, arguments = began
            found.append(function_call(call_id_of(f"{turn}c{place}"), tool, arguments))
    return found


def call_id_of(key: str) -> str:
    """The call id, in the conversation, of the code's call with this step key."""
    return f"call_{key.replace('.', '_')}"


def _intent(run: RunState, place: str) -> Intent | None:
    made = run.memo.get(call_key(run, place))
    if made is not None:
        return Intent(tool=made[3], arguments=made[4], is_finished=True)
    began = run.memo.get(run.step_key(f"i{place}"))
    return None if began is None else Intent(tool=began[0], arguments=began[1], is_finished=False)


async def _decision(run: RunState, place: str, before: Intent, now: str) -> str:
    """The choice of a person about a changed call."""
    agent, first = run.agent.name, run.step_key(f"x{place}")
    key, number = first, 1
    while (stored := run.memo.get(key)) is not None and stored["answer"] is None:
        # The question was withdrawn without a decision, so ask again.
        number += 1
        key = f"{first}.{number}"
    if not run.is_reachable:
        raise CallChanged(agent, before=str(before), now=now, is_finished=before.is_finished)
    if key not in run.memo and key not in run.cursor.questions.open:
        item_id = new_id("inb")
        run.exception = CallChanged(
            agent, before=str(before), now=now, is_finished=before.is_finished, item=item_id
        )
        item = InboxItem(
            id=item_id,
            kind="approval",
            from_agent=agent,
            subject=f"a call of {agent} changed: {before}"[:_MAX_SUBJECT],
            body=f"{run.exception}\n\n{_CHOICES}",
            options=(RETRY, ABANDON),
            context={
                "code": CallChanged.code,
                "idempotency_key": f"{run.session_key}:{call_key(run, place)}",
                "finished": before.is_finished,
            },
            created_at_us=await run.store.now_us(),
            session_id=run.session_id,
        )
        post(run, key, item)
    return decided(run, key).choice
