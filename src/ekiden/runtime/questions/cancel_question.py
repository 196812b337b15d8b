"""Withdraws questions whose answers are no longer needed, and stops the work on them.

A question to an agent is withdrawn by a commit of the asking session. The same commit wakes the
asked session. So the asked session ends when it runs next, even if a process dies in the meantime.
If no process runs the asked session, it is ended at once. Questions to people are withdrawn just
before the commit. If the process dies between withdrawal and commit, a run that still needs the
answer asks again.
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
from ekiden.runtime.questions.due import restart_timeouts
from ekiden.runtime.questions.sessions import ANSWERS, QUERY_TIMER
from ekiden.runtime.state.attempt import GIVEN_UP, ended_details, give_up_tried
from ekiden.runtime.state.cursor import Cursor, OpenQuestion
from ekiden.runtime.state.parts import SideWrites
from ekiden.runtime.state.state import RunState
from ekiden.sessions.session import has_open_run, run_number
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
"""The collection of stop requests. The keys are session ids."""
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A request to stop a run."""

    session_id: str
    run: int
    answers: str | None = None
    """The id of the withdrawn question, after which the session ends for good. `None` if the
    session can be resumed."""
    version: int = 0

    def is_about(self, row: SessionRow) -> bool:
        """Whether the request concerns the session's last run, and this run has not ended."""
        return run_number(row) == self.run and row.status != "idle"


async def ask_to_stop(
    store: DocumentStore, session_id: str, run: int, *, answers: str | None = None
) -> None:
    """Store a stop request. It replaces an earlier request for the session."""
    body = {"run": run, "answers": answers}
    write = DocumentWrite(collection=STOPS, key=session_id, body=body)
    await store.write_documents([write])


async def take_back(store: DocumentStore, session_id: str) -> None:
    """Remove the stop request."""
    if await store.get_document(STOPS, session_id) is not None:
        await store.write_documents([DocumentWrite(collection=STOPS, key=session_id, body=None)])


async def stop_requests(store: DocumentStore, *, after: str = "") -> Sequence[StopRequest]:
    """A page of the stop requests, sorted by session id, with ids after `after`."""
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
    """The write that removes a handled request. It fails if there is a newer request."""
    return DocumentWrite(
        collection=STOPS, key=request.session_id, body=None, expected_version=request.version
    )


WITHDRAWN = Failed("ask.withdrawn", "the agent that asked no longer waits for the answer")
"""The outcome of a session whose answer is no longer needed."""
_ABANDON_S = 10.0
_NOT_NEEDED = "the run no longer waits"
REPLACED = "the code now asks something else"
"""Why a question was withdrawn, if the code that runs again asks another one in its place."""


async def withdraw_questions(run: RunState, *, keeps_answers: bool = False) -> None:
    """Withdraw all open questions of the run. The caller commits the withdrawal.

    With `keeps_answers`, answers that people already gave are kept for a resumed run.
    """
    questions, run.cursor.questions.open = run.cursor.questions.open, {}
    give_up_tried(run)
    answered = await withdraw(run, questions, by=run.agent.name)
    if keeps_answers:
        run.cursor.questions.open = answered
    for key in questions:
        if ".ask." in key and key not in run.cursor.questions.open:
            # Proves later that the call that waited for this approval was not made.
            run.remember(f"{key}.withdrawn", True)


async def suspend_questions(run: RunState) -> None:
    """For a run that is out of budget, keep the questions to sessions, and withdraw all other
    questions. The caller commits the withdrawal. The asked sessions resume together with the
    run."""
    questions = run.cursor.questions.open
    run.cursor.questions.open = {
        key: each for key, each in questions.items() if each.session is not None
    }
    withdrawn = {key: each for key, each in questions.items() if each.session is None}
    if withdrawn:
        await withdraw(run, withdrawn, by=run.agent.name)
    for question in run.cursor.questions.open.values():
        if question.due_us:
            run.write(timer_end(question))
            question.due_us = 0


