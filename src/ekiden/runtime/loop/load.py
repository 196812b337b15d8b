"""Loads the state of a run from the stored session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, begins_chain
from ekiden.core.errors import HandoffError, HandoffRefused, SessionBusy, UserError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.runtime.config import RunOptions
from ekiden.runtime.conversation import UNDONE, rollback_summary
from ekiden.runtime.handoff.rollback import give_back
from ekiden.runtime.kinds.registry import addressee
from ekiden.runtime.outcome import final_outcome, recorded_outcome
from ekiden.runtime.questions.cancel_question import withdraw
from ekiden.runtime.state.attempt import give_up_tried
from ekiden.runtime.state.budget import shared_budget_removals
from ekiden.runtime.state.cursor import ConversationView, Cursor, open_questions
from ekiden.runtime.state.cursor_handoffs import has_open_handoffs
from ekiden.runtime.state.leases import Hold
from ekiden.runtime.state.state import RunState, load_memo
from ekiden.runtime.state.step_record import (
    events_until,
    read_step,
    snapshot_key,
    snapshot_of,
    up_to,
)
from ekiden.runtime.tools.unfinished_calls import (
    ClosedCall,
    interrupted,
    interrupted_code,
    keep_unknown,
)
from ekiden.sessions import current_events, history_length, open_calls, visible_items
from ekiden.sessions.state import recorded_changes
from ekiden.storage.base import Claim, SessionRow, Store

_BEFORE_FIRST_RUN = Cursor()
"""The shared cursor of new sessions. Never changed."""


async def first_step(
    options: RunOptions,
    store: Store,
    claim: Claim,
    row: SessionRow,
    items: tuple[Item, ...],
    *,
    hold: Hold | None,
    release: bool = False,
) -> RunState:
    """Start a run and store its message. With `release`, another process runs the steps."""
    if options.waits_for_pending_work and row.status == "ready":
        raise SessionBusy(row.id, owner="a worker that will take it up", free_in_s=1.0)
    holder = row.agent or options.entry.name
    to = await addressee(options, holder, items, is_new=not row.seq)
    agent = to.agent
    if items and has_open_handoffs(row) and agent.name != row.agent:
        row = await _undo_open_handoffs(options, store, claim, row, agent.name, hold=hold)
    before = Cursor.from_json(row.cursor) if row.cursor else _BEFORE_FIRST_RUN
    events, visible, closing = await _earlier_runs(store, row, before)
    if not closing and not items:
        raise UserError("a run needs a message: the input is empty")
    if row.seq:
        closing += await interrupted_code(store, row.id, events, before.progress)
    run = RunState(
        options, store=store, claim=claim, hold=hold, row=row, agent=agent, visible=visible,
        cursor=before.next_run(
            agent=agent.name, first=row.seq + 1, is_same_task=not begins_chain(items),
            limits=options.config.given,
        ),
        is_new=True,
    )  # fmt: skip
    if closing:
        keep_unknown(run, closing, agent=row.agent, is_stopped=row.conclusion == "stopped")
    if row.variables:
        _mark_unrecorded(run, row, events)
        run.variables.forget_run()
    await run.load_shared_variables()
    if options.variables:
        run.context.variables.update(options.variables)
    if agent.name != row.agent:
        run.cursor.handoffs.received = run.cursor.handoffs.tools = None
    run.cursor.handoffs.route = to.request
    undone = await _undone_before(store, row, before, agent.name)
    message = _record_message(run, items, closing, undone, is_open=bool(before.handoffs.open))
    if agent.name == row.agent:
        run.cursor.handoffs.open = before.handoffs.still_open(message)
        if options.variables:
            await _keep_in_rollbacks(run, options.variables)
    if row.seq or row.cursor:
        await _end_earlier_run(run, row, before)
    if to.route is not None:
        run.record("route", details=dict(to.route))
    if options.along is not None:
        run.write(options.along(run.cursor.progress.run))
    run.history_length = len(run.visible)
    _recheck_tried(run)
    fault_point("run.begin.before_commit")
    await run.commit(status="ready", outcome="", release=release)
    fault_point("run.begin.after_commit")
    return run


async def _earlier_runs(
    store: Store, row: SessionRow, before: Cursor
) -> tuple[Sequence[Event], list[Item], list[ClosedCall]]:
    """The events with items so far, the agent's view, and calls without an output."""
    if not row.seq:
        return (), [], []
    events = await _item_events(store, row)
    visible, _ = await _view(store, row.id, events, before.view, anew=True)
    return events, visible, await interrupted(store, row.id, events, before, open_calls(events))


