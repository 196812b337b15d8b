"""What must be true of questions, sessions and the inbox, whatever happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.inbox import Inbox
from ekiden.runtime.questions.due import answering_session
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import MessageFilter, SessionRow, StoredMessage
from tests.unit.runtime.asking_machine.office import Office
from tests.unit.runtime.asking_machine.stores import MortalMemory

TOPS = ("s0", "s1")
"""The sessions that people write to."""
ENDS = {"answered", "failed", "timed_out", "cancelled"}


async def all_sessions(store: MortalMemory) -> list[SessionRow]:
    """All there are."""
    return list((await store.list(limit=10_000)).sessions)


async def check_always(store: MortalMemory, office: Office) -> None:
    """At any moment, even just after a death."""
    assert office.troubles == []
    for key, states in store.endings.items():
        assert len(states) == 1, f"{key} ended more than once: {states}"
        assert states[0] in ENDS, states
    rows = await all_sessions(store)
    asked = await _asked(store, rows)
    answering = [row.meta[ANSWERS] for row in rows if ANSWERS in row.meta]
    assert sorted(answering) == sorted(asked), "each question has one session, and is on record"
    asks = {row.id: _open_ids(row) for row in rows}
    for document in await store.list_documents("inbox.open", limit=10_000):
        session_id = document.body["session_id"]
        assert document.key in asks[session_id], "nobody needs what people are asked"
    await _check_waits(store, rows)
    _check_effects(store, office)


async def _asked(store: MortalMemory, rows: Sequence[SessionRow]) -> list[str]:
    """The ids of all questions to members of the team that were ever asked."""
    return [
        event.details["asks"]["id"]
        for row in rows
        for event in await store.events(row.id)
        if event.details and "asks" in event.details
    ]


def _open_ids(row: SessionRow) -> set[str]:
    return {question.id for question in Cursor.from_json(row.cursor).questions.open.values()}


async def _check_waits(store: MortalMemory, rows: Sequence[SessionRow]) -> None:
    """What is stored as waited for is what some session waits for."""
    waits = await store.find_messages(MessageFilter(waited_for=True, states={"open"}), limit=10_000)
    needed = {question for row in rows for question in _open_ids(row)}
    assert {message.key for message in waits} <= needed
    timers = await store.list_documents("timers", limit=10_000)
    timed = {document.key.rpartition("/")[2] for document in timers}
    for message in waits:
        is_timed = message.key in timed
        assert is_timed or await _waits_for_person(store, message), "it is waited for for ever"


async def _waits_for_person(store: MortalMemory, message: StoredMessage) -> bool:
    """Whether a person has to decide something before there is an answer."""
    todo = [answering_session(message)]
    while todo:
        row = await store.get(todo.pop())
        for question in Cursor.from_json(row.cursor).questions.open.values():
            if question.kind == "inbox":
                return True
            if question.session is not None:
                todo.append(question.session)
    return False


def _check_effects(store: MortalMemory, office: Office) -> None:
    """What was done again was under way when somebody died or was stopped, and has one key."""
    for done in (office.effects, office.paid):
        for key, times in Counter[Any](done).items():
            assert times <= 1 + store.deaths + office.interruptions, key


async def check_quiet(store: MortalMemory) -> None:
    """When workers have done what there was to do and nobody died meanwhile."""
    for row in await all_sessions(store):
        assert row.status != "ready", row
        assert row.owner is None, row


async def check_end(store: MortalMemory, office: Office) -> None:
    """When everything that could happen has happened."""
    await check_always(store, office)
    rows = await all_sessions(store)
    for row in rows:
        assert (row.status, row.owner) == ("idle", None), row
        assert row.outcome in ("done", "failed", "out_of_budget") or not row.cursor, row
        assert _open_ids(row) == set(), row
    assert await store.find_messages(MessageFilter(waited_for=True, states={"open"})) == []
    assert (await Inbox(store).list()).items == []
    assert await store.list_documents("timers") == []
    assert set(store.endings) == set(await _asked(store, rows)), "every question came to an end"
    await _check_heard_once(store, rows)


async def _check_heard_once(store: MortalMemory, rows: Sequence[SessionRow]) -> None:
    """Nothing is asked twice, and no answer is told twice; what nobody was told came too late, or
    was not wanted any more."""
    for row in rows:
        events = await store.events(row.id)
        heard = Counter(
            event.details["answer"]["id"]
            for event in events
            if event.type == "message" and event.details and "answer" in event.details
        )
        assert all(times == 1 for times in heard.values()), heard
        subjects: set[str] = set()
        for number, event in enumerate(events):
            if _is_turning_point(event):
                subjects.clear()
            asked = (event.details or {}).get("asks")
            if asked is None:
                continue
            assert asked["subject"] not in subjects, f"{row.id} asked twice: {asked}"
            subjects.add(asked["subject"])
            if asked["id"] not in heard and store.endings[asked["id"]] != ["cancelled"]:
                assert any(map(_is_turning_point, events[number:])), f"{asked} was not heard of"


def _is_turning_point(event: Event) -> bool:
    """Whether whoever had asked did not go on: by a message, a handoff, its end, or because
    somebody stopped the run."""
    is_message = event.type == "message" and bool(event.items) and event.step is None
    is_stopped = event.details == {"outcome": "cancelled"} and event.session_id in TOPS
    return is_message or is_stopped or event.type in ("handoff", "agent_error")
