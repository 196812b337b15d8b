"""Handoffs in a store and of the local team; those of one session with what targets saw."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, Unpack

from ekiden.api import handoffs as api
from ekiden.api.local.place import Here, moment_of
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
from ekiden.core.events import Event
from ekiden.core.handoffs.handoff import DEFAULT_TIMEOUT_S, PolicyName
from ekiden.core.handoffs.request import Actor, HandoffContext, HandoffRequest, HandoffResult
from ekiden.core.runs import ACTIVE, Run, RunError, run_id_of
from ekiden.core.values import dumps
from ekiden.handoff.filters.report import filter_report
from ekiden.handoff.lifecycle import FINAL
from ekiden.handoff.records.query import (
    HandoffQuery,
    correlation_of,
    find_handoffs,
    open_requests,
    task_of,
)
from ekiden.handoff.records.records import HandoffRecord, read_handoff, records_of
from ekiden.handoff.records.views import (
    NOTHING_SHOWN,
    ShownConversation,
    read_result,
    read_views,
    shown_conversation,
    view_before,
    words_of,
)
from ekiden.handoff.tool import BEST
from ekiden.project.run_options import tenant_config
from ekiden.project.runs.stored_runs import read_run, run_status, until_free
from ekiden.runtime import HandoffController, RunConfig
from ekiden.runtime.kinds.people import answer_case
from ekiden.runtime.loop.claim import keep_limits
from ekiden.sessions import current_events, is_rewind, said
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionRow, Store

_LOOK_EVERY_S: Final = 1.0
_NOT_FOUND: Final = "AGENT_NOT_FOUND"
_NOTHING: Final[Mapping[str, Any]] = {}


class LocalHandoffs(api.HandoffsApi):
    """See `Handoffs`; without a team everything except reading is a `UserError`.

    Without `runs`, the caller of `start` runs the session until its agent answers, unless `wait_s`
    is 0.
    """

    def __init__(self, here: Here) -> None:
        self._here = here
        self._store = here.store

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
        if not self._here.may_write_history:
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
            request, run=self._here.runs is None and wait_s > 0, wait_s=self._wait_limit(wait_s)
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
        words = {} if record.is_private else words_of(events, record)
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
        told = api.CancelledHandoff(
            id=handoff_id,
            status=result.status,
            source=result.source,
            target=result.target,
            completed_at=result.completed_at,
            error=_refusal(result),
            rollback_performed=result.rollback_performed,
        )
        is_cancelled = result.error is not None and result.error.code == "CANCELLED"
        if is_cancelled or told.is_pending:
            return told
        raise HandoffSettled(handoff_id, to_json(told))

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
        within = limits_of(limits)
        row = await self._store.get(session_id)
        self._check_names(row, to)
        if row.owner is not None and self._here.busy is not None:
            self._here.busy(row)
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
        runs = self._here.runs
        if runs is None:
            controller = self._controller(within)
            result = await controller.start(session_id, **given, run=wait_s > 0)
        elif not within:
            result = await self._controller().start(session_id, **given, run=False)
        else:
            result = await runs.hand_over(session_id, given, limits=within, wait_s=wait_s)
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
        team = self._here.needed_project().team
        who = self._here.person(by)
        row = await self._store.get(session_id)
        is_people = row.agent in team and team[row.agent].traits.is_human
        within = limits_of(limits) if is_people else {}
        async with keep_limits(self._store, session_id, within, config=self._run_config):
            if not is_people or not await answer_case(
                self._store, session_id, text, by=who, give_back=back
            ):
                raise SessionNotWaiting(session_id, agent=row.agent)
        run_id = run_id_of(session_id, run_number(row))
        if self._here.runs is not None:
            return await self._here.runs.wait(run_id, timeout_s=wait_s)
        await until_free(self._store, session_id, timeout_s=wait_s)
        return await read_run(self._store, run_id)

    @property
    def _actor(self) -> Actor:
        return Actor(kind="person" if self._here.is_person else "program", name=self._here.caller)

    def _controller(self, limits: Mapping[str, float] = _NOTHING) -> HandoffController:
        team, config = self._here.needed_project().team, self._run_config.with_limits(limits)
        return HandoffController(team, self._store, run_config=config)

    @property
    def _run_config(self) -> RunConfig:
        return self._here.run_config or tenant_config(self._here.settings, self._here.tenant)

    def _wait_limit(self, wait_s: float) -> float | None:
        """How long to wait for the process that runs the session."""
        return wait_s if self._here.has_deadlines else None

    def _check_names(self, row: SessionRow, *names: str) -> None:
        """`UnknownAgent` if a running session would be handed to an agent outside the team. If it
        is not running, the attempt is recorded."""
        team = self._here.needed_project().team
        for name in names if row.owner is not None else ():
            if name not in team and name != BEST:
                known = [agent.name for agent in team]
                raise UnknownAgent(name, known=known, refusal=_NOT_FOUND)

    def _check_parties(self, result: HandoffResult) -> None:
        """`UnknownAgent`, with the id of the record, if the handoff names an agent outside the
        team."""
        team = self._here.needed_project().team
        if result.error is None or result.error.code != _NOT_FOUND:
            return
        for name in (result.source, result.target):
            if name not in team:
                known = [agent.name for agent in team]
                raise UnknownAgent(
                    name, known=known, refusal=_NOT_FOUND, handoff_id=result.request_id
                )

    async def _until_settled(self, result: HandoffResult, *, deadline: float) -> HandoffResult:
        """The handoff once its target confirmed it, it was rolled back, or no process works on it;
        requests, refusals and withdrawals return at once."""
        if result.status != "transferring":
            return result
        clock = asyncio.get_running_loop()
        record = await read_handoff(self._store, result.request_id)
        while record.status not in FINAL:
            left_s = deadline - clock.time()
            row = await self._store.get(record.session_id)
            if left_s <= 0 or await run_status(self._store, row) not in ACTIVE:
                break
            await self._store.wait_for_change(min(left_s, _LOOK_EVERY_S))
            record = await read_handoff(self._store, record.id)
        return (await read_handoff(self._store, record.id)).result()

    async def _until_answered(
        self, session_id: str, result: HandoffResult, *, deadline: float
    ) -> HandoffResult:
        """The handoff once no process works on its session, or the deadline has passed."""
        runs = self._here.runs
        number = run_number(await self._store.get(session_id))
        if runs is None or result.error is not None or not number:
            return result
        left_s = max(deadline - asyncio.get_running_loop().time(), 0.0)
        await runs.wait(run_id_of(session_id, number), timeout_s=left_s)
        if result.status == "transferring":
            result = (await read_handoff(self._store, result.request_id)).result()
        return result


async def end_of(store: Store, session_id: str, result: HandoffResult) -> api.HandoffEnd:
    """A requested handoff, and what followed."""
    row = await store.get(session_id)
    speaker, answer, problem = await _followed(store, row, result)
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


async def _followed(
    store: Store, row: SessionRow, result: HandoffResult
) -> tuple[str | None, str | None, RunError | None]:
    """The last answer and its agent, and why the run failed if it did."""
    is_over = row.outcome is not None and row.owner is None
    record: HandoffRecord | None = None
    with suppress(HandoffNotFound):  # Only the request for it may be known.
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


MOST_WITH_VIEWS: Final = 50
"""Handoffs on a page that includes what the targets saw."""

_Results: TypeAlias = Mapping[str, Sequence[Item]]
"""The results of filters, by the keys of their steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A handoff with its session's events."""

    record: HandoffRecord
    words: Mapping[str, Any]
    transfer: int | None = None
    """The event that made the handoff; `None` if it was not made."""
    base: str | None = None
    """The step with the source's initial view."""
    after: int = 0

    @property
    def keys(self) -> set[str]:
        """The steps with the view before, and with what the target saw."""
        is_made = self.transfer is not None
        return {key for key in (self.base, self.record.filter) if is_made and key is not None}