async def _keep_in_rollbacks(run: RunState, given: Mapping[str, Any]) -> None:
    """Add variables that came with a message to the values that a rollback of an open handoff
    would restore: a rollback only undoes the changes of agents."""
    for pending in run.cursor.handoffs.open:
        before = run.variables.stored
        if pending.variables is not None:
            before = await read_step(run.store, run.session_id, pending.variables)
        pending.variables = f"{run.number}.{pending.number}.variables.{run.next_seq}"
        run.remember(pending.variables, {**before, **given})


def _record_message(
    run: RunState,
    items: tuple[Item, ...],
    closing: Sequence[ClosedCall],
    undone: list[list[str]],
    *,
    is_open: bool,
) -> int:
    """Record the message, with outputs for the calls that the earlier run left open; returns the
    number of its event.

    `is_open`: a handoff of the earlier run is not confirmed yet.
    """
    outputs = tuple(item for each in closing for item in each.items)
    details: dict[str, Any] | None = None
    if closing:
        failed = {each.call["call_id"]: each.error for each in closing if each.error is not None}
        details = {"unfinished": failed} if failed else None
    if undone:
        details = {**(details or {}), UNDONE: undone}
        run.may_be_rolled_back = True
    if outputs and is_open:
        # A rollback keeps the message, but not the outputs for calls of the target. So they get
        # different events.
        run.record("message", items=outputs, details={"closes": len(outputs), **(details or {})})
        run.cursor.progress.first, outputs, details = run.next_seq, (), None
    return run.record("message", items=(*outputs, *items), details=details)


async def _end_earlier_run(run: RunState, row: SessionRow, before: Cursor) -> None:
    """Give up the handoffs, questions and shared budgets of the earlier run, and store a snapshot
    of the session."""
    run.cursor.handoffs.tried = before.handoffs.tried
    give_up_tried(run)
    if before.questions.open:
        await withdraw(run, before.questions.open, by=row.agent)
    for write in await shared_budget_removals(
        run.store, before.budget.shared_budget, before.budget.levels
    ):
        run.write(write)
    if row.seq:
        run.remember(snapshot_key(run.cursor.progress.run), snapshot_of(row))


async def _undone_before(
    store: Store, row: SessionRow, cursor: Cursor, agent: str
) -> list[list[str]]:
    """Notices for the agent about a requested handoff whose rollback ended the last run: the agent
    has had no turn since."""
    if row.outcome != "failed" or not cursor.handoffs.count:
        return []
    events = await events_until(store, row.id, row.seq, after=cursor.progress.first - 1)
    if not events or (events[-1].details or {}).get("code") != HandoffError.code:
        return []
    return [
        rollback_summary(event)
        for event in events
        if event.type == "handoff"
        and event.details
        and "undoes" in event.details
        and event.details["from"] == agent
    ]


def _mark_unrecorded(run: RunState, row: SessionRow, events: Sequence[Event]) -> None:
    """If no event records the session's variables, let the next change record all of them.

    `events` are the events with items, which include nearly all changes of variables.
    """
    if row.variables and all(recorded_changes(event) is None for event in events):
        run.variables.is_unrecorded()


