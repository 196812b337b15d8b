"""What must hold at the end of a simulation: every answer is right, nothing is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ekiden.audit import verify_audit
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.events import Event
from ekiden.inbox.items import OPEN
from ekiden.runtime.tools.unfinished_calls import BROKEN_OFF
from ekiden.sessions import conversation
from ekiden.storage.base import MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from ekiden.testing.simulation.loop import drive, drive_on
from ekiden.testing.simulation.outside import Outside
from ekiden.testing.simulation.scene import Scene, Talk
from ekiden.testing.simulation.watch import InvariantChecker

_ONCE = (0, 1)
"""How often something may be done of which a talk says nothing."""


def is_over(truth: MemoryStore) -> bool:
    """Whether all work, waits and leases have ended: the lease of a claim whose reply was lost must
    expire first."""
    for each in truth._sessions.values():
        is_held = each.owner is not None and each.until > truth._advanced_s
        if each.status != "idle" or each.outcome is None or is_held:
            return False
    return not drive(truth.find_messages(MessageFilter(states={"open"}), limit=1))


def check_end(truth: MemoryStore, scene: Scene, outside: Outside, watch: InvariantChecker) -> None:
    """Compare everything with what it should be."""
    for session in truth._sessions.values():
        for rule, text in watch.records[session.id].unchanged(session):
            watch.accuse(rule, text)
        if watch.violations:
            continue
        if session.status != "idle" or session.outcome is None:
            standing = f"{session.status}, outcome {session.outcome}, with {session.agent}"
            watch.accuse("liveness", f"{session.id} did not come to an end: {standing}")
        elif session.owner is not None and session.until > truth._advanced_s:
            watch.accuse("liveness", f"{session.id} is still with {session.owner}")
    for talk in scene.talks:
        watch.check_acknowledged(talk.id)
    verification = drive_on(verify_audit(truth))
    if not verification.ok:
        watch.accuse("audit", str(verification.first))
    if watch.violations:
        return
    for talk in scene.talks:
        if talk.ask is None:
            _check_talk(truth, talk, watch)
        elif talk.answer != watch.answers.get(talk.id):
            watch.accuse("answer", f"{talk.id} was answered {watch.answers.get(talk.id)!r}")
        done = outside.done(talk.id)
        expected = dict.fromkeys(done, _ONCE) if talk.effects is None else talk.effects
        _check_effects(talk, expected, done, _unknown_effects(truth, talk, outside), watch)
    for what, times in outside.plain_effects.items():
        if times > 1 and not what.startswith(tuple(talk.id for talk in scene.talks)):
            watch.accuse("effect", f"{what} was done {times} times")
    _check_left_over(truth, watch)


def _check_effects(
    talk: Talk,
    expected: Mapping[str, int | Collection[int]],
    done: Counter[str],
    unknown: Counter[str],
    watch: InvariantChecker,
) -> None:
    for what in sorted({*expected, *done}):
        counts = range(done[what] - unknown[what], done[what] + 1)
        if not any(_fits(expected.get(what, 0), count) for count in counts):
            watch.accuse("effect", f"{talk.id}{what} was done {done[what]} times: {dict(done)}")


def _unknown_effects(truth: MemoryStore, talk: Talk, outside: Outside) -> Counter[str]:
    """What was done by calls of which the agent was told that they may have had an effect or not.

    It may do that again, by another call.
    """
    session = truth._sessions.get(talk.id)
    broken_off = set() if session is None else _broken_off(session.events)
    return Counter(
        what.removeprefix(talk.id)
        for key, what in outside.effects.items()
        if key.startswith(f"{talk.id}:") and key.rpartition(":")[2] in broken_off
    )


def _broken_off(events: Sequence[Event]) -> set[str]:
    """The steps of calls that were broken off by a handoff that was to be made at once; one that
    was not has to wait for them."""
    steps: dict[str, str] = {}
    broken_off: set[str] = set()
    closed: list[str] = []
    for event in events:
        if event.type == "llm_call" and event.step is not None:
            calls = [item["call_id"] for item in event.items if item.get("type") == "function_call"]
            turn = event.step.removesuffix("m")
            steps.update((call, f"{turn}t{place}") for place, call in enumerate(calls))
        elif event.error == BROKEN_OFF:
            closed += [item["call_id"] for item in event.items]
        elif event.type == "handoff":
            if (event.details or {}).get("policy") == "immediate":
                broken_off |= {steps[call] for call in closed}
            closed = []
    return broken_off


def _fits(expected: int | Collection[int], found: object) -> bool:
    return found in ((expected,) if isinstance(expected, int) else expected)


def _check_talk(truth: MemoryStore, talk: Talk, watch: InvariantChecker) -> None:
    session = truth._sessions.get(talk.id)
    if session is None:
        watch.accuse("lost", f"session {talk.id} was never made")
        return
    said = [text_of(item) for item in conversation(session.events) if is_message(item)]
    answer = said[-1] if said else ""
    is_right = (
        talk.answer is None
        or talk.answer == answer
        or (callable(talk.answer) and talk.answer(answer))
    )
    if _is_undone_handoff(session.events):
        is_right = True  # The program that asked for it began a run with it, which is over.
    elif session.outcome not in talk.outcomes:
        is_right = False
    if not is_right:
        watch.accuse("answer", f"{talk.id} ended {session.outcome} with {answer!r}")
    for name, expected in talk.variables.items():
        value = session.variables.get(name)
        if not _fits(expected, value):
            watch.accuse("variables", f"{talk.id}: {name} is {value}, and must be {expected}")
    asked = Counter(text for text in said if text in talk.texts)
    if asked != Counter(talk.texts):
        watch.accuse("message", f"{talk.id} was told {asked}")


def _is_undone_handoff(events: Sequence[Event]) -> bool:
    """Whether the last run was begun with a handoff that was undone."""
    begun = [each.details["id"] for each in events if each.details and "begins_run" in each.details]
    undone = [
        each.details["id"]
        for each in events
        if each.details and each.details.get("moves") == ["rolled_back"]
    ]
    return bool(begun) and begun[-1] in undone


def _check_left_over(truth: MemoryStore, watch: InvariantChecker) -> None:
    for name, collection in (("timers", TIMERS), ("inbox items", OPEN)):
        left = drive(truth.list_documents(collection))
        if left:
            watch.accuse("left", f"{name} are left: {[each.key for each in left][:5]}")
    messages = drive(truth.find_messages(MessageFilter(states={"open"})))
    if messages:
        watch.accuse("left", f"messages are left: {[each.key for each in messages][:5]}")
