"""`ekiden handoff …`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.options import (
    STORE,
    TEAM,
    AllowOption,
    JsonOption,
    KeepGoingOption,
    MaxTurnsOption,
    ModelOption,
    MoreWords,
    StoreOption,
    TeamOption,
)

if TYPE_CHECKING:
    from ekiden.handoff.history_query import HandoffQuery

SessionArgument = Annotated[str, Parameter(help="The session's id.")]
HandoffArgument = Annotated[str, Parameter(help="The handoff's id, or that of a request.")]
ByOption: TypeAlias = Annotated[
    str | None, Parameter(name="--by", help="Who asks for it; else this machine's user.")
]
PolicyOption: TypeAlias = Literal["immediate", "graceful", "conditional"] | None
LimitOption: TypeAlias = Annotated[
    int, Parameter(name="--limit", validator=Number(gte=1, lte=1000), help="How many.")
]
CursorOption: TypeAlias = Annotated[
    str | None, Parameter(name="--cursor", help="Go on where the last page ended.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which handoffs; what is not given does not restrict."""

    session: Annotated[str | None, Parameter(help="Only those of this session.")] = None
    source: Annotated[
        str | None, Parameter(name="--from", help="Only those that this agent made.")
    ] = None
    target: Annotated[str | None, Parameter(name="--to", help="Only those to this agent.")] = None
    status: Annotated[
        Literal["initiated", "transferring", "completed", "failed", "rolled_back"] | None,
        Parameter(help="Only those that stand there now."),
    ] = None
    task: Annotated[str | None, Parameter(help="Only those of this task.")] = None
    correlation: Annotated[str | None, Parameter(help="Only those with this correlation id.")] = (
        None
    )
    policy: Annotated[PolicyOption, Parameter(help="Only those with this policy.")] = None
    by: Annotated[
        str | None,
        Parameter(
            help="Only those that this one wanted: model, trigger, person, program, or a name."
        ),
    ] = None
    since: Annotated[
        str | None, Parameter(help="From then on: a date, a date with a time, or 2h, 7d ago.")
    ] = None
    until: Annotated[str | None, Parameter(help="Before then; as --since.")] = None

    def query(self, *, agent: str | None) -> HandoffQuery:
        """What is asked; `UsageError` for what is no time."""
        from ekiden.cli.moments import moment
        from ekiden.handoff.history_query import HandoffQuery

        return HandoffQuery(
            agent=agent,
            source=self.source,
            target=self.target,
            task=self.task,
            correlation_id=self.correlation,
            status=self.status,
            session_id=self.session,
            policy=self.policy,
            by=self.by,
            since=moment(self.since, option="--since"),
            until=moment(self.until, option="--until"),
        )


EVERYTHING = Filters()


