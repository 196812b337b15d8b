"""Agents that are people: what they are handed waits until one of them answers."""

from __future__ import annotations

from ekiden.core.errors import UserError
from ekiden.core.handoff_record import Actor
from ekiden.core.items import assistant_message
from ekiden.core.jsonio import dumps
from ekiden.core.outcomes import Done, Waiting
from ekiden.handoff.tool import handoff
from ekiden.runtime.attempt import Attempt
from ekiden.runtime.controller import carry_out, store_refusal
from ekiden.runtime.finish import finish
from ekiden.runtime.rollback import confirm_handoffs
from ekiden.runtime.state import RunState
from ekiden.runtime.turn import conclude, start_agent


async def wait_for_person(run: RunState) -> None:
    """Put the case before the people of the role, and park the session until one answers."""
    role, cursor = run.agent.person, run.cursor
    if not cursor.started:
        await start_agent(run)
        received = cursor.received or {}
        case = {
            "kind": "handoff",
            "role": role,
            "from": received.get("from", "user"),
            "subject": received.get("reason") or f"a conversation waits for {role}",
        }
        for name in ("summary", "context"):
            if name in received:
                case[name] = received[name]
        run.record("inbox", details=case)
        if cursor.open:
            confirm_handoffs(run)
    await finish(run, Waiting(f"person:{role}"))


async def answer_as_person(run: RunState, text: str, *, by: str, give_back: bool) -> None:
    """Let a person answer in the place of the agent that stands for the role.

    The words are the answer of the run; with `give_back` they go to the agent that handed the
    conversation to people, which goes on with it.
    """
    if run.agent.person is None:
        raise UserError(
            f"session {run.session_id!r} does not wait for a person: {run.agent.name!r} has it"
        )
    actor = Actor(kind="person", name=by)
    if not give_back:
        run.record(
            "message",
            items=(assistant_message(text),),
            step=run.step_key("m"),
            details={"by": actor.to_json()},
        )
        await conclude(run, [], Done(text))
        return
    source = (run.cursor.received or {}).get("from")
    if source is None:
        raise UserError(f"nobody handed session {run.session_id!r} over: there is no way back")
    run.cursor.work += 1
    edge = handoff(run.find_agent(source), allow_return=True)
    words = dumps({"reason": "a person answered", "context": text})
    if not await carry_out(run, Attempt(edge=edge, arguments=words, by=actor)):
        await store_refusal(run)