async def session_handoffs(
    store: Store, session_id: str, *, start: int = 0, limit: int = 50, views: bool = True
) -> tuple[list[dict[str, Any]], int | None]:
    """A page of the session's handoffs, oldest first, and the next cursor.

    After the last one, beyond the limit, come requests that wait for the process that runs the
    session. Without `views` it is not told what the targets saw; with it, a page has at most
    `MOST_WITH_VIEWS`. Runs that hide their content show none.
    """
    if views:
        limit = min(limit, MOST_WITH_VIEWS)
    end = start + limit
    events = await store.events(session_id)
    # Long conversations take a while to look through: others want their turn meanwhile.
    told, is_last = await asyncio.to_thread(_told, events, start, end)
    results: dict[str, Sequence[Item]] = {}
    if views:
        for key in sorted(set[str]().union(*(each.keys for each in told))):
            results[key] = await read_result(store, session_id, key)
    if is_last:
        waiting = await open_requests(store, HandoffQuery(session_id=session_id))
        told += [_Told(record=request, words={}) for request in waiting]
    shown = await asyncio.to_thread(_records, told, events, results if views else None)
    return shown, None if is_last else end


def _told(events: Sequence[Event], start: int, end: int) -> tuple[list[_Told], bool]:
    """The handoffs from `start` to `end`, and whether these are the last ones."""
    records = records_of(events)
    chosen = records[start:end]
    turns = [event for event in events if event.type == "handoff" or is_rewind(event)]
    telling = _telling(events, chosen)
    told = []
    for record in chosen:
        transfer = _transfer(record)
        base, after = (None, 0) if transfer is None else view_before(turns, transfer)
        words = words_of(telling[record.id], record)
        told.append(_Told(record=record, words=words, transfer=transfer, base=base, after=after))
    return told, end >= len(records)


