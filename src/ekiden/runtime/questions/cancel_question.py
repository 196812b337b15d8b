"""Withdraws questions whose answers are not needed any more, and stops the work on them.

A question to an agent is withdrawn by a commit of the asking session. The same commit wakes the
session that was to answer, so that it ends itself when it is next run, even if a process dies in
between; if no process has it, it is ended at once. Questions to people are withdrawn just before:
if the process dies then, a run that still needs the answer asks them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from ekiden.core.current_agent import acting_as
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import SessionBusy, SessionError, StoreError
from ekiden.core.errors.messages import InboxError, InboxItemClosed
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Failed
from ekiden.core.values import owner_name
from ekiden.runtime.questions.due import begin_time_anew
from ekiden.runtime.questions.questions import QUERY_TIMER
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.attempt import GIVEN_UP, ended_details, give_up_tried
from ekiden.runtime.state.cursor import Cursor, OpenQuestion
from ekiden.runtime.state.state import RunState
from ekiden.sessions.progress import has_open_run, run_number
from ekiden.storage.base import (
    Commit,
    DocumentStore,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    SessionPatch,
    SessionRow,
    Store,
)
from ekiden.storage.timers import Timer, timer_removal

STOPS = "run.stops"
"""The collection; keys are sessions."""
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A request to stop a run."""

    session_id: str
    run: int
    answers: str | None = None
    """The question whose answer is not needed any more: the session then ends for good. `None`: it
    stays as it is, and can be resumed."""
    version: int = 0

    def is_about(self, row: SessionRow) -> bool:
        """Whether the run is the session's last one, and not over."""
        return run_number(row) == self.run and row.status != "idle"


async def ask_to_stop(
    store: DocumentStore, session_id: str, run: int, *, answers: str | None = None
) -> None:
    """Store the request, over an earlier one."""
    body = {"run": run, "answers": answers}
    write = DocumentWrite(collection=STOPS, key=session_id, body=body)
    await store.write_documents([write])


async def take_back(store: DocumentStore, session_id: str) -> None:
    """Remove the request: it was withdrawn, or the session is stopped."""
    if await store.get_document(STOPS, session_id) is not None:
        await store.write_documents([DocumentWrite(collection=STOPS, key=session_id, body=None)])


async def stop_requests(store: DocumentStore, *, after: str = "") -> Sequence[StopRequest]:
    """Some requests, by session, those above `after`."""
    found = await store.list_documents(STOPS, after=after, limit=_PAGE)
    return [
        StopRequest(
            session_id=each.key,
            run=int(each.body.get("run", 0)),
            answers=each.body.get("answers"),
            version=each.version,
        )
        for each in found
    ]


def removal(request: StopRequest) -> DocumentWrite:
    """The request is seen to, unless there is another one by now."""
    return DocumentWrite(
        collection=STOPS, key=request.session_id, body=None, expected_version=request.version
    )


WITHDRAWN = Failed("ask.withdrawn", "the agent that asked no longer waits for the answer")
"""The outcome of a session whose answer is not needed."""
_ABANDON_S = 10.0
_NOT_NEEDED = "the run does not wait any more"


async def withdraw_questions(run: RunState, *, keeps_answers: bool = False) -> None:
    """The run stops waiting for the answers to its questions; the caller commits it.

    With `keeps_answers`, answers that people gave already are kept for a run that resumes.
    """
    asks, run.cursor.questions.open = run.cursor.questions.open, {}
    give_up_tried(run)
    answered = await withdraw(run, asks, by=run.agent.name)
    if keeps_answers:
        run.cursor.questions.open = answered
    for key in asks:
        if ".ask." in key and key not in run.cursor.questions.open:
            # The call that waited for it was not made, which is told when the turn is closed.
            run.remember(f"{key}.withdrawn", True)


async def suspend_questions(run: RunState) -> None:
    """The run is out of budget: agents of the team that it asked stay where they are, and go on
    when it does; the caller commits it."""
    asks = run.cursor.questions.open
    run.cursor.questions.open = {
        key: each for key, each in asks.items() if each.session is not None
    }
    gone = {key: each for key, each in asks.items() if each.session is None}
    if gone:
        await withdraw(run, gone, by=run.agent.name)
    for question in run.cursor.questions.open.values():
        if question.due_us:
            run.write(timer_end(question))
            question.due_us = 0


async def withdraw(
    run: RunState, asks: Mapping[str, OpenQuestion], *, by: str
) -> dict[str, OpenQuestion]:
    """Withdraw these questions of agent `by`; the caller commits it.

    Returns those that people answered before.
    """
    answered: dict[str, OpenQuestion] = {}
    for key, question in asks.items():
        if question.kind == "query":
            withdraw_query(run, question)
        elif await _withdraw_item(run.store, question, by=by) == "answered":
            answered[key] = question
    if any(question.kind == "inbox" for question in asks.values()):
        await begin_time_anew(run)
    return answered


