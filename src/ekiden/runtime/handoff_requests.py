"""Carries out the handoff request of a person or program in the requester's process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ekiden.core.errors import SessionBusy, StaleDocument, UserError
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import HandoffFailure, HandoffResult
from ekiden.handoff.records import HandoffRecord, read_handoff, read_handoffs
from ekiden.handoff.requests import (
    FINAL,
    REQUESTS,
    Asked,
    RequestState,
    asked_in,
    change_request,
    document_of,
    removal_of,
    request_key,
    sweep_requests,
    tried_in,
)
from ekiden.runtime.config import RunOptions
from ekiden.runtime.handoff.requests import is_hopeless, make, settle_rollback, undo
from ekiden.runtime.loop.advance import advance
from ekiden.runtime.loop.claim import claimed, owned, suspended_if_left
from ekiden.runtime.loop.live_runs import live_run, registered
from ekiden.runtime.loop.load import opened_for_handoff
from ekiden.runtime.outcome import is_taken_up, questions_about, store_withdrawal
from ekiden.runtime.questions.questions import read_item
from ekiden.runtime.state.cursor import Cursor, open_questions
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.unfinished_calls import has_calls_left
from ekiden.storage.base import Claim, Document, DocumentWrite, NewSession, SessionRow, Store

_LONGEST_WAIT_S = 1.0
"""The longest wait before the store is read again, even if it reported no change."""
_A_WORKER = "a worker that will take it up"


class HandoffRequestRunner:
    """Carries out one request. This process serves the request if no other process runs the
    session."""

    def __init__(
        self,
        options: RunOptions,
        store: Store,
        session_id: str,
        asked: Asked,
        *,
        is_left: bool = False,
        wait_s: float | None = None,
        new: NewSession | None = None,
    ) -> None:
        """`new` is the session to create if the request's session does not exist."""
        self._options = options
        self._config = replace(options.config, on_busy="refuse")
        self._store = store
        self._session_id = session_id
        self._new = new
        self._asked = asked
        self._is_left = is_left
        """Whether the request is stored, so that other processes may serve it."""
        began = self._config.clock.monotonic()
        self._deadline = began + asked.wait_s
        self._waits_until = None if wait_s is None else began + wait_s
        """The time at which `finish` returns the current status, and the request stays stored."""

    async def finish(self, *, run: bool) -> HandoffResult:
        """Serve the request, or wait for the process that serves it, and return the result.

        With `run`, the agent that gets the session also runs in this process until it answers.
        """
        while True:
            if self._is_left:
                document = await self._document()
                if document is None:
                    return await self._outcome(run=run)
                if (state := asked_in(document).state) != "open":
                    return await self.withdraw(state)
            try:
                if self._is_left:
                    row = await self._store.get(self._session_id)
                    await self._check_approval(row, run=run)
                    if not run and self._has_to_wait(row):
                        # Claiming the session again would block the worker that has to finish.
                        raise SessionBusy(row.id, owner=_A_WORKER, free_in_s=_LONGEST_WAIT_S)
                result = await self._done_here(run=run)
            except SessionBusy as busy:
                if not self._is_left:
                    await self._leave()
                elif self._remaining() <= 0 and not await self._is_taken_up():
                    return await self.withdraw("timed_out")
                elif self._remaining() <= 0 or self._is_wait_over():
                    return await self._current_status()
                else:
                    await self._wait(busy.free_in_s)
                continue
            if result is not None:
                return result

    async def withdraw(self, state: RequestState, *, why: str = "") -> HandoffResult:
        """Withdraw the request, and return the handoff's result if it was already made.

        The process that runs the session records the withdrawal. If no process runs the session,
        this process records it.
        """
        document = await self._document()
        asked = self._asked
        if document is not None and asked_in(document).state == "open":
            now_us = self._config.clock.now_us()
            asked = replace(asked_in(document), state=state, withdrawn=why, withdrawn_us=now_us)
            change = document_of(self._session_id, asked, version=document.version)
            with suppress(StaleDocument):
                await change_request(self._store, change)
            document = await self._document()
        result = None
        if document is not None:
            asked = asked_in(document)
            # If the session is busy or has agents of another team, its owner records it.
            with suppress(SessionBusy, UserError):
                result = await self._done_here(run=False)
        if result is not None:
            return result
        record = await self._record()
        # A record that is not final belongs to a handoff that waited for approval. It will be
        # recorded as failed soon.
        is_over = record is not None and (document is None or record.status in FINAL)
        return record.result() if record is not None and is_over else await self._failure(asked)

    async def _leave(self) -> None:
        """Store the request for the process that runs the session."""
        due_us = await self._store.now_us() + round(self._asked.wait_s * 1e6)
        asked = self._asked = replace(self._asked, due_us=due_us)
        fault_point("handoff.request.before_write")
        await self._store.write_documents([document_of(self._session_id, asked)])
        fault_point("handoff.request.after_write")
        self._is_left = True
        live = live_run(self._store, self._session_id)
        if live is not None:
            live.interruption.want(at_once=asked.is_urgent and not is_hopeless(live, asked))
        await sweep_requests(self._store, now_us=self._config.clock.now_us())

    async def _done_here(self, *, run: bool) -> HandoffResult | None:
        """Claim the session and serve the request; `None` if its state must be read again. Raises
        `SessionBusy`."""
        claim, row = await self._claim()
        try:
            async with owned(self._store, claim) as hold:
                here = await opened_for_handoff(
                    self._options, self._store, claim, row, hold=hold, source=self._asked.source
                )
                with registered(here):
                    return await self._do(here, row, run=run)
        except StaleDocument:
            # The request was withdrawn while a person was asked for approval.
            if not self._is_left:
                raise
            return None

    async def _check_approval(self, row: SessionRow, *, run: bool) -> None:
        """Raise `SessionBusy` while a person is asked to approve the handoff, or a worker has to
        act on the answer. The run that asked waits for the answer, not the requester."""
        for question in questions_about(open_questions(row), self._asked.id).values():
            item = await read_item(self._store, question.id)
            if item is not None and item.status == "open":
                raise SessionBusy(row.id, owner="a person", free_in_s=_LONGEST_WAIT_S)
            if not run:
                raise SessionBusy(row.id, owner=_A_WORKER, free_in_s=_LONGEST_WAIT_S)

    async def _is_taken_up(self) -> bool:
        row = await self._store.get(self._session_id)
        return is_taken_up(tried_in(row.cursor), self._asked)

    def _has_to_wait(self, row: SessionRow) -> bool:
        """Whether interrupted calls of the session must be finished first."""
        return not self._asked.is_urgent and has_calls_left(row)

    async def _finish_calls(self, here: RunState) -> None:
        """Resume the interrupted run, which serves the request after its step."""
        if not self._is_left:
            await self._leave()
        here.interruption.want(at_once=False)
        await self._run_on(here, run=True)

    async def _do(self, here: RunState, row: SessionRow, *, run: bool) -> HandoffResult | None:
        asked, taken = self._asked, list[DocumentWrite]()
        if self._is_left:
            document = await self._document()
            if document is None:
                await self._store.release(here.claim)
                return None
            asked, taken = asked_in(document), [removal_of(document)]
        if asked.state != "open":
            await store_withdrawal(here, asked, taken, release=True)
            record = await self._record()
            return await self._failure(asked) if record is None else record.result()
        waits_for_approval = bool(questions_about(here.cursor.questions.open, asked.id))
        if waits_for_approval or (self._has_to_wait(row) and not is_hopeless(here, asked)):
            if not run:
                raise SessionBusy(row.id, owner=_A_WORKER, free_in_s=_LONGEST_WAIT_S)
            await self._finish_calls(here)
            return None
        was_open = any(each.id == asked.cancel for each in here.cursor.handoffs.open)
        await settle_rollback(here)
        if here.outcome is not None:
            return None
        if asked.cancel is not None:
            await self._cancel(here, taken, was_open=was_open)
            return (await read_handoff(self._store, asked.cancel)).result()
        if await make(here, asked, taken, release=True, may_wait=False):
            await self._run_on(here, run=run)
        record = await self._record()
        assert record is not None, "a handoff that was made or refused is on record"
        return record.result()

    async def _cancel(self, here: RunState, taken: list[DocumentWrite], *, was_open: bool) -> None:
        """Roll back the handoff, and leave the session to its source if the run is not over.

        `was_open` is also set if another process began the rollback and did not finish it.
        """
        if not await undo(here, self._asked, taken):
            for each in taken:
                here.write(each)
        if here.outcome is None:
            fault_point("handoff.cancel.before_commit")
            if was_open:
                await here.commit(status="ready", outcome="", release=True)
            else:
                await here.commit(release=True)
            fault_point("handoff.cancel.after_commit")

    async def _run_on(self, here: RunState, *, run: bool) -> None:
        """Run the agent that has the session now, or leave the session to a worker."""
        if not run:
            fault_point("handoff.start.before_release")
            await here.commit(status="ready", outcome="", release=True)
            fault_point("handoff.start.after_release")
            return
        async with suspended_if_left(here, self._options):
            if self._options.on_handoff_executed is not None:
                record = await self._record()
                handoff_id = self._asked.id if record is None else record.id
                self._options.on_handoff_executed(handoff_id, here.cursor.progress.run)
            async for _ in advance(here):
                pass

    async def _outcome(self, *, run: bool) -> HandoffResult:
        """The result of a request that another process took; waits while the session runs.

        If that process died, this process finishes the handoff. A handoff that stays open after the
        run, for example because the run is out of budget, is returned with its current status.
        """
        while True:
            row = await self._store.get(self._session_id)
            record = await self._record()
            if record is None:
                return await self._failure(replace(self._asked, state="cancelled"))
            if record.status in FINAL or not self._is_under_way(row, record.id):
                return record.result()
            if row.owner is None:
                with suppress(SessionBusy):
                    await self._take_over(record.id, run=run)
                    return (await read_handoff(self._store, record.id)).result()
            elif self._remaining() <= 0 or self._is_wait_over():
                return record.result()
            await self._wait(_LONGEST_WAIT_S)

    def _is_under_way(self, row: SessionRow, handoff_id: str) -> bool:
        """Whether the requested handoff or rollback is not finished yet."""
        for pending in Cursor.from_json(row.cursor).handoffs.open:
            if pending.id == handoff_id:
                return self._asked.cancel is None or pending.failure is not None
        return False

    async def _claim(self) -> tuple[Claim, SessionRow]:
        claim, row = await claimed(self._store, self._session_id, self._config, create=self._new)
        fault_point("handoff.start.after_claim")
        return claim, row

    async def _take_over(self, handoff_id: str, *, run: bool) -> None:
        """Resume the session of a process that died. Raises `SessionBusy`."""
        claim, row = await self._claim()
        async with owned(self._store, claim) as hold:
            here = await opened_for_handoff(self._options, self._store, claim, row, hold=hold)
            with registered(here):
                if not self._is_under_way(row, handoff_id):
                    await self._store.release(claim)
                elif self._asked.cancel is not None:
                    await settle_rollback(here)
                    await self._cancel(here, [], was_open=True)
                elif run and row.outcome is None:
                    await self._run_on(here, run=True)
                else:
                    await self._store.release(claim)

    async def _document(self) -> Document | None:
        key = request_key(self._session_id, self._asked.id)
        return await self._store.get_document(REQUESTS, key)

    async def _record(self) -> HandoffRecord | None:
        """The record of the requested handoff; `None` if there is none yet."""
        if self._asked.cancel is not None:
            return await read_handoff(self._store, self._asked.cancel)
        for record in await read_handoffs(self._store, self._session_id):
            if record.request == self._asked.id:
                return record
        return None

    async def _failure(self, asked: Asked) -> HandoffResult:
        """The result of a withdrawn request."""
        source = asked.source or (await self._store.get(self._session_id)).agent
        failure: HandoffFailure = asked.why_withdrawn(source)
        return HandoffResult(
            request_id=asked.id,
            status="failed",
            source=source,
            target=asked.to,
            completed_at=(asked.withdrawn_us or self._config.clock.now_us()) / 1e6,
            error=failure,
        )

    async def _current_status(self) -> HandoffResult:
        """The result of a request that still waits for the session's owner."""
        handoff_id = self._asked.cancel or self._asked.id
        return (await read_handoff(self._store, handoff_id)).result()

    def _remaining(self) -> float:
        return self._deadline - self._config.clock.monotonic()

    def _is_wait_over(self) -> bool:
        return self._waits_until is not None and self._config.clock.monotonic() >= self._waits_until

    async def _wait(self, free_in_s: float) -> None:
        longest = min(self._remaining(), max(free_in_s, 0.05), _LONGEST_WAIT_S)
        if self._waits_until is not None:
            longest = min(longest, self._waits_until - self._config.clock.monotonic())
        await self._store.wait_for_change(max(longest, 0))