async def _undo_open_handoffs(
    options: RunOptions,
    store: Store,
    claim: Claim,
    row: SessionRow,
    to: str,
    *,
    hold: Hold | None,
) -> SessionRow:
    """Roll back the open handoffs, because a message goes to the agent `to` instead."""
    cursor = Cursor.from_json(row.cursor)
    events = await events_until(store, row.id, row.seq, with_items=True)
    visible, _ = await _view(store, row.id, events, cursor.view)
    run = RunState(
        options, store=store, claim=claim, hold=hold, row=row, visible=visible, cursor=cursor,
        agent=_member(options, row.agent),
    )  # fmt: skip
    await run.load_shared_variables()
    for each in cursor.handoffs.open:
        run.know(_member(options, each.source))
    why = HandoffRefused("CANCELLED", f"the message went to {to!r} instead")
    while run.cursor.handoffs.open:
        await give_back(run, why, release=False)
    return await store.get(row.id)


def _member(options: RunOptions, name: str) -> Agent[Any]:
    """The agent with this name; an agent that left the team becomes one with only a name."""
    return options.find(name) if name in options.team else Agent(name)


async def left_step(
    options: RunOptions, store: Store, claim: Claim, row: SessionRow, *, hold: Hold | None
) -> RunState:
    """Load the unfinished run, before its next step. Raises `UserError` if there is none."""
    cursor = Cursor.from_json(row.cursor)
    if cursor.progress.phase == "end":
        raise UserError(
            f"session {row.id!r} has nothing to resume: its last run ended; send a message"
        )
    events, of_run = await _events(store, row, cursor.progress.first)
    visible, base = await _view(store, row.id, events, cursor.view)
    cursor.progress.mistakes = cursor.handoffs.rollbacks = 0
    if cursor.budget.limits or options.config.given:
        # Resuming a run that reached a limit gives it the usual limits again.
        is_kept = options.keeps_limits and row.outcome != "out_of_budget"
        cursor.budget.limits = {**(cursor.budget.limits if is_kept else {}), **options.config.given}
    run = RunState(
        options, store=store, claim=claim, hold=hold, row=row, visible=visible, cursor=cursor,
        agent=options.find(row.agent),
    )  # fmt: skip
    run.events = current_events(of_run)
    run.may_be_rolled_back = True
    run.history_length = history_length(
        events, base=base, after=cursor.view.after, first=cursor.progress.first
    )
    _mark_unrecorded(run, row, events)
    _recheck_tried(run)
    await load_memo(run, None if row.loaded is None else row.loaded.steps)
    return run


def _recheck_tried(run: RunState) -> None:
    """Read the request of an undecided handoff again after the step: it is still wanted."""
    if any(each.is_asked_of(run.session_id) for each in run.cursor.handoffs.tried):
        run.interruption.want(at_once=False)


async def _item_events(store: Store, row: SessionRow) -> Sequence[Event]:
    """The events with items."""
    if row.loaded is not None:
        return [event for event in row.loaded.events if event.speaks]
    return await events_until(store, row.id, row.seq, with_items=True)


async def _events(
    store: Store, row: SessionRow, first: int
) -> tuple[Sequence[Event], Sequence[Event]]:
    """The events with items, and all events of the run that begins with event `first`.

    A short session is read at once.
    """
    if row.seq > _FEW:
        with_items = await events_until(store, row.id, row.seq, with_items=True)
        return with_items, await events_until(store, row.id, row.seq, after=first - 1)
    events = await events_until(store, row.id, row.seq) if row.loaded is None else row.loaded.events
    return (
        [event for event in events if event.speaks],
        [event for event in events if event.seq >= first],
    )


