"""`ekiden handoff …`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from cyclopts import Parameter

from ekiden.cli.ids import handoff_id, session_id, sessions_of
from ekiden.cli.options import (
    LISTING,
    NO_LIMITS,
    TEAM,
    AllowOption,
    ByOption,
    JsonOption,
    LimitFlags,
    Listing,
    ModelOption,
    MoreWords,
    SessionArgument,
    SinceOption,
    TeamFlags,
    UntilOption,
    about,
    moment,
)
from ekiden.cli.output import show
from ekiden.cli.place import HERE, WITH_STORE, Place, TeamWithStore

_WAIT_S: Final = 55.0
"""How long a server waits for the agent's answer."""
HandoffArgument = Annotated[
    str, about("Id of a handoff or of a handoff request, or a unique prefix of it.")
]
PolicyOption: TypeAlias = Literal["immediate", "graceful", "conditional"] | None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HandoffListOptions:
    """Filters for handoffs. A missing filter matches all handoffs."""

    agent: Annotated[str | None, about("Only handoffs from or to this agent.")] = None
    session: Annotated[str | None, about("Only handoffs of this session.")] = None
    source: Annotated[str | None, about("Only handoffs from this agent.", name="--from")] = None
    target: Annotated[str | None, about("Only handoffs to this agent.", name="--to")] = None
    status: Annotated[
        Literal["initiated", "validating", "transferring", "completed", "failed", "rolled_back"]
        | None,
        about("Only handoffs with this status."),
    ] = None
    task: Annotated[str | None, about("Only handoffs of this task.")] = None
    correlation: Annotated[str | None, about("Only handoffs with this correlation id.")] = None
    policy: Annotated[PolicyOption, about("Only handoffs with this policy.")] = None
    by: Annotated[
        str | None,
        about(
            "Only handoffs from this initiator: model, trigger, person, program, or the name "
            "of a person."
        ),
    ] = None
    since: SinceOption = None
    until: UntilOption = None

    def chosen(self) -> dict[str, Any]:
        """The query. Raises `UsageError` for an invalid time."""

        since = moment(self.since, option="--since")
        until = moment(self.until, option="--until")
        return {**asdict(self), "since": since, "until": until}


EVERYTHING = HandoffListOptions()


