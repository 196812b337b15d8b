"""The calls of code, each known before it is made, so that one idempotency key is one effect.

Code that is run again must make the same calls in the same order: a call is known by its place.
The tool and the arguments are stored before the call is made. If the code calls something else at
that place afterwards, or nothing, nobody can tell whether the first call had its effect: a person
decides whether it is made as it was, under its own key, or given up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, function_call
from ekiden.core.errors import CallChanged
from ekiden.core.faults import fault_point
from ekiden.core.questions import InboxItem
from ekiden.core.values import loads, new_id
from ekiden.runtime.questions.questions import decided, post
from ekiden.runtime.state.state import RunState
from ekiden.tools.text import shortened, spelled_out

RETRY = "retry as it was"
ABANDON = "abandon"
_MAX_SHOWN = 2_000
_MAX_SUBJECT = 200
_CHOICES = (
    f"{RETRY}: the earlier call is made under its own key, unless it was, and its result is used.\n"
    f"{ABANDON}: the earlier call is given up, whatever it did; what the code calls now is made "
    "under a new key."
)
_PLACE = re.compile(r"[ci]([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A call that the code made, or began to make, before it was interrupted."""

    tool: str
    arguments: str
    """JSON text."""
    is_finished: bool

    def is_for(self, tool: str, arguments: str) -> bool:
        """Whether it is a call of this tool with these arguments."""
        return self.tool == tool and loads(self.arguments) == loads(arguments)

    def __str__(self) -> str:
        return f"{self.tool}({spelled_out(shortened(self.arguments, _MAX_SHOWN))})"


async def begin_call(run: RunState, place: str, tool: str, arguments: str) -> None:
    """Store what is about to be called; after a crash it is known. In a run that nobody can go on
    with there is no need."""
    key = run.step_key(f"i{place}")
    if run.is_reachable and key not in run.memo:
        fault_point("code.intent.before_commit")
        await run.commit_step(key, [tool, arguments])
        fault_point("code.intent.after_commit")


def call_key(run: RunState, place: str) -> str:
    """The key of the call, of its result and of its effect."""
    return run.step_key(f"c{place}")


async def place_of(
    run: RunState, number: int, tool: str | None, arguments: str = ""
) -> tuple[str, Intent | None]:
    """Where call number `number` of the code belongs, and the earlier call if that counts instead.

    `tool` is `None` if the code makes no such call any more. Each call that was given up leaves its
    place, and its key, to nobody. `Suspended` while a person decides; `CallChanged` if nobody can.
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
    """The number of the last call that is stored for the turn."""
    prefix = run.step_key("")
    found = (_PLACE.match(key.removeprefix(prefix)) for key in run.memo)
    return max((int(place[1]) for place in found if place), default=0)


def unfinished_calls(
    turn: str, steps: Mapping[str, Any], finished: Collection[str | None]
) -> list[Item]:
    """The calls that were begun and are not `finished`, without those that a person gave up; the
    keys of the turn's steps begin with `turn`."""
    found = []
    for key, began in steps.items():
        place = key.removeprefix(f"{turn}i")
        if place == key or f"{turn}c{place}" in finished:
            continue
        asked = (each for name, each in steps.items() if _is_about(name, f"{turn}x{place}"))
        if not any((each["answer"] or {}).get("choice") == ABANDON for each in asked):
            tool, arguments = began
            found.append(function_call(call_id_of(f"{turn}c{place}"), tool, arguments))
    return found


def call_id_of(key: str) -> str:
    """What the call of code with this key is called in the conversation."""
    return f"call_{key.replace('.', '_')}"


def _is_about(name: str, key: str) -> bool:
    """Whether the step is a question to people about the changed call that `key` is about."""
    return name == key or name.startswith(f"{key}.")


def _intent(run: RunState, place: str) -> Intent | None:
    made = run.memo.get(call_key(run, place))
    if made is not None:
        return Intent(tool=made[3], arguments=made[4], is_finished=True)
    began = run.memo.get(run.step_key(f"i{place}"))
    return None if began is None else Intent(tool=began[0], arguments=began[1], is_finished=False)


async def _decision(run: RunState, place: str, before: Intent, now: str) -> str:
    agent, first = run.agent.name, run.step_key(f"x{place}")
    key, asked = first, 1
    while (stored := run.memo.get(key)) is not None and stored["answer"] is None:
        # It was withdrawn, and nobody decided.
        asked += 1
        key = f"{first}.{asked}"
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