async def ended_run(options: RunOptions, store: Store, row: SessionRow) -> RunState:
    """The last run of a session, which another process ended. The run is read-only.

    The output of an agent without a model is the text of its answer.
    """
    cursor = Cursor.from_json(row.cursor)
    events = up_to(row, await store.events(row.id, with_items=True))
    visible, base = await _view(store, row.id, events, cursor.view)
    no_claim = Claim(session_id=row.id, owner="", epoch=0, lease_s=0.0)
    run = RunState(
        options, store=store, claim=no_claim, hold=None, row=row, visible=visible, cursor=cursor,
        agent=_member(options, row.agent),
    )  # fmt: skip
    run.events = current_events(
        up_to(row, await store.events(row.id, after=cursor.progress.first - 1))
    )
    run.history_length = history_length(
        events, base=base, after=cursor.view.after, first=cursor.progress.first
    )
    run.outcome = recorded_outcome(run.events[-1]) if run.events else None
    if run.outcome is None:
        if row.outcome not in ("done", "refused"):
            raise UserError(
                f"session {row.id!r} ended as {row.outcome!r} somewhere else, and more is not "
                "known: its run keeps no events"
            )
        answer = [
            item
            for event in run.events
            if event.seq == cursor.progress.calls
            for item in event.items
        ]
        output_type = run.agent.output_type if run.agent.traits.uses_model else None
        run.outcome = final_outcome(answer, output_type)
    return run


async def opened_for_handoff(
    options: RunOptions,
    store: Store,
    claim: Claim,
    row: SessionRow,
    *,
    hold: Hold | None,
    source: str = "",
) -> RunState:
    """The unfinished run, or a new run without a message. This call stores nothing.

    A session without an agent gets the agent `source`, if the team has it.
    """
    cursor = Cursor.from_json(row.cursor)
    if row.agent or not source:
        agent = options.find(row.agent)
    else:
        agent = _member(options, source)
        if source not in options.team:
            row = replace(row, agent=source)  # Only for the record of the refusal.
    if cursor.progress.phase != "end":
        return await left_step(options, store, claim, row, hold=hold)
    run = await _without_message(options, store, claim, row, agent, hold=hold)
    run.memo = await store.steps(row.id, prefix=run.step_key(""))
    return run


async def opened_live(options: RunOptions, store: Store, claim: Claim, row: SessionRow) -> RunState:
    """The run of a live session, which no other process can resume.

    Handoffs that still waited for approval when an earlier connection was closed are recorded as
    given up.
    """
    run = await _without_message(options, store, claim, row, options.find(row.agent), hold=None)
    run.begin()
    run.cursor.progress.phase = "end"
    left = open_questions(row)
    if left or run.cursor.handoffs.tried:
        give_up_tried(run)
        await withdraw(run, left, by=row.agent)
        await run.commit()
    return run


async def _without_message(
    options: RunOptions,
    store: Store,
    claim: Claim,
    row: SessionRow,
    agent: Agent[Any],
    *,
    hold: Hold | None,
) -> RunState:
    """A new run that continues the task; a handoff will start it."""
    cursor = Cursor.from_json(row.cursor)
    events = await _item_events(store, row)
    visible, _ = await _view(store, row.id, events, cursor.view, anew=True)
    run = RunState(
        options, store=store, claim=claim, hold=hold, row=row, visible=visible, agent=agent,
        cursor=cursor.next_run(
            agent=agent.name, first=row.seq + 1, is_same_task=True, limits=options.config.given
        ),
    )  # fmt: skip
    run.before = row
    _mark_unrecorded(run, row, events)
    await run.load_shared_variables()
    return run


async def _view(
    store: Store,
    session_id: str,
    events: Sequence[Event],
    view: ConversationView,
    *,
    anew: bool = False,
) -> tuple[list[Item], list[Item]]:
    """The active agent's view, and the part of it that an input filter returned; see
    `visible_items`."""
    base: list[Item] = []
    if view.base is not None:
        base = await read_step(store, session_id, view.base)
    return visible_items(events, base=base, after=view.after, anew=anew), base


_FEW = 200
"""Sessions with at most this many events are read at once."""