async def handoff_start(
    session: SessionArgument,
    /,
    *,
    to: Annotated[str, about("Agent that gets the session.")],
    reason: Annotated[str, about("Reason for the handoff. The target agent sees it.")] = "",
    summary: Annotated[str, about("Summary of the work so far, for the target agent.")] = "",
    context: Annotated[str, about("Further information for the target agent.")] = "",
    policy: Annotated[
        PolicyOption,
        about(
            "When to hand off: at once (`immediate`), after the current step (`graceful`), or "
            "if the handoff's condition is true (`conditional`)."
        ),
    ] = None,
    timeout_s: Annotated[
        float | None,
        about(
            "Seconds that the target agent has to confirm the handoff. Default: the timeout "
            "in the agent's handoff definition, otherwise 300.",
            name="--timeout",
            gt=0,
            lte=1e9,
        ),
    ] = None,
    priority: Annotated[
        int, about("Priority of the handoff. The target agent sees it.", show_default=False)
    ] = 0,
    by: ByOption = None,
    no_run: Annotated[
        bool,
        about(
            "Make the handoff, but do not run the target agent. A server or a worker then "
            "runs that agent."
        ),
    ] = False,
    model: ModelOption = None,
    allow: AllowOption = (),
    limits: LimitFlags = NO_LIMITS,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> int:
    """Hand off a session to another agent, and run the session until that agent answers.

    If another process is running the session, that process makes the handoff after its current
    step. With `--policy immediate`, the handoff is made at once.
    """
    from ekiden.cli.run_observer import report_start, report_unknown
    from ekiden.core.errors import UnknownAgent

    async with place.work(
        model=model,
        allow=allow,
        by=by,
        session=session,
        to=to,
        timeout_s=timeout_s,
        as_json=as_json,
    ) as (ekiden, hint):
        try:
            end = await ekiden.handoffs.start(
                await session_id(ekiden.sessions, session),
                to,
                reason=reason,
                summary=summary,
                context=context or None,
                policy=policy,
                timeout_s=timeout_s,
                priority=priority,
                wait_s=0 if no_run else _WAIT_S,
                **limits.options(),
            )
        except UnknownAgent as exc:
            return report_unknown(exc, as_json=as_json)
    return report_start(end, hint=hint, as_json=as_json)


async def handoff_list(
    filters: HandoffListOptions = EVERYTHING,
    *,
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List handoffs, newest first.

    Handoff requests that a running session has not handled yet come first.
    """
    from ekiden.cli.views.messages import handoff_table

    chosen = filters.chosen()
    async with place.open() as ekiden:
        chosen["session"] = await session_id(ekiden.sessions, chosen["session"] or "") or None
        await listing.show(ekiden.handoffs.list(**chosen), handoff_table, none="no handoffs")


async def handoff_show(
    handoff: HandoffArgument, /, *, place: Place = HERE, as_json: JsonOption = False
) -> None:
    """Show all details of a handoff: status changes, origin, reason, and the part of the
    conversation that the target agent saw."""
    from ekiden.cli.views.messages import print_details

    async with place.open() as ekiden:
        details = await ekiden.handoffs.get(await handoff_id(ekiden, handoff))
    show(details, print_details, as_json=as_json)


async def handoff_cancel(
    handoff: HandoffArgument,
    /,
    *,
    reason: Annotated[str, about("Reason that is recorded for the cancellation.")] = "",
    by: ByOption = None,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> int:
    """Roll back a handoff that is not completed, or withdraw a handoff request."""
    from ekiden.api.handoffs import CancelledHandoff
    from ekiden.cli.run_observer import report_cancel
    from ekiden.core.documents import from_json
    from ekiden.core.errors import HandoffSettled

    async with place.work(by=by, as_json=as_json) as (ekiden, _):
        try:
            cancelled = await ekiden.handoffs.cancel(
                await handoff_id(ekiden, handoff), reason=reason
            )
        except HandoffSettled as exc:
            cancelled = from_json(CancelledHandoff, exc.handoff)
    return report_cancel(cancelled, as_json=as_json)


async def handoff_answer(
    session: SessionArgument,
    text: Annotated[str, about("Your answer. Give - to read the answer from standard input.")],
    /,
    *more: MoreWords,
    by: ByOption = None,
    back: Annotated[
        bool, about("Return the session, with this answer, to the agent that handed it off.")
    ] = False,
    flags: TeamFlags = TEAM,
    allow: AllowOption = (),
    limits: LimitFlags = NO_LIMITS,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> int:
    """Answer a session that was handed off to a person."""
    from ekiden.cli.projects import one_argument, read_text

    one_argument(text, more)
    if place.is_server:
        place.check_for_server(flags, allow=allow)
        return await _answer_at_server(
            place, session, read_text(text), by=by, back=back, limits=limits, as_json=as_json
        )
    import asyncio

    from ekiden.cli.errors import Interrupted, exit_for_outcome
    from ekiden.cli.projects import open_project, person_name, tell_notes
    from ekiden.cli.prompts import approver
    from ekiden.cli.run_observer import RunView, resume_command, run_config, stopped, tell_refusals
    from ekiden.project import open_store
    from ekiden.project.stored_runs import questions_to_people
    from ekiden.runtime import HandoffController

    said, who = read_text(text), person_name(by)
    project = open_project(flags, as_json=as_json)
    config = run_config(
        limits=limits,
        no_wait=False,
        model=flags.model,
        approver=approver(allow),
        settings=project.settings,
    )
    address = place.address(project.settings.store)
    async with open_store(address, create=False) as opened, project:
        tell_notes(project, as_json=as_json)
        session = await session_id(sessions_of(opened, project), session)
        words = place.words(opened.url)
        hint = resume_command(session, opened.url, words, team=flags.team, model=flags.model)
        controller = HandoffController(project.team, opened, run_config=config)
        try:
            result = await controller.answer(session, said, by=who, give_back=back)
        except asyncio.CancelledError:
            message = await stopped(opened, session, to="", by=who, how_to_resume=hint)
            raise Interrupted(message) from None
        questions = await questions_to_people(opened, session)
    observer = RunView(as_json=as_json, stream=False, how_to_resume=hint, store_words=words)
    observer.report(result, questions)
    if back:
        tell_refusals(result, as_json=as_json)
    return exit_for_outcome(result.outcome)


async def _answer_at_server(
    place: Place,
    session: str,
    text: str,
    *,
    by: str | None,
    back: bool,
    limits: LimitFlags,
    as_json: bool,
) -> int:
    from ekiden.cli.errors import Exit, exit_for_outcome
    from ekiden.cli.run_follow import RemoteResult
    from ekiden.cli.run_observer import RunView

    async with place.connected() as client:
        session = await session_id(client.ekiden.sessions, session)
        run = await client.handoffs.answer(session, text, back=back, by=by, **limits.options())
        if run.is_active:
            run = await client.runs.wait(run.run_id)
        questions = [await client.inbox.get(each) for each in run.questions]
        words = place.words(client.url)
    hint = " ".join(["ekiden", "session", "resume", session, *words])
    observer = RunView(as_json=as_json, stream=False, how_to_resume=hint, store_words=words)
    observer.report(RemoteResult(run), questions)
    return Exit.FAILED if run.outcome is None else exit_for_outcome(run.outcome)
