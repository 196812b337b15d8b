"""Records handoff requests that were withdrawn or came too late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item
from ekiden.core.errors import StaleDocument
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff
from ekiden.handoff.records.requests import Asked, TriedHandoff, asked_in, removal_of, requests_of
from ekiden.runtime.conversation.handoff_view import words_of
from ekiden.runtime.questions.cancel_question import withdraw
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.cursor import OpenQuestion
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import DocumentWrite, SessionRow


async def record_withdrawn(run: RunState) -> None:
    """The run is over: put on record what nobody wants of the session any more.

    What is still wanted is done by whoever waits for it, now that the session is free.
    """
    for document in await requests_of(run.store, run.session_id):
        asked = asked_in(document)
        if asked.state != "open" or await is_late(run, asked):
            with suppress(StaleDocument):
                await store_withdrawal(run, asked, [removal_of(document)])


async def store_withdrawal(
    run: RunState, asked: Asked, taken: Sequence[DocumentWrite], *, release: bool = False
) -> None:
    """The source did not finish in time, or nobody wants it any more: that is put on record.

    Of a cancellation that comes to nothing, nothing is.
    """
    with as_before_if_stale(run):
        if asked.cancel is None:
            _withdraw(run, asked)
        for each in taken:
            run.write(each)
        waited = questions_about(run.cursor.questions.open, asked.id)
        for key in waited:
            del run.cursor.questions.open[key]
        await withdraw(run, waited, by=run.agent.name)
        goes_on = bool(waited) and run.status == "waiting" and not run.cursor.questions.open
        fault_point("handoff.withdrawn.before_commit")
        if goes_on:
            # It waited for nothing but the approval.
            await run.commit(status="ready", outcome="", release=release)
        else:
            await run.commit(release=release)
        fault_point("handoff.withdrawn.after_commit")


def questions_about(
    questions: Mapping[str, OpenQuestion], request_id: str
) -> dict[str, OpenQuestion]:
    """What people are asked about the handoff of this request, by the step's key."""
    mark = f".ask.{request_id.rpartition('.')[2]}_"
    return {key: each for key, each in questions.items() if mark in key}


def is_taken_up(tried: Iterable[TriedHandoff], asked: Asked) -> bool:
    """Whether the source had finished what it was doing, and the handoff is on record, undecided:
    then it is not late, however long a person takes to approve it."""
    return any(each.id == asked.id for each in tried)


async def is_late(run: RunState, asked: Asked) -> bool:
    """Whether nobody took up the handoff that is asked for in its time."""
    if asked.cancel is not None or is_taken_up(run.cursor.handoffs.tried, asked):
        return False
    if asked.due_us is not None:
        return await run.store.now_us() > asked.due_us
    return run.config.clock.now_us() - asked.asked_us > asked.wait_s * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands before somebody tries to hand it over."""

    visible: list[Item]
    history_length: int
    before: SessionRow | None

    @classmethod
    def of(cls, run: RunState) -> Standing:
        return cls(visible=list(run.visible), history_length=run.history_length, before=run.before)

    def restore(self, run: RunState) -> None:
        """As if nobody had tried."""
        run.discard()
        run.replace_view(list(self.visible))
        run.history_length = self.history_length
        run.before = self.before


@contextmanager
def as_before_if_stale(run: RunState) -> Iterator[None]:
    """If the request changed while the body served it, the run stands as it did before."""
    standing = Standing.of(run)
    try:
        yield
    except StaleDocument:
        standing.restore(run)
        raise


def unconnected(asked: Asked) -> Attempt:
    """An attempt along a way that does not exist, only to be refused."""

    async def nowhere(context: Any, arguments: str) -> Any:
        raise AssertionError("a handoff that was refused is not made")

    edge: Handoff[Any, Any] = Handoff(
        tool_name="none",
        tool_description="",
        input_json_schema={},
        on_invoke_handoff=nowhere,
        agent_name=asked.to,
    )
    return Attempt(
        edge=edge,
        arguments=asked.words(),
        payload=asked.payload,
        priority=asked.priority,
        metadata=asked.metadata,
        source=asked.source,
        by=asked.by,
        policy=asked.policy,
        request=asked.id,
        id=asked.own_id,
        began_us=asked.asked_us,
    )


def _withdraw(run: RunState, asked: Asked) -> None:
    attempt = unconnected(asked)
    attempt.begin(run)
    attempt.life.move("failed")
    run.cursor.handoffs.drop_tried(attempt.id)
    why = asked.why_withdrawn(run.agent.name)
    source = asked.source or run.agent.name
    details = {**attempt.told(words_of(run, attempt)), **attempt.details(source, asked.to)}
    details["code"] = why.code
    ended_us = asked.withdrawn_us or asked.due_us
    if ended_us:
        details["at"] = {**details.get("at", {}), "failed": ended_us}
    run.record("handoff", details=details, error=why.message)
