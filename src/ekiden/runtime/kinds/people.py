"""Agents that stand for people. In their turn, an inbox item is created and the session is
suspended."""

from __future__ import annotations

from ekiden.core.conversation.model import assistant_message
from ekiden.core.conversation.quotes import last_request
from ekiden.core.errors import UserError
from ekiden.core.handoffs import Actor
from ekiden.core.questions import ANSWER, GIVE_BACK, InboxItem
from ekiden.core.runs import Done, Waiting
from ekiden.core.values import dumps
from ekiden.handoff.tool import handoff
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.handoff.controller import carry_out, store_refusal
from ekiden.runtime.handoff.rollback import confirm_handoffs
from ekiden.runtime.outcome import finish
from ekiden.runtime.questions.cancel_question import is_withdrawn_by_run
from ekiden.runtime.questions.questions import decided, item_writes, read_item
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.cursor import OpenQuestion, open_questions
from ekiden.runtime.state.cursor_handoffs import USER
from ekiden.runtime.state.state import RunState
from ekiden.runtime.turn import conclude, start_agent
from ekiden.storage.base import Store

_MAX_SUBJECT = 500
_CLOSED = ".closed"
"""Suffix of a decision's key; marks the decision as used, so that people are asked again."""


async def wait_for_person(run: RunState) -> None:
    """Take the turn of an agent that stands for people. If there is an answer, apply it. Otherwise
    ask the people and suspend the session."""
    role, cursor = run.agent.person or "", run.cursor
    key = _case_key(run)
    if cursor.progress.started and key in run.memo:
        if run.memo[key]["answer"] is None:
            # The question was withdrawn, which fails the run. A resumed run must ask again.
            run.remember(f"{key}{_CLOSED}", True)
            await run.commit()
        answer = decided(run, key)
        back = answer.choice == GIVE_BACK
        if back or run.config.output_guardrails or run.agent.output_guardrails:
            # If the return is refused, or a guardrail rejects the answer, people are asked again.
            run.remember(f"{key}{_CLOSED}", True)
        await answer_as_person(run, answer.text, by=answer.by, give_back=back)
        run.memo = {**run.memo, f"{key}{_CLOSED}": True}
        return
    if not cursor.progress.started or (run.is_reachable and key not in cursor.questions.open):
        if not cursor.progress.started:
            await start_agent(run)
        await _put_case(run, role, key)
        if cursor.handoffs.open:
            confirm_handoffs(run)
    await finish(run, Waiting(f"person:{role}"))


def _case_key(run: RunState) -> str:
    """The key of the step with the decision.

    It stays the same while people are asked and after they decided, even if handoffs are requested
    meanwhile. There is a new key after a closed decision.
    """
    begin = run.step_key("p")
    for key in (*run.cursor.questions.open, *reversed(tuple(run.memo))):
        is_closed = key.endswith(_CLOSED) or f"{key}{_CLOSED}" in run.memo
        if key.startswith(begin) and not is_closed:
            return key
    first = key = run.step_key(f"p{run.cursor.handoffs.count}")
    number = 1
    while f"{key}{_CLOSED}" in run.memo:
        number += 1
        key = f"{first}.{number}"
    return key


async def _put_case(run: RunState, role: str, key: str) -> None:
    received = run.cursor.handoffs.received or {}
    source = received.get("from", USER)
    subject = received.get("reason") or f"a conversation waits for {role}"
    case = {"kind": "handoff", "role": role, "from": source, "subject": subject}
    for name in ("summary", "context"):
        if name in received:
            case[name] = received[name]
    if run.is_reachable:
        item = InboxItem(
            kind="handoff",
            from_agent=source,
            subject=subject[:_MAX_SUBJECT],
            body=last_request(run.visible),
            options=(ANSWER, GIVE_BACK) if source != USER else (ANSWER,),
            context={name: case[name] for name in ("summary", "context") if name in case} or None,
            priority=run.priority,
            created_at_us=await run.store.now_us(),
            role=role,
            session_id=run.session_id,
        )
        for document in item_writes(run, item):
            run.write(document)
        run.cursor.questions.open[key] = OpenQuestion("inbox", item.id, role)
        case["item"] = item.id
    run.record("inbox", details=case)


async def answer_as_person(run: RunState, text: str, *, by: str, give_back: bool) -> None:
    """Let a person answer in the place of the agent that stands for the role.

    The text becomes the answer of the run. With `give_back`, the agent that handed the conversation
    to people gets the text, and continues.
    """
    if not run.agent.traits.is_human:
        raise UserError(
            f"session {run.session_id!r} does not wait for a person: {run.agent.name!r} has it"
        )
    actor = Actor(kind="person", name=by)
    if not give_back:
        details = await approve(run, text, {"by": actor.to_json()})
        run.record(
            "message", items=(assistant_message(text),), step=run.step_key("m"), details=details
        )
        await conclude(run, [], Done(text))
        return
    source = (run.cursor.handoffs.received or {}).get("from")
    if source is None:
        raise UserError(f"session {run.session_id!r} was not handed off: it cannot be returned")
    # The answer counts as work: a return needs new work.
    run.cursor.handoffs.work += 1
    edge = handoff(run.find_agent(source), allow_return=True)
    passed = dumps({"reason": "a person answered", "context": text})
    if not await carry_out(run, Attempt(edge=edge, arguments=passed, by=actor)):
        await store_refusal(run)


async def answer_case(
    store: Store, session_id: str, text: str, *, by: str, give_back: bool
) -> InboxItem | None:
    """Answer the inbox item of a session that waits for people. Returns `None` if there is no such
    item.

    A process may have withdrawn an item and died before it stored the withdrawal in the session.
    Such an item is ignored, and the session still waits. If the same person answered before, and
    the process died before the session continued, the first answer counts. Raises `InboxItemClosed`
    if another person answered first, and `UserError` if the session was not handed off and cannot
    be given back.
    """
    questions = open_questions(await store.get(session_id))
    for question in questions.values():
        item = await read_item(store, question.id) if question.kind == "inbox" else None
        if item is None or item.kind != "handoff" or is_withdrawn_by_run(item):
            continue
        if give_back and GIVE_BACK not in item.options:
            raise UserError(f"session {session_id!r} was not handed off: it cannot be returned")
        if item.answer is not None and item.answer.by == by:
            return item
        from ekiden.inbox import Inbox

        choice = GIVE_BACK if give_back else ANSWER
        return await Inbox(store).answer(item.id, choice=choice, text=text, by=by)
    return None
