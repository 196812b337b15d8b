"""Collects the answers to the run's questions, and answers the question that opened the session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, assert_never

from ekiden.core.conversation.messages import answer_json, error_json
from ekiden.core.conversation.model import Usage
from ekiden.core.documents import to_json
from ekiden.core.errors import SessionError
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import GuardrailError
from ekiden.core.questions import InboxItem
from ekiden.core.runs import Done, Failed, Outcome, OutOfBudget, Refused, Waiting
from ekiden.core.values import dumps
from ekiden.runtime.questions.cancel_question import (
    WITHDRAWN,
    abandon,
    is_withdrawn_by_run,
    timer_end,
    withdraw_query,
)
from ekiden.runtime.questions.due import later_timer_end, restart_timeouts
from ekiden.runtime.questions.questions import read_item
from ekiden.runtime.questions.sessions import ANSWERS, FIXED_LIMITS, OWN_LIMITS
from ekiden.runtime.state.budget import UnknownPrice, own_left, spend_own
from ekiden.runtime.state.cursor import Cursor, OpenQuestion
from ekiden.runtime.state.journal import OF
from ekiden.runtime.state.state import RunState, load_memo
from ekiden.storage.base import MessageFilter, MessageSettle, StoredMessage
from ekiden.tools.output import to_jsonable

_ENDS_ASKER = "ends_asker"
"""Key of an answer: the failure also fails the asking run, because no model can fix it."""


async def collect_answers(run: RunState) -> bool:
    """Store new answers for the waiting code, and return whether there were new answers."""
    waited = list(run.cursor.questions.open)
    if not await note_answers(run):
        return False
    settled = run.remembered(waited)
    fault_point("ask.answers.before_commit")
    await run.commit(status="ready", outcome="")
    fault_point("ask.answers.after_commit")
    if run.children.eager and run.memo:
        # A plan's memo may be large, so it is not read again.
        run.memo = {**run.memo, **settled}
    else:
        await load_memo(run)
    return True


async def note_answers(run: RunState) -> bool:
    """Record new answers, and return whether there were new answers. The caller commits them.

    After the first successful answer to a group of questions, the other questions of the group are
    withdrawn.
    """
    await run.see_wakes()
    messages = await _messages(run)
    items = await _items(run)
    found, enough = 0, set[str]()
    for key, question in list(run.cursor.questions.open.items()):
        if question.kind == "query":
            message = messages.get(question.id)
            if message is None or message.state != "open":
                await _count_unanswered(run, question, message)
                _store_answer(run, key, question, message)
                found += 1
                if question.group is not None and message is not None:
                    is_good = message.state in ("answered", "late") and "payload" in message.answer
                    enough |= {question.group} if is_good else set()
        else:
            item = items.get(question.id)
            if item is not None and is_withdrawn_by_run(item):
                # A process withdrew the item and died before it stored the withdrawal here.
                del run.cursor.questions.open[key]
                found += 1
            elif item is None or item.status != "open":
                _store_decision(run, key, question, item)
                found += 1
    if not found:
        return False
    if any(item.status != "open" for item in items.values()):
        await restart_timeouts(run)
    _withdraw_groups(run, enough)
    return True


async def _messages(run: RunState) -> dict[str, StoredMessage]:
    keys = [each.id for each in run.cursor.questions.open.values() if each.kind == "query"]
    if not keys:
        return {}
    found = await run.store.find_messages(MessageFilter(keys=keys), limit=len(keys))
    return {message.key: message for message in found if message.key is not None}


async def _items(run: RunState) -> dict[str, InboxItem]:
    ids = [each.id for each in run.cursor.questions.open.values() if each.kind == "inbox"]
    if not ids:
        return {}
    items = [await read_item(run.store, item_id) for item_id in ids]
    return {item.id: item for item in items if item is not None}


def _store_answer(
    run: RunState, key: str, question: OpenQuestion, message: StoredMessage | None
) -> None:
    state = "lost" if message is None else message.state
    answer = None if message is None else message.answer
    if state == "late":
        # The answer came after the timeout, but before the run handled the timeout.
        state = "failed" if answer is None or "error" in answer else "answered"
    if isinstance(answer, dict):
        if answer.get(_ENDS_ASKER):
            raise UnknownPrice(answer["error"])
        person_us = answer.pop("person_us", 0)
        run.cursor.questions.person_us = max(run.cursor.questions.person_us, person_us)
        _count_spent(run, question, answer.pop("spent", None))
        if message is not None and person_us:
            run.write(later_timer_end(message, person_us))
    at_us = None if message is None else message.settled_at_us
    _settle_step(run, key, question, state, answer, at_us=at_us)
    details = {"id": question.id, "from": question.recipient, "state": state}
    error = answer.get("error") if isinstance(answer, dict) else None
    run.record("message", details={"answer": details}, error=error)
    run.write(timer_end(question))
    _handle_unfinished(run, question, state, is_deadlock="cycle" in (answer or ()))


async def _count_unanswered(
    run: RunState, question: OpenQuestion, message: StoredMessage | None
) -> None:
    """Count the usage of a session that timed out, from its row."""
    if question.session is None or message is None or message.state != "timed_out":
        return
    await run.children.stop(question.session)
    with suppress(SessionError):
        cursor = Cursor.from_json((await run.store.get(question.session)).cursor)
        _count_spent(
            run,
            question,
            {"usage": cursor.budget.usage.to_json(), "seconds": cursor.budget.spent_s},
        )


def _count_spent(run: RunState, question: OpenQuestion, spent: dict[str, Any] | None) -> None:
    if spent is not None and question.session is not None:
        count_used(run, question, Usage.from_json(spent["usage"]), spent["seconds"])


def count_used(run: RunState, question: OpenQuestion, used: Usage, seconds: float) -> None:
    """Add the asked session's usage to the run's, without usage that is already counted. Sessions
    work concurrently, so their seconds overlap and are not added up."""
    cursor, new = run.cursor, Usage()
    new.add(used)
    if question.counted:
        new.take(Usage.from_json(question.counted))
    cursor.budget.usage.add(new)
    cursor.budget.others = cursor.budget.others or Usage()
    cursor.budget.others.add(new)
    if run.agent.budget is not None:
        spend_own(run, new.tokens, 0.0, new.cost)
    cursor.budget.spent_s = max(cursor.budget.spent_s, question.at_s + seconds)


def _handle_unfinished(
    run: RunState, question: OpenQuestion, state: str, *, is_deadlock: bool
) -> None:
    """End or continue the asked session, which may be unfinished when its question ends.

    After a timeout it is ended. After a deadlock it continues, like a session that got a notice,
    unless it has not started.
    """
    if question.session is None:
        return
    if is_deadlock:
        run.side_writes.afterwards.append(
            partial(abandon, run.store, question.session, question.id, only_fresh=True)
        )
    if not run.options.drives and not run.agent.traits.is_supervisor:
        return
    if state == "timed_out":
        run.side_writes.afterwards.append(
            partial(abandon, run.store, question.session, question.id, only_ready=True, insist=True)
        )
    elif is_deadlock and run.options.drives:
        run.children.notified = [*(run.children.notified or ()), question.session]


def _store_decision(
    run: RunState, key: str, question: OpenQuestion, item: InboxItem | None
) -> None:
    answer = None if item is None or item.answer is None else to_json(item.answer)
    state = "lost" if item is None else item.status
    closed: dict[str, str] = {}
    if item is not None and state == "cancelled":
        closed = {"by": item.closed_by, "reason": item.reason}
    _settle_step(run, key, question, state, answer, closed)
    details: dict[str, Any] = {"item": question.id, "status": state}
    if item is not None:
        details["kind"] = item.kind
        if item.closed_by and item.closed_by != item.from_agent:
            details["by"] = item.closed_by
    if closed.get("reason"):
        details["reason"] = closed["reason"]
    if answer is not None:
        details["answer"] = {
            name: value
            for name, value in answer.items()
            if value and (name != "scope" or answer["always"])
        }
    run.record("inbox", details=details)


def _settle_step(
    run: RunState,
    key: str,
    question: OpenQuestion,
    state: str,
    answer: Any,
    closed: Mapping[str, str] | None = None,
    *,
    at_us: int | None = None,
) -> None:
    result: dict[str, Any] = {
        "id": question.id,
        "who": question.recipient,
        "by": run.agent.name,
        "state": state,
        "answer": answer,
    }
    if question.of is not None:
        result[OF] = question.of
    if at_us is not None:
        result["at_us"] = at_us
    if closed:
        result["closed"] = dict(closed)
    run.remember(key, result)
    del run.cursor.questions.open[key]


def _withdraw_groups(run: RunState, groups: set[str]) -> None:
    """Withdraw the open questions of groups that have a good answer."""
    for key, question in list(run.cursor.questions.open.items()):
        if question.group in groups:
            withdraw_query(run, question)
            _settle_step(run, key, question, "cancelled", None)


def _checked(payload: Any, most: int) -> tuple[Literal["answered", "failed"], dict[str, Any]]:
    """The answer, or a failure if it is too large for a message."""
    size = len(dumps(payload).encode("utf-8", "surrogatepass"))
    if size <= most:
        return "answered", answer_json(payload)
    problem = f"the answer has {size} bytes, more than the {most} that a message may have"
    return "failed", error_json(problem, code="bus.payload_too_large")


def _is_limit_of_asker(run: RunState, over: OutOfBudget) -> bool:
    """Whether the reached limit belongs to the asking run, so that a resume can raise it. It does
    not if it is a budget of the question, of an agent or of a handoff."""
    if run.meta.get("asked_in") is None:
        return False
    if over.scope == "tenant":
        return True
    if over.limit in run.meta.get(FIXED_LIMITS, ()):
        return False
    own = run.meta.get(OWN_LIMITS, {}).get(over.limit)
    if own is not None and run.cursor.used()[over.limit] >= own:
        return False
    reached = own_left(run)
    return reached is None or reached.limit != over.limit


def give_answer(run: RunState, outcome: Outcome) -> None:
    """If a question opened the session, answer it with the outcome. The caller commits the
    answer."""
    message_id = run.meta.get(ANSWERS)
    if message_id is None:
        return
    state: Literal["answered", "failed"] = "failed"
    answer: dict[str, Any] = {}
    match outcome:
        case Waiting():
            return
        case Done(output):
            state, answer = _checked(to_jsonable(output), run.config.bus.max_payload)
        case Refused(reason):
            answer = error_json(f"the model declined: {reason}", code="model.refused")
        case Failed(code, error):
            if outcome == WITHDRAWN:
                return
            exc = run.exception
            problem = exc.outside if isinstance(exc, GuardrailError) else error
            answer = error_json(problem, code=code)
            if isinstance(exc, UnknownPrice):
                answer[_ENDS_ASKER] = True
        case OutOfBudget() if _is_limit_of_asker(run, outcome):
            run.side_writes.wakes.append(run.meta["asked_in"])
            return
        case OutOfBudget(limit, allowed, used):
            problem = f"the limit of {allowed:g} {limit} was reached ({used:g} used)"
            answer = error_json(problem, code="run.out_of_budget")
        case _ as never:
            assert_never(never)
    answer["spent"] = {
        "usage": run.cursor.budget.usage.to_json(),
        "seconds": round(run.spent_s(), 6),
    }
    if run.cursor.questions.person_us:
        answer["person_us"] = run.cursor.questions.person_us
    run.side_writes.settles.append(MessageSettle(key=str(message_id), state=state, answer=answer))