def _telling(events: Sequence[Event], records: Sequence[HandoffRecord]) -> dict[str, list[Event]]:
    """For each handoff the events that may contain its message: its own, and its model's call."""
    found: dict[str, list[Event]] = {record.id: [] for record in records}
    callers: dict[str, list[str]] = {}
    for record in records:
        if record.call_id is not None:
            callers.setdefault(record.call_id, []).append(record.id)
    for event in events:
        ids: set[str] = set()
        if event.type == "handoff":
            ids.add(str((event.details or {}).get("id")))
        for item in event.items:
            if item.get("type") == "function_call":
                ids.update(callers.get(str(item.get("call_id")), ()))
        for each in ids & found.keys():
            found[each].append(event)
    return found


def _transfer(record: HandoffRecord) -> int | None:
    if not record.is_made:
        return None
    return next(move.seq for move in record.moves if move.status in ("transferring", "completed"))


def _records(
    told: Sequence[_Told], events: Sequence[Event], results: _Results | None
) -> list[dict[str, Any]]:
    """As JSON; without `results`, without views."""
    stands = {event.seq for event in current_events(events)}
    records = []
    for each in told:
        seq = each.transfer or each.record.moves[0].seq
        data = _record(each)
        data["view"] = None if results is None else _view(each, events, results).to_json()
        data["rewound"] = 0 < seq <= len(events) and seq not in stands
        if data["rewound"] and each.transfer is not None:
            data["status"] = "rolled_back"
        records.append(data)
    return records


def _record(told: _Told) -> dict[str, Any]:
    record = told.record
    took_s = None if record.settled_at is None else record.settled_at - record.started_at
    return {
        **record.to_json(),
        "duration_ms": None if took_s is None else round(took_s * 1e3, 3),
        "summary": None if record.is_private else _summary_text(told.words),
    }


def _summary_text(words: Mapping[str, Any]) -> str | None:
    summary = words.get("summary")
    return summary if isinstance(summary, str | None) else dumps(summary)


def _view(told: _Told, events: Sequence[Event], results: _Results) -> ShownConversation:
    if told.transfer is None:
        return NOTHING_SHOWN
    key = told.record.filter
    return shown_conversation(
        events[: told.transfer],
        base=() if told.base is None else results[told.base],
        after=told.after,
        result=None if key is None else results[key],
    )