def withdraw_query(run: RunState, question: OpenQuestion) -> None:
    """Withdraw the question to this agent; the caller commits it."""
    side = run.side_writes
    side.settles.append(MessageSettle(key=question.id, state="cancelled"))
    side.documents.append(timer_end(question))
    if question.session is not None:
        side.wakes.append(question.session)
        side.afterwards.append(partial(run.children.stop, question.session))
        side.afterwards.append(
            partial(abandon, run.store, question.session, question.id, insist=True)
        )


def timer_end(question: OpenQuestion) -> DocumentWrite:
    """What removes the timer of a question to an agent."""
    return timer_removal(Timer(due_us=question.due_us, kind=QUERY_TIMER, id=question.id))


def is_withdrawn_by_run(item: InboxItem) -> bool:
    """Whether the run that asked withdrew the item, and not a person."""
    return item.status == "cancelled" and item.reason == _NOT_NEEDED


async def is_withdrawn(run: RunState) -> bool:
    """Whether the session was opened for a question whose answer is not needed any more."""
    message_id = run.meta.get(ANSWERS)
    if message_id is None or not run.was_woken:
        return False
    found = await run.store.find_messages(MessageFilter(keys=[message_id]), limit=1)
    return bool(found) and found[0].state == "cancelled"


async def is_given_up(run: RunState) -> bool:
    """Whether the asker does not wait for the session's answer any more, or never did."""
    message_id = run.meta.get(ANSWERS)
    if message_id is None:
        return False
    found = await run.store.find_messages(MessageFilter(keys=[message_id]), limit=1)
    return not found or found[0].state != "open"


def is_left(row: SessionRow) -> bool:
    """Whether its run was interrupted, so that only the asker would resume it."""
    return row.status == "idle" and not row.outcome and has_open_run(row)


async def abandon(
    store: Store,
    session_id: str,
    message_id: str,
    *,
    only_ready: bool = False,
    only_fresh: bool = False,
    insist: bool = False,
) -> None:
    """End this session, whose answer is not needed, if no process runs it.

    With `only_ready` only if it does not wait itself, with `only_fresh` only if it has not begun. A
    running session is left alone; with `insist`, the worker that has it is asked to stop. It ends
    at the latest when it is run next, and an answer that it gives before that is late and stored.
    """
    with suppress(SessionError, StoreError):
        try:
            claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_ABANDON_S)
        except SessionBusy:
            if insist:
                number = run_number(await store.get(session_id))
                await ask_to_stop(store, session_id, number, answers=message_id)
            return
        is_over = row.status == "idle" and not is_left(row)
        is_spared = (only_ready and row.status == "waiting") or (only_fresh and row.seq > 1)
        if row.meta.get(ANSWERS) != message_id or is_over or is_spared:
            await store.release(claim)
            return
        cursor = Cursor.from_json(row.cursor)
        asks, cursor.questions.open = cursor.questions.open, {}
        for question in asks.values():
            if question.kind == "inbox":
                await _withdraw_item(store, question, by=row.agent)
        queries = [question for question in asks.values() if question.kind == "query"]
        await store.commit(claim, await _ending(store, row, cursor, queries))
        for question in queries:
            if question.session is not None:
                await abandon(store, question.session, question.id, insist=insist)


async def _ending(
    store: Store, row: SessionRow, cursor: Cursor, queries: Iterable[OpenQuestion]
) -> Commit:
    events: list[Event] = []
    given_up_now = [each for each in cursor.handoffs.tried if not each.is_asked_of(row.id)]
    for tried in given_up_now:
        given_up = Event(
            session_id=row.id,
            seq=row.seq + 1 + len(events),
            type="handoff",
            at_us=await store.now_us(),
            agent=row.agent,
            details=ended_details(tried),
            error=GIVEN_UP,
        )
        if cursor.audit.head:
            cursor.audit.add(given_up)
        events.append(given_up)
    cursor.handoffs.tried = tuple(
        each for each in cursor.handoffs.tried if each not in given_up_now
    )
    ended = Event(
        session_id=row.id,
        seq=row.seq + 1 + len(events),
        type="agent_error",
        at_us=await store.now_us(),
        agent=row.agent,
        details={"outcome": WITHDRAWN.kind, "code": WITHDRAWN.code},
        error=WITHDRAWN.error,
    )
    return Commit(
        patch=SessionPatch(status="idle", outcome=WITHDRAWN.kind, cursor=cursor.to_json()),
        events=[*events, ended],
        documents=[timer_end(question) for question in queries],
        settles=[MessageSettle(key=question.id, state="cancelled") for question in queries],
        wakes=[question.session for question in queries if question.session is not None],
        release=True,
    )


async def _withdraw_item(store: Store, question: OpenQuestion, *, by: str) -> str:
    """How the item was closed before, if it was."""
    from ekiden.inbox import Inbox

    # The runtime does this, from whichever agent's code it was called.
    with suppress(InboxError), acting_as(""):
        try:
            await Inbox(store).cancel(question.id, by=by, reason=_NOT_NEEDED)
        except InboxItemClosed as closed:
            return closed.status
    return ""
