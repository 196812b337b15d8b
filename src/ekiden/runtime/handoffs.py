"""`HandoffController`: handoffs that a person or a program asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import (
    HandoffRefused,
    SessionBusy,
    SessionNotFound,
    StaleDocument,
    UserError,
)
from ekiden.core.faults import fault_point
from ekiden.core.handoff_record import (
    A_PERSON,
    A_PROGRAM,
    Actor,
    HandoffFailure,
    HandoffRequest,
    HandoffResult,
)
from ekiden.core.handoff_terms import DEFAULT_TIMEOUT_S, HandoffPolicy
from ekiden.core.ids import new_id
from ekiden.core.items import to_items
from ekiden.core.team import Team
from ekiden.handoff.records import HandoffRecord, read_handoff, read_handoffs
from ekiden.runtime.advance import advance
from ekiden.runtime.circumstances import Circumstances
from ekiden.runtime.config import RunConfig
from ekiden.runtime.controller import carry_out, store_refusal
from ekiden.runtime.cursor import Cursor
from ekiden.runtime.leases import REQUESTS
from ekiden.runtime.live import live_run, on_display
from ekiden.runtime.loading import opened_for_handoff, seed
from ekiden.runtime.opening import claimed, owned, parked_if_left, taken_up
from ekiden.runtime.people import answer_as_person
from ekiden.runtime.requests import (
    Asked,
    asked_in,
    attempt_for,
    document_of,
    refused_attempt,
)
from ekiden.runtime.results import RunResult
from ekiden.runtime.rollback import give_back
from ekiden.runtime.state import RunState
from ekiden.storage.base import DocumentWrite, NewSession, Store

_OPEN = ("initiated", "validating", "transferring")


class HandoffController:
    """Starts, shows and cancels handoffs of sessions in a store.

    For example::

        controller = HandoffController(team, store)
        result = await controller.start("customer-42", to="billing", reason="asked for a refund")
        print(result.status, result.error)
    """

    def __init__(
        self,
        team: Agent[Any] | Team,
        store: Store,
        *,
        run_config: RunConfig | None = None,
        context: Any = None,
    ) -> None:
        self._team = team if isinstance(team, Team) else Team(team)
        self._store = store
        self._config = run_config or RunConfig()
        self._context = context

    async def start(
        self,
        session_id: str,
        *,
        to: str,
        reason: str = "",
        summary: str = "",
        context: Any = None,
        payload: Any = None,
        policy: HandoffPolicy | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        capabilities: tuple[str, ...] = (),
        by: Actor = A_PROGRAM,
        run: bool = True,
    ) -> HandoffResult:
        """Hand the session to the agent `to`, by a way that its agent has, and say what came of it.

        A session that nobody runs is taken, and the target works on it until it answers; with
        ``run=False`` it is left to the workers. One that is being run is handed over by whoever
        runs it: when its step is finished (`graceful`), or at once (`immediate`); that is waited
        for, and given up after `timeout_s`. Refusals are results, not exceptions. Raises
        `SessionNotFound`, and `StoreUnavailable`.
        """
        if timeout_s <= 0:
            raise UserError(f"`timeout_s` must be above 0, not {timeout_s!r}")
        asked = Asked(
            id=new_id("hrq"),
            to=to,
            reason=reason,
            summary=summary,
            context=context,
            payload=payload,
            policy=policy,
            timeout_s=timeout_s,
            capabilities=capabilities,
            by=by,
            asked_us=self._config.clock.now_us(),
        )
        await self._store.open()
        await self._store.get(session_id)
        return await self._do_or_leave(session_id, asked, timeout_s, run=run)

    async def initiate(self, request: HandoffRequest, *, run: bool = True) -> HandoffResult:
        """Hand over the task of `request`, whose session is named like the task.

        A task that has no session yet gets one, held by the source, with the history and the state
        of `request.context`. An open session must be the source's.
        """
        given = request.context
        await self._store.open()
        self._team[request.source]
        await self._create(request)
        row = await self._store.get(given.task_id)
        if row.agent != request.source:
            raise UserError(
                f"task {given.task_id!r} is not with {request.source!r} but with {row.agent!r}"
            )
        return await self.start(
            given.task_id,
            to=request.target,
            reason=request.reason or given.reason,
            summary=given.summary,
            context=given.context,
            payload=given.payload,
            policy=request.policy,
            timeout_s=given.timeout,
            by=request.by,
            run=run,
        )

    async def get(self, handoff_id: str) -> HandoffRecord:
        """The handoff with everything that is known of it; `HandoffNotFound`."""
        await self._store.open()
        return await read_handoff(self._store, handoff_id)

    async def cancel(
        self, handoff_id: str, *, reason: str = "", by: Actor = A_PERSON
    ) -> HandoffResult:
        """Undo a handoff that is not confirmed, or withdraw one that was only asked for.

        One that is settled stays as it is: the result says how. `HandoffNotFound`.
        """
        await self._store.open()
        withdrawn = await self._withdraw(handoff_id)
        if withdrawn is not None:
            return withdrawn
        record = await read_handoff(self._store, handoff_id)
        if record.status not in _OPEN:
            return record.result()
        asked = Asked(
            id=new_id("hrq"),
            cancel=handoff_id,
            reason=reason,
            by=by,
            asked_us=self._config.clock.now_us(),
        )
        await self._do_or_leave(record.session_id, asked, DEFAULT_TIMEOUT_S, run=False)
        return (await read_handoff(self._store, handoff_id)).result()

    async def answer(
        self, session_id: str, text: str, *, by: str, give_back: bool = False
    ) -> RunResult:
        """Let the person called `by` answer a session that waits for people.

        The words are the answer of the run; with `give_back` they go to the agent that handed the
        conversation to people, which goes on with it. A failure of that agent is an outcome, not an
        exception. Raises `UserError` if the session does not wait for a person, and
        `SessionNotFound`. For example::

            result = await controller.answer("customer-42", "We replace it.", by="anna")
        """
        if not text.strip():
            raise UserError("an answer needs words: the text is empty")
        await self._store.open()
        around = Circumstances(root=self._team, config=self._config, context=self._context)
        agent = around.find((await self._store.get(session_id)).agent)
        if agent.person is None:
            raise UserError(
                f"session {session_id!r} does not wait for a person: agent {agent.name!r} has it; "
                "send it a message, or hand the session to people first"
            )
        claim, row = await claimed(self._store, session_id, self._config)
        async with taken_up(around, self._store, claim, row) as run:
            await answer_as_person(run, text, by=by, give_back=give_back)
            async for _ in advance(run):
                pass
        return RunResult(run)

    async def _do_or_leave(
        self, session_id: str, asked: Asked, timeout_s: float, *, run: bool
    ) -> HandoffResult:
        """Do it here if nobody has the session, else leave it to whoever has."""
        around = Circumstances(root=self._team, config=self._config, context=self._context)
        deadline = self._config.clock.monotonic() + timeout_s
        left = False
        while True:
            try:
                claim, row = await claimed(
                    self._store, session_id, replace(self._config, on_busy="refuse")
                )
            except SessionBusy as busy:
                if not left:
                    fault_point("handoff.request.before_write")
                    await self._store.write_documents([document_of(session_id, asked)])
                    fault_point("handoff.request.after_write")
                    left = True
                    live = live_run(self._store, session_id)
                    if live is not None:
                        live.want(at_once=asked.is_urgent)
                settled = await self._settled(session_id, asked)
                if settled is not None:
                    return settled
                remaining = deadline - self._config.clock.monotonic()
                if remaining <= 0:
                    return await self._give_up(session_id, asked)
                await self._store.wait_for_change(min(remaining, max(busy.free_in_s, 0.05), 1.0))
                continue
            fault_point("handoff.start.after_claim")
            async with owned(self._store, claim) as hold:
                here = await opened_for_handoff(around, self._store, claim, row, hold=hold)
                if left and not await self._take_back(session_id, asked, here):
                    return await self._go_on(here, asked, run=run)
                return await self._do(here, asked, run=run)

    async def _go_on(self, here: RunState, asked: Asked, *, run: bool) -> HandoffResult:
        """Somebody took the request up, and has the session no longer: see to the rest of it."""
        made: str | None = None
        for record in await read_handoffs(self._store, here.session_id):
            if record.request == asked.id:
                made = record.id
        if made is None:
            return await self._do(here, asked, run=run)
        if run and any(each.id == made for each in here.cursor.open):
            await self._run(here)
        else:
            await self._store.release(here.claim)
        return (await read_handoff(self._store, made)).result()

    async def _run(self, here: RunState) -> None:
        with on_display(here):
            async with parked_if_left(here, "idle"):
                async for _ in advance(here):
                    pass

    async def _do(self, here: RunState, asked: Asked, *, run: bool) -> HandoffResult:
        if asked.cancel is not None:
            pending = here.cursor.pending
            is_undone = pending is not None and pending.id == asked.cancel
            if is_undone:
                why = asked.reason or f"{asked.by.name or asked.by.kind} cancelled it"
                await give_back(here, HandoffRefused("CANCELLED", why), writes=here.writes())
            if here.outcome is None:
                fault_point("handoff.cancel.before_commit")
                if is_undone:
                    await here.commit(status="ready", outcome="", release=True)
                else:
                    await here.commit(release=True)
                fault_point("handoff.cancel.after_commit")
            return (await read_handoff(self._store, asked.cancel)).result()
        moved = False
        number = here.cursor.handoffs + 1
        try:
            attempt = await attempt_for(here, asked)
            attempt.begins_run = here.before is not None
            moved = await carry_out(here, attempt)
        except HandoffRefused as exc:
            refused_attempt(here, asked, exc)
        handoff_id = f"{here.session_id}.h{number}"
        if not moved:
            await store_refusal(here, release=True)
        elif run:
            await self._run(here)
        else:
            fault_point("handoff.start.before_release")
            await here.commit(status="ready", outcome="", release=True)
            fault_point("handoff.start.after_release")
        return (await read_handoff(self._store, handoff_id)).result()

    async def _settled(self, session_id: str, asked: Asked) -> HandoffResult | None:
        """What came of a request that was left to others; `None` while nothing did."""
        document = await self._store.get_document(REQUESTS, f"{session_id}/{asked.id}")
        if document is not None:
            is_withdrawn = asked_in(document).state == "cancelled"
            return await self._withdrawn(session_id, asked) if is_withdrawn else None
        if asked.cancel is not None:
            open_now = Cursor.from_json((await self._store.get(session_id)).cursor).open
            if any(each.id == asked.cancel and each.failure for each in open_now):
                return None
            return (await read_handoff(self._store, asked.cancel)).result()
        for record in await read_handoffs(self._store, session_id):
            if record.request == asked.id:
                return None if record.status in _OPEN else record.result()
        return None

    async def _give_up(self, session_id: str, asked: Asked) -> HandoffResult:
        """The source did not finish in time: nobody is to take the request up any more."""
        key = f"{session_id}/{asked.id}"
        document = await self._store.get_document(REQUESTS, key)
        row = await self._store.get(session_id)
        if document is not None:
            late = replace(asked_in(document), state="timed_out")
            try:
                fault_point("handoff.withdrawn.before_write")
                await self._store.write_documents(
                    [document_of(session_id, late, version=document.version)]
                )
                fault_point("handoff.withdrawn.after_write")
            except StaleDocument:
                document = None
        if document is None:
            for record in await read_handoffs(self._store, session_id):
                if record.request == asked.id:
                    return record.result()
        return HandoffResult(
            request_id=asked.id,
            status="rolled_back",
            source=row.agent,
            target=asked.to,
            completed_at=self._config.clock.now_us() / 1e6,
            error=HandoffFailure(
                code="TIMEOUT",
                message=f"{row.agent!r} did not finish what it was doing within "
                f"{asked.timeout_s or DEFAULT_TIMEOUT_S:g} s",
            ),
        )

    async def _take_back(self, session_id: str, asked: Asked, here: RunState) -> bool:
        """The session became free before anybody took the request up: it is done here."""
        key = f"{session_id}/{asked.id}"
        document = await self._store.get_document(REQUESTS, key)
        if document is None:
            return False
        here.write(
            DocumentWrite(
                collection=REQUESTS, key=key, body=None, expected_version=document.version
            )
        )
        return True

    async def _withdraw(self, request_id: str) -> HandoffResult | None:
        """Withdraw a request that nobody took up yet; `None` if there is none of that id."""
        after = ""
        while documents := await self._store.list_documents(REQUESTS, after=after):
            for document in documents:
                asked = asked_in(document)
                if asked.id == request_id:
                    session_id = document.key.rpartition("/")[0]
                    cancelled = replace(asked, state="cancelled")
                    fault_point("handoff.withdrawn.before_write")
                    await self._store.write_documents(
                        [document_of(session_id, cancelled, version=document.version)]
                    )
                    fault_point("handoff.withdrawn.after_write")
                    return await self._withdrawn(session_id, asked)
            after = documents[-1].key
        return None

    async def _withdrawn(self, session_id: str, asked: Asked) -> HandoffResult:
        return HandoffResult(
            request_id=asked.id,
            status="rolled_back",
            source=(await self._store.get(session_id)).agent,
            target=asked.to,
            error=HandoffFailure(code="CANCELLED", message="it was withdrawn"),
        )

    async def _create(self, request: HandoffRequest) -> None:
        """A session for the task, if there is none."""
        given = request.context
        correlation = given.metadata.get("correlation_id")
        new = NewSession(
            id=given.task_id,
            agent=request.source,
            meta={"task_id": given.task_id, "correlation_id": correlation or given.task_id},
        )
        try:
            await self._store.get(given.task_id)
            return
        except SessionNotFound:
            pass
        config = replace(self._config, on_busy="refuse")
        claim, row = await claimed(self._store, given.task_id, config, create=new)
        around = Circumstances(root=self._team, config=self._config, context=self._context)
        async with owned(self._store, claim) as hold:
            if row.seq == 0:
                items = tuple(to_items(tuple(given.conversation_history)))
                await seed(around, self._store, claim, row, items, given.task_state, hold=hold)
