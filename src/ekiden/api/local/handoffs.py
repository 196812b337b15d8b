"""Lists, requests, cancels and answers handoffs of the local team in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Unpack

from ekiden.api import handoffs as api
from ekiden.api.local.context import LocalPart, moment_of
from ekiden.api.local.handoff_views import session_handoffs
from ekiden.api.methods.values import Page, Pages
from ekiden.api.runs import LimitOptions, limits_of
from ekiden.audit import find_records
from ekiden.core.conversation.model import Item, is_message, read_items, text_of
from ekiden.core.conversation.quotes import as_caller_data
from ekiden.core.documents import from_json, to_json
from ekiden.core.errors import (
    HandoffNotFound,
    HandoffSettled,
    SessionNotFound,
    SessionNotWaiting,
    UnknownAgent,
)
from ekiden.core.handoffs import (
    DEFAULT_TIMEOUT_S,
    Actor,
    HandoffContext,
    HandoffRequest,
    HandoffResult,
    PolicyName,
)
from ekiden.core.runs import ACTIVE, Run, RunError, run_id_of
from ekiden.handoff.query import HandoffQuery, correlation_of, find_handoffs, task_of
from ekiden.handoff.records import HandoffRecord, read_handoff
from ekiden.handoff.report import filter_report
from ekiden.handoff.requests import FINAL
from ekiden.handoff.tool import BEST
from ekiden.handoff.views import passed_data_of, read_views
from ekiden.project.run_tasks import tenant_config
from ekiden.project.stored_runs import read_run, run_status, until_free
from ekiden.runtime import HandoffController, RunConfig
from ekiden.runtime.kinds.people import answer_case
from ekiden.runtime.loop.claim import keep_limits
from ekiden.sessions import said
from ekiden.sessions.session import run_number
from ekiden.storage.base import SessionRow, Store

_POLL_S: Final = 1.0
_NOT_FOUND: Final = "AGENT_NOT_FOUND"
_NOTHING: Final[Mapping[str, Any]] = {}


class LocalHandoffs(LocalPart, api.HandoffsApi):
    """`HandoffsApi` on a store in this process. Without a team, handoffs can only be read, and all
    other methods raise `UserError`.

    If the context has no `runs`, `start` itself runs the session until the agent answers, unless
    `wait_s` is 0.
    """

    async def initiate(
        self,
        source_agent_id: str,
        target_agent_id: str,
        task_id: str,
        *,
        task_state: Mapping[str, Any] = _NOTHING,
        conversation_history: Sequence[Mapping[str, Any]] = (),
        policy: PolicyName = "graceful",
        reason: str = "",
        correlation_id: str | None = None,
        priority: int = 0,
        timeout_s: float | None = None,
        capabilities: Sequence[str] = (),
        condition: str = "",
        metadata: Mapping[str, Any] = _NOTHING,
        wait_s: float = 10.0,
    ) -> api.InitiatedHandoff:
        history: Sequence[Item] = read_items(conversation_history, "conversation_history")
        if not self._context.may_write_history:
            history = as_caller_data(history)
        correlated = {} if correlation_id is None else {"correlation_id": correlation_id}
        request = HandoffRequest(
            source=source_agent_id,
            target=target_agent_id,
            context=HandoffContext(
                task_id=task_id,
                task_state=dict(task_state),
                conversation_history=history,
                priority=priority,
                timeout=DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s,
                metadata={**metadata, **correlated},
            ),
            policy=policy,
            reason=reason,
            capabilities=capabilities,
            condition=condition,
            by=self._actor,
        )
        with suppress(SessionNotFound):
            row = await self._store.get(task_id)
            self._check_names(row, source_agent_id, target_agent_id)
        deadline = asyncio.get_running_loop().time() + wait_s
        result = await self._controller().initiate(
            request, run=self._context.runs is None and wait_s > 0, wait_s=self._wait_limit(wait_s)
        )
        self._check_parties(result)
        result = await self._until_settled(result, deadline=deadline)
        return api.InitiatedHandoff(
            handoff_id=result.request_id,
            status=result.status,
            source_agent_id=result.source,
            target_agent_id=result.target,
            error=_refusal(result),
        )

    def list(
        self, *, agent: str | None = None, **filters: Unpack[api.HandoffFilters]
    ) -> Pages[api.HandoffSummary]:
        query = HandoffQuery(
            agent=agent,
            source=filters.get("source"),
            target=filters.get("target"),
            task=filters.get("task"),
            correlation_id=filters.get("correlation"),
            status=filters.get("status"),
            session_id=filters.get("session"),
            policy=filters.get("policy"),
            by=filters.get("by"),
            since=moment_of(filters.get("since"), what="since"),
            until=moment_of(filters.get("until"), what="until"),
        )

        async def fetch(limit: int, cursor: str | None) -> Page[api.HandoffSummary]:
            found = await find_handoffs(self._store, query, limit=limit, cursor=cursor)
            items = [_summary(each) for each in found.records]
            return Page(items=items, next_cursor=found.next_cursor)

        return Pages(fetch)

    def history(
        self, agent_id: str, **filters: Unpack[api.HandoffFilters]
    ) -> Pages[api.HandoffSummary]:
        return self.list(agent=agent_id, **filters)

    def of_session(self, session_id: str, *, views: bool = True) -> Pages[api.HandoffView]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.HandoffView]:
            await self._store.get(session_id)
            found, end = await session_handoffs(
                self._store, session_id, start=int(cursor or 0), limit=limit, views=views
            )
            items = [from_json(api.HandoffView, each) for each in found]
            return Page(items=items, next_cursor=None if end is None else str(end))

        return Pages(fetch)

    async def get(self, handoff_id: str) -> api.HandoffDetails:
        record = await read_handoff(self._store, handoff_id)
        events = await self._store.events(record.session_id)
        views = await read_views(self._store, record)
        is_on_record = record.moves[0].seq > 0
        records = await find_records(self._store, handoff_id) if is_on_record else ()
        words = {} if record.is_private else passed_data_of(events, record)
        record = record.shown()
        if record.reason and "reason" not in words:
            words = {"reason": record.reason, **words}
        row = await self._store.get(record.session_id)
        report = None
        if views is not None:
            found = filter_report(views.before, views.after)
            report = found.without_texts(views.hidden, hide_new=views.hide_new).to_json()
        details: api.HandoffDetails = from_json(
            api.HandoffDetails,
            {
                **record.to_json(),
                "task_id": task_of(row),
                "correlation_id": correlation_of(row),
                "call_id": record.call_id,
                "words": dict(words),
                "compensations_failed": record.rollback_attempts,
                "agent": row.agent,
                "view": report,
                "audit": [each.id for each in records],
            },
        )
        return details

    async def cancel(
        self, handoff_id: str, *, reason: str = "", wait_s: float = 10.0
    ) -> api.CancelledHandoff:
        result = await self._controller().cancel(
            handoff_id, reason=reason, by=self._actor, wait_s=self._wait_limit(wait_s)
        )
        cancelled = api.CancelledHandoff(
            id=handoff_id,
            status=result.status,
            source=result.source,
            target=result.target,
            completed_at=result.completed_at,
            error=_refusal(result),
            rollback_performed=result.rollback_performed,
        )
        has_code = result.error is not None and result.error.code == "CANCELLED"
        if has_code or cancelled.is_pending:
            return cancelled
        raise HandoffSettled(handoff_id, to_json(cancelled))

    async def start(
        self,
        session_id: str,
        to: str,
        *,
        reason: str = "",
        summary: str = "",
        context: Any = None,
        policy: PolicyName | None = None,
        timeout_s: float | None = None,
        priority: int = 0,
        metadata: Mapping[str, Any] = _NOTHING,
        wait_s: float = 10.0,
        **limits: Unpack[LimitOptions],
    ) -> api.HandoffEnd:
        new_limits = limits_of(limits)
        row = await self._store.get(session_id)
        self._check_names(row, to)
        if row.owner is not None and self._context.busy is not None:
            self._context.busy(row)
        given: dict[str, Any] = {
            "to": to,
            "reason": reason,
            "summary": summary,
            "context": context,
            "policy": policy,
            "timeout_s": timeout_s,
            "priority": priority,
            "metadata": metadata,
            "by": self._actor,
            "wait_s": self._wait_limit(wait_s),
        }
        deadline = asyncio.get_running_loop().time() + wait_s
        runs = self._context.runs
        if runs is None:
            controller = self._controller(new_limits)
            result = await controller.start(session_id, **given, run=wait_s > 0)
        elif not new_limits:
            result = await self._controller().start(session_id, **given, run=False)
        else:
            result = await runs.hand_over(session_id, given, limits=new_limits, wait_s=wait_s)
        self._check_parties(result)
        result = await self._until_answered(session_id, result, deadline=deadline)
        return await end_of(self._store, session_id, result)

    async def answer(
        self,
        session_id: str,
        text: str,
        *,
        back: bool = False,
        by: str | None = None,
        wait_s: float = 10.0,
        **limits: Unpack[LimitOptions],
    ) -> Run:
        team = self._context.needed_project().team
        person = self._context.person(by)
        row = await self._store.get(session_id)
        is_human = row.agent in team and team[row.agent].traits.is_human
        new_limits = limits_of(limits) if is_human else {}
        async with keep_limits(self._store, session_id, new_limits, config=self._run_config):
            if not is_human or not await answer_case(
                self._store, session_id, text, by=person, give_back=back
            ):
                raise SessionNotWaiting(session_id, agent=row.agent)
        run_id = run_id_of(session_id, run_number(row))
        if self._context.runs is not None:
            return await self._context.runs.wait(run_id, timeout_s=wait_s)
        await until_free(self._store, session_id, timeout_s=wait_s)
        return await read_run(self._store, run_id)

    @property
    def _actor(self) -> Actor:
        return Actor(
            kind="person" if self._context.is_person else "program", name=self._context.caller
        )

    def _controller(self, limits: Mapping[str, float] = _NOTHING) -> HandoffController:
        team, config = self._context.needed_project().team, self._run_config.with_limits(limits)
        return HandoffController(team, self._store, run_config=config)

    @property
    def _run_config(self) -> RunConfig:
        return self._context.run_config or tenant_config(
            self._context.settings, self._context.tenant
        )

    def _wait_limit(self, wait_s: float) -> float | None:
        """Seconds to wait for the process that runs the session; `None`: no limit."""
        return wait_s if self._context.has_deadlines else None

    def _check_names(self, row: SessionRow, *names: str) -> None:
        """`UnknownAgent` if a name is not in the team and a process runs the session. Otherwise the
        attempt is made, so that it is recorded."""
        team = self._context.needed_project().team
        for name in names if row.owner is not None else ():
            if name not in team and name != BEST:
                known = [agent.name for agent in team]
                raise UnknownAgent(name, known=known, refusal=_NOT_FOUND)

    def _check_parties(self, result: HandoffResult) -> None:
        """`UnknownAgent`, with the id of the record, if the handoff names an agent outside the
        team."""
        team = self._context.needed_project().team
        if result.error is None or result.error.code != _NOT_FOUND:
            return
        for name in (result.source, result.target):
            if name not in team:
                known = [agent.name for agent in team]
                raise UnknownAgent(
                    name, known=known, refusal=_NOT_FOUND, handoff_id=result.request_id
                )

    async def _until_settled(self, result: HandoffResult, *, deadline: float) -> HandoffResult:
        """The handoff once it is confirmed or rolled back, or no process works on it. Requests,
        refusals and withdrawals are returned at once."""
        if result.status != "transferring":
            return result
        clock = asyncio.get_running_loop()
        record = await read_handoff(self._store, result.request_id)
        while record.status not in FINAL:
            left_s = deadline - clock.time()
            row = await self._store.get(record.session_id)
            if left_s <= 0 or await run_status(self._store, row) not in ACTIVE:
                break
            await self._store.wait_for_change(min(left_s, _POLL_S))
            record = await read_handoff(self._store, record.id)
        return (await read_handoff(self._store, record.id)).result()

    async def _until_answered(
        self, session_id: str, result: HandoffResult, *, deadline: float
    ) -> HandoffResult:
        """The handoff once no process works on its session, or at the deadline."""
        runs = self._context.runs
        number = run_number(await self._store.get(session_id))
        if runs is None or result.error is not None or not number:
            return result
        left_s = max(deadline - asyncio.get_running_loop().time(), 0.0)
        await runs.wait(run_id_of(session_id, number), timeout_s=left_s)
        if result.status == "transferring":
            result = (await read_handoff(self._store, result.request_id)).result()
        return result


async def end_of(store: Store, session_id: str, result: HandoffResult) -> api.HandoffEnd:
    """Return a requested handoff, with the state of its session after the handoff."""
    row = await store.get(session_id)
    speaker, answer, problem = await _answer_after(store, row, result)
    return api.HandoffEnd(
        id=result.request_id,
        session_id=session_id,
        status=result.status,
        source=result.source,
        target=result.target,
        completed_at=result.completed_at,
        error=_refusal(result),
        rollback_performed=result.rollback_performed,
        agent=row.agent,
        outcome=row.outcome,
        speaker=speaker,
        output=answer,
        standing="running" if row.owner is not None else row.status,
        problem=problem,
    )


async def _answer_after(
    store: Store, row: SessionRow, result: HandoffResult
) -> tuple[str | None, str | None, RunError | None]:
    """The agent and the text of the last answer after the handoff, and why the run failed."""
    is_over = row.outcome is not None and row.owner is None
    record: HandoffRecord | None = None
    with suppress(HandoffNotFound):  # There may be only a request so far.
        record = await read_handoff(store, result.request_id)
    if record is None or not record.is_made or not is_over:
        return None, None, None
    events = await store.events(row.id, after=record.moves[0].seq)
    speaker = answer = problem = None
    for event in said(events):
        texts = [text_of(item) for item in event.items if _is_answer(item)]
        if any(texts):
            speaker, answer = event.agent, "\n".join(filter(None, texts))
    if row.outcome not in ("done", "waiting"):
        failed = next((each for each in reversed(events) if each.type == "agent_error"), None)
        code = (failed.details or {}).get("code") if failed is not None else None
        error = failed.error if failed is not None else None
        problem = RunError(
            code=code or f"run.{row.outcome}", message=error or f"the run ended: {row.outcome}"
        )
    return speaker, answer, problem


def _refusal(result: HandoffResult) -> api.HandoffRefusal | None:
    if result.error is None:
        return None
    return api.HandoffRefusal(code=result.error.code, message=result.error.message)


def _is_answer(item: Any) -> bool:
    return is_message(item) and item.get("role") == "assistant"


def _summary(record: HandoffRecord) -> api.HandoffSummary:
    summary: api.HandoffSummary = from_json(api.HandoffSummary, record.to_json())
    return summary
