"""Stores the records of a step in one transaction, or discards them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from ekiden.core.conversation.model import Usage
from ekiden.core.current_agent import logging_for
from ekiden.core.dataclass import dataclass, maker
from ekiden.core.errors import (
    QueueFull,
    SessionError,
    StaleDocument,
    StoreUnavailable,
    UserError,
)
from ekiden.core.events import AUDITED, OBSERVERS, Event
from ekiden.runtime.state.budget import charge, let_go, shared_budgets_of, spend_own
from ekiden.runtime.state.calls import to_the_end
from ekiden.runtime.state.cursor import Cursor
from ekiden.runtime.state.cursor_handoffs import PendingHandoff
from ekiden.runtime.state.leases import Hold, keeper_of
from ekiden.runtime.state.ledger import DaySpending
from ekiden.runtime.state.parts import NO_SIDE_WRITES, Outbox, SideWrites
from ekiden.runtime.state.step_record import Recording, snapshot_key, snapshot_of
from ekiden.runtime.state.variables import StateChange, VariablesNow
from ekiden.sessions.state import STATE
from ekiden.storage.base import (
    Commit,
    DocumentWrite,
    SessionPatch,
    SessionRow,
    SessionStatus,
)
from ekiden.storage.records import new_commit, new_patch

_log = logging.getLogger("ekiden.runtime")


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Batch:
    """One commit, with the data to undo `_take_batch`."""

    commit: Commit
    cursor: Mapping[str, Any]
    state: StateChange | None
    items_before: int
    new_handoffs: Sequence[PendingHandoff]
    side_writes: SideWrites


_new_batch = maker(_Batch)


class Committing(Recording):
    """The part of a run that stores what its steps recorded."""

    __slots__ = (
        "_committing",
        "_stored_agent",
        "_stored_cursor",
        "_wakes",
        "before",
        "broken",
        "created_at_us",
        "day",
        "hold",
        "is_free",
        "is_watched",
        "meta",
        "outbox",
        "status",
    )

    before: SessionRow | None
    """The session's row, until a handoff starts the run. `None` once the run has started."""
    broken: BaseException | None
    """Why a commit in the middle of a step failed. The outcome of this commit is unknown. So
    nothing more is stored under this claim, even if a tool catches the error."""
    created_at_us: int
    """The store's time at which the session was created."""
    day: DaySpending | None
    """The run's share of the daily budget; `None` without a daily budget."""
    hold: Hold | None
    is_free: bool
    """Whether the session was released, so that other processes may own it now."""
    is_watched: bool
    """Whether events may have observers during the run. If so, each commit computes hashes."""
    meta: Mapping[str, Any]
    outbox: Outbox
    status: SessionStatus
    """The stored status of the session."""
    _committing: asyncio.Lock
    """Commits of one session go to the store one after the other."""
    _stored_agent: str
    _stored_cursor: Mapping[str, Any]
    _wakes: int

    @property
    def number(self) -> int:
        """The number of the run in its session."""
        return self.cursor.progress.run

    @property
    def correlation_id(self) -> str:
        """The correlation id of the session's creator, or the session's id."""
        return str(self.meta.get("correlation_id") or self.claim.session_id)

    @property
    def was_woken(self) -> bool:
        """Whether the session was ever woken."""
        return self._wakes > 0

    @property
    def has_news(self) -> bool:
        """Whether events or step results are waiting for the next commit."""
        return bool(self._pending or self._steps)

    async def see_wakes(self) -> None:
        """Mark all wake-ups so far as seen, before the session is suspended."""
        self._wakes = (await self.store.get(self.session_id)).wakes

    def ask_questions(self) -> None:
        """Discard the step except for its questions. When they are answered, the step's code runs
        again."""
        questions = [*(self.kept or ()), *(self.questions or {}).values()]
        was_started = self.cursor.progress.started
        values = self.recorded_values()
        self.discard()
        self._steps.update(values)
        # The step also started the agent, and that is not run again.
        if was_started and not self.cursor.progress.started:
            self.cursor.progress.started = True
            self.record("agent_start")
        for put in questions:
            put()

    def discard(self) -> None:
        """Drop all records that are not stored. Spent tokens and time still count."""
        self._new_handoffs = ()
        self._side_writes = NO_SIDE_WRITES
        self.charged = None
        self.questions = self.kept = None
        self.outbox.discard()
        # Numbers of events that were never stored are given again: a session's numbers have no
        # gaps.
        self._seq -= len(self._pending)
        self._pending.clear()
        self._steps.clear()
        self.versions.forget()
        del self.visible[self._pending_items :]
        # Tokens and seconds are spent whether or not the step counts; the cursor keeps these.
        self.cursor.discard(self._stored_cursor)
        self.agent = self.find_agent(self._stored_agent)
        if self._variables is not None:
            self._variables.discard()

    def begin(self) -> None:
        """Let the run start with the next commit, if it has not started yet."""
        if self.before is not None:
            # The state before the run is stored with it: a rewind to this point restores it.
            if self.before.seq:
                self.remember(snapshot_key(self.cursor.progress.run), snapshot_of(self.before))
            self.before = None
            self.cursor.progress.first = self.next_seq
            if self._variables is not None:
                self._variables.forget_run()

    async def commit(
        self,
        *,
        status: SessionStatus | None = None,
        outcome: str | None = None,
        conclusion: str | None = None,
        release: bool = False,
    ) -> None:
        """Store the recorded events, the cursor and the active agent in one transaction.

        If the commit fails, the records stay in memory, for another attempt or for `discard`.
        """
        if self.broken is not None:
            raise self.broken
        lap_s = self.work.lap()
        self.cursor.budget.spent_s += lap_s
        if self.agent.budget is not None:
            spend_own(self, 0, lap_s, 0.0)
        if release and self.hold is not None:
            # Before the commit: the renewal that runs meanwhile must not report the released lease
            # as lost.
            keeper_of(self.store).let_go(self.claim)
        if self.outer_budgets or self.cursor.budget.shared_budget is not None:
            self._charge()
        # The tools of one turn run concurrently, and each commits its own result.
        await self._committing.acquire()
        try:
            batch = self._take_batch(status, outcome, conclusion, release)
            cancelled: asyncio.CancelledError | None = None
            try:
                if self.store.shared:
                    # A cancelled task must still learn whether its commit was stored.
                    cancelled = await self._stored(batch.commit)
                else:
                    await self.store.commit(self.claim, batch.commit)
            except BaseException:
                # The store refused the batch: the caller retries the commit or discards the step.
                self._put_back(batch)
                raise
            self._settle(batch)
            if self.config.sinks or OBSERVERS:
                await self._show(batch.commit.events)
            if cancelled is not None:
                raise cancelled
        finally:
            self._committing.release()
        self.outbox.announce()
        if self.reserved_call is not None:
            await let_go(self)
        for each in batch.side_writes.afterwards:
            await each()

    def _counted(self) -> tuple[float, float, float]:
        """The tokens, money and seconds of the run so far, without the agents that it asked. A run
        that answers a question counts no seconds: the asking run counts them."""
        usage, others = self.cursor.budget.usage, self.cursor.budget.others or Usage()
        is_timed = self.config.daily is not None and self.config.daily.seconds is not None
        seconds = self.cursor.budget.spent_s if is_timed and "answers" not in self.meta else 0.0
        return usage.tokens - others.tokens, round(usage.cost - others.cost, 9), seconds

    def _charge(self) -> None:
        """Charge the shared budgets, in the commit of the step, if the run spent something."""
        own = list(self._counted()[:2])
        known = [*own, *shared_budgets_of(self)]
        if known != self.charged:
            self.charged = known
            charge(self, own)

    async def commit_cursor(self) -> None:
        """Store the open handoffs now, without the rest of the current step."""
        async with self._committing:
            cursor = dict(self._stored_cursor)
            stored = [each for each in self.cursor.handoffs.open if each not in self._new_handoffs]
            self.cursor.handoffs.open_to_json(cursor, stored)
            # These handoffs refer to steps with earlier variables. A failed commit may have put
            # these steps back into `_steps`, so they are stored here.
            needed = {each.variables for each in stored}
            needed.update(key for each in stored for key in each.shared_steps)
            steps = {key: value for key, value in self._steps.items() if key in needed}
            steps |= self.recorded_values()
            try:
                await self.store.commit(
                    self.claim, Commit(patch=SessionPatch(cursor=cursor), events=(), steps=steps)
                )
            except (SessionError, StoreUnavailable) as exc:
                self.broken = exc
                raise
            for key in steps:
                del self._steps[key]
            self._stored_cursor = cursor

    async def commit_step(self, key: str, value: Any) -> None:
        """Store only this result and the recorded values now, without the rest of the current
        step."""
        if self.broken is not None:
            raise self.broken
        async with self._committing:
            values = self.recorded_values()
            step = Commit(patch=SessionPatch(), events=(), steps={**values, key: value})
            try:
                cancelled = await self._stored(step)
            except (SessionError, StoreUnavailable) as exc:
                self.broken = exc
                raise
            for each in values:
                del self._steps[each]
        if cancelled is not None:
            raise cancelled

    async def commit_checks(self) -> None:
        """Store the progress of input guardrails now, without the rest of the current step.

        If a guardrail changed variables, this call does nothing. The progress and the variables are
        then stored at the end of the step.
        """
        if self.variables.changed:
            return
        async with self._committing:
            cursor = dict(self._stored_cursor)
            self.cursor.guardrails.input_to_json(cursor)
            cancelled = await self._stored(
                Commit(patch=SessionPatch(cursor=cursor), events=(), steps={})
            )
            self._stored_cursor = cursor
            if cancelled is not None:
                raise cancelled

    def keep_variables(self, pending: PendingHandoff, before: VariablesNow) -> None:
        """If callbacks of a handoff changed variables, make sure that a rollback restores the
        values from `before`."""
        if not self.variables.changed:
            return
        if self.variables.own != before.own:
            self._store_variables(pending, before.own)
        if self.variables.shared:
            self._store_shared(pending, self.variables.changed_since(before))

    def _cursor_to_store(self) -> Cursor:
        """The run's cursor; before the start of the run, the stored cursor with new counts."""
        if self.before is None:
            return self.cursor
        return self.cursor.before_run(self.before.cursor)

    def _store_variables(self, pending: PendingHandoff, values: Mapping[str, Any]) -> None:
        pending.variables = f"{self.cursor.progress.run}.{pending.number}.variables"
        self._steps[pending.variables] = dict(values)

    def _store_shared(self, pending: PendingHandoff, undoing: list[list[Any]]) -> None:
        if undoing:
            self._steps[pending.add_shared_step(self.cursor.progress.run)] = undoing

    def _keep_variables(self, change: StateChange) -> None:
        """Store the earlier values of changed variables for the rollback of open handoffs."""
        undoing = change.undoing(self.variables)
        for pending in self.cursor.handoffs.open:
            if pending in self._new_handoffs:
                continue
            if pending.variables is None and change.own is not None:
                self._store_variables(pending, self.variables.stored)
            self._store_shared(pending, undoing)

    def _tell_state(self, told: dict[str, Any]) -> None:
        """Put the changes of variables into an event of the step that is not audited: audited
        events are signed."""
        for event in reversed(self._pending):
            if event.type not in AUDITED:
                event.details = {**(event.details or {}), STATE: told}
                return
        self.record("message", details={STATE: told})

    def _take_batch(
        self,
        status: SessionStatus | None,
        outcome: str | None,
        conclusion: str | None,
        release: bool,
    ) -> _Batch:
        state = None if self._variables is None else self._variables.take()
        if state is not None:
            if self.cursor.handoffs.open:
                self._keep_variables(state)
            self._tell_state(state.told)
        if self.is_watched:
            # Hashes are only needed now if observers read the events. Otherwise they are computed
            # when the audit is read.
            self.cursor.audit.seal(self._pending)
        side, documents = self._side_writes, self._side_writes.documents
        if self.day is not None or state is not None:
            documents = [*documents, *self._shared_writes(state)]
        agent, cursor = self.agent.name, self._cursor_to_store().to_json()
        commit = new_commit(
            patch=new_patch(
                agent=None if agent == self._stored_agent else agent,
                status=status,
                outcome=outcome,
                conclusion=conclusion,
                cursor=cursor,
                variables=None if state is None else state.own,
            ),
            events=self._pending,
            steps=self._steps,
            documents=documents,
            messages=side.messages,
            settles=side.settles,
            openings=side.openings,
            wakes=side.wakes,
            # If the session was woken after this count, the store sets it to ready instead of
            # waiting: no wake is lost.
            seen_wakes=self._wakes if status == "waiting" else None,
            release=release,
        )
        batch = _new_batch(
            commit=commit,
            cursor=cursor,
            state=state,
            items_before=self._pending_items,
            new_handoffs=self._new_handoffs,
            side_writes=side,
        )
        self._side_writes = NO_SIDE_WRITES
        self.kept = None
        # While this batch is being stored, other tools record for the next commit.
        self._pending, self._steps, self._new_handoffs = [], {}, ()
        self._pending_items = len(self.visible)
        return batch

    def _put_back(self, batch: _Batch) -> None:
        """Undo `_take_batch`: the next commit stores the refused batch and the records since."""
        events = batch.commit.events
        if batch.state is not None:
            # The next commit puts the changes of variables into its events again.
            self.variables.put_back(batch.state)
            events = [_without_state(event) for event in events]
        self._pending = [*events, *self._pending]
        self._steps = {**batch.commit.steps, **self._steps}
        self._new_handoffs = [*batch.new_handoffs, *self._new_handoffs]
        self._pending_items = batch.items_before
        self._side_writes = batch.side_writes.extended(self._side_writes)

    async def _stored(self, commit: Commit) -> asyncio.CancelledError | None:
        """Store the commit even if the step is cancelled meanwhile; returns the cancellation.

        If the step was cancelled and the store failed, other than by a refusal, the outcome of the
        commit is unknown: then the run is `broken` and must not continue.
        """
        try:
            _, cancelled = await to_the_end(self.store.commit(self.claim, commit))
        except asyncio.CancelledError as exc:
            if not isinstance(exc.__cause__, (StaleDocument, QueueFull, UserError)):
                self.broken = exc.__cause__
            raise
        return cancelled

    def _shared_writes(self, state: StateChange | None) -> Iterator[DocumentWrite]:
        """The writes of the daily spending and of variables that other sessions share."""
        if self.day is not None and (charge := self.day.charge(self, self._counted())) is not None:
            yield charge
        if state is not None and state.shared:
            yield from self.variables.writes(state, self.session_id)

    def _settle(self, batch: _Batch) -> None:
        """Update the run's copy of the stored state after a successful commit."""
        patch, events = batch.commit.patch, batch.commit.events
        self.is_free = batch.commit.release
        self.status = patch.status or self.status
        if self.day is not None:
            self.day.settle()
        if patch.agent is not None:
            self._stored_agent = patch.agent
        self._stored_cursor = batch.cursor
        if self.before is not None:
            self.before = replace(self.before, seq=self.stored_seq, cursor=batch.cursor)
        if batch.state is not None:
            self.variables.settle(batch.state)
        self.events.extend(events)
        if self.is_watched:
            self.outbox.waiting.extend(events)

    async def _show(self, events: Sequence[Event]) -> None:
        """Show stored events to the sinks and observers."""
        with logging_for(self):
            for sink in self.config.sinks:
                for event in events:
                    try:
                        sink.emit(event)
                    except Exception:
                        _log.exception("a sink could not take event %s", event.event_id)
        for observer in tuple(OBSERVERS):
            try:
                await observer.see(self, events)
            except Exception:
                _log.exception("an observer could not take events of %s", self.session_id)


def _without_state(event: Event) -> Event:
    """The event without its changes of variables; a copy, as the store may hold the original."""
    if event.details is None or STATE not in event.details:
        return event
    event = copy(event)
    event.details = {k: v for k, v in (event.details or {}).items() if k != STATE} or None
    return event