async def withdraw(
    run: RunState, questions: Mapping[str, OpenQuestion], *, by: str
) -> dict[str, OpenQuestion]:
    """Withdraw these questions of agent `by`. The caller commits the withdrawal.

    Returns the questions that people had already answered.
    """
    answered: dict[str, OpenQuestion] = {}
    for key, question in questions.items():
        if question.kind == "query":
            withdraw_query(run, question)
        elif await withdraw_item(run.store, question, by, _NOT_NEEDED) == "answered":
            answered[key] = question
    if any(question.kind == "inbox" for question in questions.values()):
        await restart_timeouts(run)
    return answered


def withdraw_query(run: RunState, question: OpenQuestion) -> None:
    """Withdraw the question to this agent. The caller commits the withdrawal."""
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
    """The write that removes the timer of a question to an agent."""
    return timer_removal(Timer(due_us=question.due_us, kind=QUERY_TIMER, id=question.id))


def is_withdrawn_by_run(item: InboxItem) -> bool:
    """Whether the asking run withdrew the item. `False` if a person withdrew the item."""
    return item.status == "cancelled" and item.reason in (_NOT_NEEDED, REPLACED)


async def is_withdrawn(run: RunState) -> bool:
    """Whether the session was opened for a question that is withdrawn."""
    message_id = run.meta.get(ANSWERS)
    if message_id is None or not run.was_woken:
        return False
    found = await run.store.find_messages(MessageFilter(keys=[message_id]), limit=1)
    return bool(found) and found[0].state == "cancelled"


async def is_given_up(run: RunState) -> bool:
    """Whether the session answers a question, but the asking run no longer waits for the answer."""
    message_id = run.meta.get(ANSWERS)
    if message_id is None:
        return False
    found = await run.store.find_messages(MessageFilter(keys=[message_id]), limit=1)
    return not found or found[0].state != "open"


def is_left(row: SessionRow) -> bool:
    """Whether the session's run was interrupted and no worker resumes it."""
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
    """End this session, whose answer is no longer needed, if no process runs it.

    With `only_ready`, a session that waits itself is not ended. With `only_fresh`, a session that
    has started is not ended. A running session is not changed; with `insist`, its worker is asked
    to stop. The session ends when it runs next. An answer that it gives before is stored as a late
    answer.
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
        questions, cursor.questions.open = cursor.questions.open, {}
        side = await withdraw_stored(store, questions.values(), by=row.agent)
        await store.commit(claim, await _end_commit(store, row, cursor, side))
        for question in questions.values():
            if question.session is not None:
                await abandon(store, question.session, question.id, insist=insist)


async def _end_commit(store: Store, row: SessionRow, cursor: Cursor, side: SideWrites) -> Commit:
    """The commit that ends a session whose answer is no longer needed."""
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
        patch=SessionPatch(
            status="idle",
            outcome=WITHDRAWN.kind,
            conclusion=WITHDRAWN.kind,
            cursor=cursor.to_json(),
        ),
        events=[*events, ended],
        documents=side.documents,
        settles=side.settles,
        wakes=side.wakes,
        release=True,
    )


async def withdraw_stored(
    store: Store, questions: Iterable[OpenQuestion], *, by: str, reason: str = _NOT_NEEDED
) -> SideWrites:
    """Withdraw the questions to people now, and return the writes that withdraw the questions to
    agents, for the next commit."""
    side = SideWrites()
    for question in questions:
        if question.kind == "inbox":
            await withdraw_item(store, question, by, reason)
            continue
        side.documents.append(timer_end(question))
        side.settles.append(MessageSettle(key=question.id, state="cancelled"))
        if question.session is not None:
            side.wakes.append(question.session)
    return side


async def withdraw_item(store: Store, question: OpenQuestion, by: str, reason: str) -> str:
    """Withdraw the question to people; returns its status if it was closed before."""
    from ekiden.inbox import Inbox

    # The runtime withdraws it, even if this is called from an agent's code.
    with suppress(InboxError), acting_as(""):
        try:
            await Inbox(store).cancel(question.id, by=by, reason=reason)
        except InboxItemClosed as closed:
            return closed.status
    return ""
