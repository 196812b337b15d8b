"""`ekiden handoff … --server`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ekiden.cli.commands import handoff as local
from ekiden.cli.exits import Exit, exit_for_outcome
from ekiden.cli.handing_over import plain_text
from ekiden.cli.output import emit
from ekiden.cli.remote.likeness import like
from ekiden.cli.remote.options import no_other_name
from ekiden.client.errors import ServerProblem

if TYPE_CHECKING:
    from ekiden.client import AsyncClient
    from ekiden.client.handoffs import Handoff, HandoffEnd, HandoffFilter
    from ekiden.client.streams import AsyncPages
    from ekiden.core.handoff_record import HandoffResult

_WAIT_S = 55.0


@like(local.handoff_start)
async def handoff_start(
    client: AsyncClient,
    *,
    session: str,
    to: str,
    reason: str,
    summary: str,
    context: str,
    policy: Literal["immediate", "graceful", "conditional"] | None,
    timeout_s: float | None,
    priority: int,
    by: str | None,
    no_run: bool,
    max_turns: int | None,
    as_json: bool,
) -> int:
    """Hand a session to another agent; the server lets that work."""
    from ekiden.cli.handing_over import Ending, report_start
    from ekiden.cli.remote.connection import server_words
    from ekiden.cli.remote.reading import row_of

    no_other_name(by)
    options = {"--to": to, "--reason": reason, "--summary": summary, "--context": context}
    for name, text in options.items():
        plain_text(text, name)
    end = await client.handoffs.start(
        session,
        to=to,
        reason=reason,
        summary=summary,
        context=context or None,
        policy=policy,
        timeout_s=timeout_s,
        priority=priority,
        wait_s=0 if no_run else _WAIT_S,
    )
    if as_json:
        emit(end.raw)
    row = row_of((await client.sessions.get(session)).raw)
    ending = Ending(row=row, speaker=end.speaker, answer=end.output, problem=None)
    hint = " ".join(["ekiden", "session", "resume", session, *server_words()])
    return report_start(_result(end), ending, hint=hint, as_json=as_json, is_shown=as_json)


@like(local.handoff_list)
async def handoff_list(
    client: AsyncClient,
    *,
    filters: local.Filters,
    agent: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List handoffs, newest first."""
    found = client.handoffs.list(agent=agent, **_filter(filters))
    await _print(found, limit, cursor, as_json=as_json)


@like(local.handoff_history)
async def handoff_history(
    client: AsyncClient,
    *,
    agent: str,
    filters: local.Filters,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List the handoffs from and to an agent, newest first."""
    found = client.handoffs.history(agent, **_filter(filters))
    await _print(found, limit, cursor, as_json=as_json)


@like(local.handoff_show)
async def handoff_show(client: AsyncClient, *, handoff: str, as_json: bool) -> None:
    """Show everything about a handoff."""
    from ekiden.cli.handoff_view import print_details
    from ekiden.cli.remote.team_reading import handoff_details_of

    found = await client.handoffs.get(handoff)
    if as_json:
        emit(found.raw)
    else:
        print_details(handoff_details_of(found.raw))


@like(local.handoff_cancel)
async def handoff_cancel(
    client: AsyncClient, *, handoff: str, reason: str, by: str | None, as_json: bool
) -> int:
    """Undo a handoff that is not confirmed, or withdraw one."""
    from ekiden.cli.handing_over import report_cancel
    from ekiden.client.handoffs import HandoffEnd

    no_other_name(by)
    plain_text(reason, "--reason")
    try:
        end = await client.handoffs.cancel(handoff, reason=reason)
    except ServerProblem as exc:
        if exc.code != "handoff.settled" or "handoff" not in exc.facts:
            raise
        end = HandoffEnd.of(exc.facts["handoff"])
    return report_cancel(_result(end), handoff_id=handoff, as_json=as_json)


@like(local.handoff_answer)
async def handoff_answer(
    client: AsyncClient,
    *,
    session: str,
    text: str,
    more: tuple[str, ...] = (),
    by: str | None,
    back: bool,
    max_turns: int | None,
    as_json: bool,
) -> int:
    """Answer, as a person, a session that was handed to people."""
    from ekiden.cli.onlooker import Onlooker
    from ekiden.cli.remote.connection import server_words
    from ekiden.cli.remote.watching import RemoteResult
    from ekiden.cli.requests import one_argument, read_text

    one_argument(text, more)
    run = await client.handoffs.answer(session, read_text(text), back=back, by=by)
    if run.is_active:
        run = await client.runs.wait(run.run_id)
    questions = [await client.inbox.get(each) for each in run.questions]
    words = server_words()
    hint = " ".join(["ekiden", "session", "resume", session, *words])
    onlooker = Onlooker(as_json=as_json, stream=False, how_to_resume=hint, store_words=words)
    onlooker.report(RemoteResult(run), questions)
    return Exit.FAILED if run.outcome is None else exit_for_outcome(run.outcome)


async def _print(
    found: AsyncPages[Handoff], limit: int, cursor: str | None, *, as_json: bool
) -> None:
    from ekiden.cli.handoff_view import print_handoffs
    from ekiden.cli.remote.team_reading import handoff_of

    page = await found.page(limit=limit, cursor=cursor)
    records = [handoff_of(each.raw) for each in page.items]
    print_handoffs(records, next_cursor=page.next_cursor, as_json=as_json)


def _filter(filters: local.Filters) -> HandoffFilter:
    query = filters.query(agent=None)
    return {
        "session": filters.session,
        "source": filters.source,
        "target": filters.target,
        "status": filters.status,
        "task": filters.task,
        "correlation": filters.correlation,
        "policy": filters.policy,
        "by": filters.by,
        "since": query.since,
        "until": query.until,
    }


def _result(end: HandoffEnd) -> HandoffResult:
    from ekiden.core.handoff_record import HandoffFailure, HandoffResult

    raw: Any = end.raw
    error = raw["error"]
    return HandoffResult(
        request_id=raw["id"],
        status=raw["status"],
        source=raw["source"],
        target=raw["target"],
        completed_at=raw["completed_at"],
        error=None if error is None else HandoffFailure(**error),
        rollback_performed=raw["rollback_performed"],
    )
