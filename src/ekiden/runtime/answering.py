"""Answers: finding those to the run's own questions, and giving the one that it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, assert_never

from ekiden.core.errors import SessionError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.inbox_errors import InboxError
from ekiden.core.inbox_item import InboxItem
from ekiden.core.message_answers import answer_json, error_json
from ekiden.core.outcomes import Done, Failed, Outcome, OutOfBudget, Refused, Waiting
from ekiden.runtime.cursor import Cursor, OpenQuestion
from ekiden.runtime.inboxes import read_item
from ekiden.runtime.leases import owner_name
from ekiden.runtime.memo import load_memo
from ekiden.runtime.question_sessions import ANSWERS
from ekiden.runtime.state import RunState
from ekiden.storage.base import (
    Commit,
    MessageFilter,
    MessageSettle,
    SessionPatch,
    Store,
    StoredMessage,
)
from ekiden.tools.output import to_jsonable

_ABANDON_S = 10.0
_WITHDRAWN = "ask.withdrawn"


async def collect_answers(run: RunState) -> bool:
    """Store the answers that came, for the code that waits for them; whether there were any.

    A question of which one answer is enough is withdrawn with the others when there is a good one.
    """
    await run.see_wakes()
    messages = await _messages(run)
    items = await _items(run)
    found, enough = 0, set[str]()
    for key, question in list(run.cursor.asks.items()):
        if question.kind == "query":
            message = messages.get(question.id)
            if message is None or message.state != "open":
                _store_answer(run, key, question, message)
                found += 1
                if question.group is not None and message is not None:
                    enough |= {question.group} if message.state == "answered" else set()
        else:
            item = items.get(question.id)
            if item is None or item.status != "open":
                _store_decision(run, key, question, item)
                found += 1
    if not found:
        return False
    _withdraw_rivals(run, enough)
    fault_point("ask.answers.before_commit")
    await run.commit(status="ready", outcome="")
    fault_point("ask.answers.after_commit")
    await load_memo(run)
    return True


async def _messages(run: RunState) -> dict[str, StoredMessage]:
    keys = [each.id for each in run.cursor.asks.values() if each.kind == "query"]
    if not keys:
        return {}
    found = await run.store.find_messages(MessageFilter(keys=keys), limit=len(keys))
    return {message.key: message for message in found if message.key is not None}


async def _items(run: RunState) -> dict[str, InboxItem]:
    ids = [each.id for each in run.cursor.asks.values() if each.kind == "inbox"]
    if not ids:
        return {}
    items = [await read_item(run.store, item_id) for item_id in ids]
    return {item.id: item for item in items if item is not None}


def _store_answer(
    run: RunState, key: str, question: OpenQuestion, message: StoredMessage | None
) -> None:
    state = "lost" if message is None else message.state
    answer = None if message is None else message.answer
    _settle_step(run, key, question, state, answer)
    details = {"id": question.id, "from": question.who, "state": state}
    error = answer.get("error") if isinstance(answer, dict) else None
    run.record("message", details={"answer": details}, error=error)
    if state in ("answered", "failed"):
        run.beside.settles.append(MessageSettle(key=question.id, state="answered", forget=True))


def _store_decision(
    run: RunState, key: str, question: OpenQuestion, item: InboxItem | None
) -> None:
    answer = None if item is None or item.answer is None else item.answer.to_json()
    state = "lost" if item is None else item.status
    _settle_step(run, key, question, state, answer)
    details: dict[str, Any] = {"item": question.id, "status": state}
    if item is not None:
        details["kind"] = item.kind
    if answer is not None:
        details["answer"] = {name: value for name, value in answer.items() if value}
    run.record("inbox", details=details)


def _settle_step(run: RunState, key: str, question: OpenQuestion, state: str, answer: Any) -> None:
    result = {
        "id": question.id,
        "who": question.who,
        "by": run.agent.name,
        "state": state,
        "answer": answer,
    }
    run.remember(key, result)
    del run.cursor.asks[key]


def _withdraw_rivals(run: RunState, groups: set[str]) -> None:
    for key, question in list(run.cursor.asks.items()):
        if question.group in groups:
            run.beside.settles.append(MessageSettle(key=question.id, state="cancelled"))
            _settle_step(run, key, question, "cancelled", None)


async def release_questions(
    store: Store, asks: Mapping[str, OpenQuestion], *, by: str
) -> list[MessageSettle]:
    """Nobody waits for these answers any more: withdraw what people were asked, and give what the
    next commit has to settle."""
    settles = []
    for question in asks.values():
        if question.kind == "query":
            settles.append(MessageSettle(key=question.id, state="cancelled"))
            if question.session is not None:
                await _abandon(store, question.session, question.id)
            continue
        from ekiden.inbox import Inbox

        with suppress(InboxError):
            await Inbox(store).cancel(question.id, by=by, reason="the run does not wait any more")
    return settles


async def _abandon(store: Store, session_id: str, message_id: str) -> None:
    """Nobody needs the answer of this session: if it is parked, it asks and does nothing more.

    One that is at work is left alone; its answer comes too late and is kept.
    """
    try:
        claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_ABANDON_S)
    except SessionError:
        return
    cursor = Cursor.from_json(row.cursor)
    if row.meta.get(ANSWERS) != message_id or row.status == "idle":
        await store.release(claim)
        return
    asks, cursor.asks = cursor.asks, {}
    settles = await release_questions(store, asks, by=row.agent)
    ended = Event(
        session_id=session_id,
        seq=row.seq + 1,
        type="agent_error",
        at_us=await store.now_us(),
        agent=row.agent,
        details={"outcome": "failed", "code": _WITHDRAWN},
        error="whoever asked does not wait for the answer any more",
    )
    patch = SessionPatch(status="idle", outcome="failed", cursor=cursor.to_json())
    await store.commit(claim, Commit(patch=patch, events=[ended], settles=settles, release=True))


async def withdraw_questions(run: RunState) -> None:
    """The run does not wait for the answers to its questions any more; the caller commits it."""
    asks, run.cursor.asks = run.cursor.asks, {}
    run.beside.settles.extend(await release_questions(run.store, asks, by=run.agent.name))


def give_answer(run: RunState, outcome: Outcome) -> None:
    """If the session was opened for a question, its outcome is the answer; the caller commits."""
    message_id = run.meta.get(ANSWERS)
    if message_id is None:
        return
    state: Literal["answered", "failed"] = "failed"
    answer: dict[str, Any] = {}
    match outcome:
        case Waiting():
            return
        case Done(output):
            state, answer = "answered", answer_json(to_jsonable(output))
        case Refused(reason):
            answer = error_json(f"the model declined: {reason}", code="model.refused")
        case Failed(code, error):
            answer = error_json(error, code=code)
        case OutOfBudget(limit, allowed, used):
            told = f"the limit of {allowed:g} {limit} was reached ({used:g} used)"
            answer = error_json(told, code="run.out_of_budget")
        case _ as never:
            assert_never(never)
    run.beside.settles.append(MessageSettle(key=str(message_id), state=state, answer=answer))
