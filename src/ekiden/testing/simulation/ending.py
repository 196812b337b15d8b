"""What must be true when all is over: everybody got the right answer, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ekiden.audit import verify_audit
from ekiden.core.events import Event
from ekiden.core.items import is_message, text_of
from ekiden.inbox.documents import OPEN
from ekiden.sessions import conversation
from ekiden.storage.base import MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from ekiden.testing.simulation.driving import drive, drive_on
from ekiden.testing.simulation.outside import Outside
from ekiden.testing.simulation.scene import Scene, Talk
from ekiden.testing.simulation.watch import Watch


def is_over(truth: MemoryStore) -> bool:
    """Whether nobody works or waits any more, and nobody has anything: a claim that came late is a
    lease of which nobody knows, and has to run out."""
    for each in truth._sessions.values():
        is_held = each.owner is not None and each.until > truth._advanced_s
        if each.status != "idle" or each.outcome is None or is_held:
            return False
    return not drive(truth.find_messages(MessageFilter(states={"open"}), limit=1))


def check_end(truth: MemoryStore, scene: Scene, outside: Outside, watch: Watch) -> None:
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
        if talk.effects is not None:
            _check_effects(talk, talk.effects, outside.done(talk.id), watch)
    _check_left_over(truth, watch)


def _check_effects(
    talk: Talk,
    expected: Mapping[str, int | Collection[int]],
    done: Counter[str],
    watch: Watch,
) -> None:
    for what in sorted({*expected, *done}):
        if not _fits(expected.get(what, 0), done[what]):
            watch.accuse("effect", f"{talk.id}{what} was done {done[what]} times: {dict(done)}")


def _fits(expected: int | Collection[int], found: object) -> bool:
    return found in ((expected,) if isinstance(expected, int) else expected)


def _check_talk(truth: MemoryStore, talk: Talk, watch: Watch) -> None:
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


def _check_left_over(truth: MemoryStore, watch: Watch) -> None:
    for name, collection in (("timers", TIMERS), ("inbox items", OPEN)):
        left = drive(truth.list_documents(collection))
        if left:
            watch.accuse("left", f"{name} are left: {[each.key for each in left][:5]}")
    messages = drive(truth.find_messages(MessageFilter(states={"open"})))
    if messages:
        watch.accuse("left", f"messages are left: {[each.key for each in messages][:5]}")