async def handoff_start(
    session: SessionArgument,
    /,
    *,
    to: Annotated[str, Parameter(help="The agent that is to get the session.")],
    reason: Annotated[str, Parameter(help="Why; the agent is told.", show_default=False)] = "",
    summary: Annotated[str, Parameter(help="What was done so far.", show_default=False)] = "",
    context: Annotated[
        str, Parameter(help="What else the agent has to know.", show_default=False)
    ] = "",
    policy: Annotated[
        PolicyOption,
        Parameter(help="When: at once, after the step under way, or if its condition holds."),
    ] = None,
    timeout_s: Annotated[
        float | None,
        Parameter(
            name="--timeout",
            validator=Number(gt=0, lte=1e9),
            help="Give up after so many seconds; else as the handoff says, or after 300.",
        ),
    ] = None,
    priority: Annotated[
        int, Parameter(help="How important it is; the agent is told.", show_default=False)
    ] = 0,
    by: ByOption = None,
    no_run: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Leave the work to others."),
    ] = False,
    team: TeamOption = TEAM,
    model: ModelOption = None,
    allow: AllowOption = (),
    max_turns: MaxTurnsOption = None,
    keep_going: KeepGoingOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Hand a session to another agent, and let that work until it answers.

    A session that another process runs is handed over by that process: when its
    step is finished, or at once with --policy immediate.
    """
    import asyncio

    from ekiden.app import open_store
    from ekiden.cli.approving import approver
    from ekiden.cli.errors import Interrupted
    from ekiden.cli.handing_over import (
        ending_of,
        person_name,
        plain_text,
        report_start,
        stopped,
        tell_busy,
    )
    from ekiden.cli.onlooker import resume_command, run_config
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.core.handoff_record import Actor
    from ekiden.runtime import HandoffController

    options = {"--to": to, "--reason": reason, "--summary": summary, "--context": context}
    for name, text in options.items():
        plain_text(text, name)
    who = person_name(by)
    project = open_project(team=team, model=model, keep_going=keep_going, as_json=as_json)
    config = run_config(
        max_turns=max_turns,
        no_wait=True,
        model=model,
        approver=approver(allow),
        settings=project.settings,
    )
    address = project.settings.store if store is None else store
    async with open_store(address, create=False) as opened, project:
        tell_notes(project, as_json=as_json)
        tell_busy(await opened.get(session), timeout_s, as_json=as_json)
        hint = resume_command(session, store=opened, store_option=store, team=team)
        controller = HandoffController(project.team, opened, run_config=config)
        try:
            result = await controller.start(
                session,
                to=to,
                reason=reason,
                summary=summary,
                context=context or None,
                policy=policy,
                timeout_s=timeout_s,
                priority=priority,
                by=Actor(kind="person", name=who),
                run=not no_run,
            )
        except asyncio.CancelledError:
            told = await stopped(opened, session, to=to, by=who, how_to_resume=hint)
            raise Interrupted(told) from None
        end = await ending_of(opened, session, result)
    return report_start(result, end, hint=hint, as_json=as_json)


async def handoff_list(
    filters: Filters = EVERYTHING,
    *,
    agent: Annotated[str | None, Parameter(help="Only those from or to this agent.")] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """List handoffs, newest first; those come before all that wait for whoever runs a session."""
    await _list(filters.query(agent=agent), limit, cursor, store, as_json=as_json)


async def handoff_history(
    agent: Annotated[str, Parameter(help="The agent's name.")],
    /,
    filters: Filters = EVERYTHING,
    *,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> None:
    """List the handoffs from and to an agent, newest first."""
    await _list(filters.query(agent=agent), limit, cursor, store, as_json=as_json)


async def _list(
    query: HandoffQuery, limit: int, cursor: str | None, store: str | None, *, as_json: bool
) -> None:
    from ekiden.app import open_store
    from ekiden.cli.handoff_view import print_handoffs
    from ekiden.cli.projects import store_address
    from ekiden.handoff.history_query import find_handoffs

    async with open_store(store_address(store), create=False) as opened:
        page = await find_handoffs(opened, query, limit=limit, cursor=cursor)
    print_handoffs(page.records, next_cursor=page.next_cursor, as_json=as_json)


async def handoff_show(
    handoff: HandoffArgument, /, *, store: StoreOption = STORE, as_json: JsonOption = False
) -> None:
    """Show everything about a handoff: its moves, who wanted it and why, and what the agent saw."""
    from ekiden.app import open_store
    from ekiden.app.records.handoffs import read_details
    from ekiden.cli.handoff_view import print_details
    from ekiden.cli.output import emit
    from ekiden.cli.projects import store_address

    async with open_store(store_address(store), create=False) as opened:
        details = await read_details(opened, handoff)
    if as_json:
        emit(details.to_json())
    else:
        print_details(details)


async def handoff_cancel(
    handoff: HandoffArgument,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; it is put on record.", show_default=False)] = "",
    by: ByOption = None,
    team: TeamOption = TEAM,
    keep_going: KeepGoingOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Undo a handoff that is not confirmed, or withdraw one that was only asked for."""
    from ekiden.app import open_store
    from ekiden.cli.handing_over import person_name, plain_text, report_cancel
    from ekiden.cli.onlooker import run_config
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.core.handoff_record import Actor
    from ekiden.runtime import HandoffController

    plain_text(reason, "--reason")
    who = Actor(kind="person", name=person_name(by))
    project = open_project(team=team, keep_going=keep_going, as_json=as_json)
    config = run_config(max_turns=None, no_wait=False, settings=project.settings)
    address = project.settings.store if store is None else store
    async with open_store(address, create=False) as opened, project:
        tell_notes(project, as_json=as_json)
        controller = HandoffController(project.team, opened, run_config=config)
        result = await controller.cancel(handoff, reason=reason, by=who)
    return report_cancel(result, handoff_id=handoff, as_json=as_json)


async def handoff_answer(
    session: SessionArgument,
    text: Annotated[str, Parameter(help="What the person says; - reads standard input.")],
    /,
    *more: MoreWords,
    by: ByOption = None,
    back: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Give it back with this answer to the agent that handed it over.",
        ),
    ] = False,
    team: TeamOption = TEAM,
    model: ModelOption = None,
    allow: AllowOption = (),
    max_turns: MaxTurnsOption = None,
    keep_going: KeepGoingOption = False,
    store: StoreOption = STORE,
    as_json: JsonOption = False,
) -> int:
    """Answer, as a person, a session that was handed to people."""
    import asyncio

    from ekiden.app import open_store
    from ekiden.app.parking import questions_to_people
    from ekiden.cli.approving import approver
    from ekiden.cli.errors import Interrupted
    from ekiden.cli.exits import exit_for_outcome
    from ekiden.cli.handing_over import person_name, stopped, tell_refusals
    from ekiden.cli.onlooker import Onlooker, resume_command, run_config, store_words
    from ekiden.cli.projects import open_project, tell_notes
    from ekiden.cli.requests import one_argument, read_text
    from ekiden.runtime import HandoffController

    one_argument(text, more)
    said, who = read_text(text), person_name(by)
    project = open_project(team=team, model=model, keep_going=keep_going, as_json=as_json)
    config = run_config(
        max_turns=max_turns,
        no_wait=False,
        model=model,
        approver=approver(allow),
        settings=project.settings,
    )
    address = project.settings.store if store is None else store
    async with open_store(address, create=False) as opened, project:
        tell_notes(project, as_json=as_json)
        hint = resume_command(session, store=opened, store_option=store, team=team)
        controller = HandoffController(project.team, opened, run_config=config)
        try:
            result = await controller.answer(session, said, by=who, give_back=back)
        except asyncio.CancelledError:
            told = await stopped(opened, session, to="", by=who, how_to_resume=hint)
            raise Interrupted(told) from None
        questions = await questions_to_people(opened, session)
        words = store_words(opened, store)
    onlooker = Onlooker(as_json=as_json, stream=False, how_to_resume=hint, store_words=words)
    onlooker.report(result, questions)
    if back:
        tell_refusals(result, as_json=as_json)
    return exit_for_outcome(result.outcome)
