"""Starts or resumes a run in the terminal, locally or at a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from ekiden.cli.ids import begun_session_id, session_id as find_session, sessions_of
from ekiden.cli.options import RunFlags
from ekiden.cli.place import Place
from ekiden.cli.projects import (
    check_addressee,
    check_owner,
    open_project,
    tell_notes,
    title_of,
    user_here,
)
from ekiden.cli.prompts import TerminalApprover, approver, ask_on_terminal, is_attended
from ekiden.cli.run_follow import (
    BUSY_S,
    LocalRun,
    OnBusy,
    RunFollower,
    ServerRun,
    Start,
    WaitPolicy,
)
from ekiden.cli.run_observer import RunView, resume_command, run_config
from ekiden.core.errors import SessionBusy

if TYPE_CHECKING:
    from ekiden.api.runs import Shown
    from ekiden.core.values import Priority
    from ekiden.project.project import Project
    from ekiden.project.routing import AddressedMessage
    from ekiden.routing.decision import Strategy
    from ekiden.runtime import RunConfig, RunResultStreaming
    from ekiden.sessions import Session
    from ekiden.storage.base import Store

_RETRY_BUSY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningMessage:
    """A message, and the session that it starts or continues."""

    said: AddressedMessage
    session: str | None
    """`None` means a new one."""
    user: str | None
    """The user of a new session."""
    priority: Priority
    strategy: Strategy | None = None
    """The routing strategy, if the message names none."""
    variables: Mapping[str, Any] | None = None
    """Variables to set in the transaction of the message."""


async def begin_run(flags: RunFlags, place: Place, message: OpeningMessage) -> int:
    """Send a message and show the run, and return the exit code."""
    if place.is_server:
        return await _begin_at_server(flags, place, message)
    from ekiden.api.methods.endpoint import check_arguments
    from ekiden.api.runs import RunsApi
    from ekiden.project.run_tasks import start_run
    from ekiden.sessions import Session

    said = message.said
    check_arguments(
        RunsApi,
        "run",
        input=said.text,
        session_id=message.session,
        agent=said.to,
        user_id=message.user,
        variables=message.variables,
        **flags.limits.options(),
    )
    project = open_project(flags, strategy=message.strategy, as_json=flags.as_json)
    check_addressee(project, said)
    async with _opened(flags, place, project, create=True) as here:
        chosen = await begun_session_id(sessions_of(here.store, project), message.session)
        await check_owner(here.store, chosen, message.user)
        session = Session(
            chosen,
            store=here.store,
            user_id=project.settings.user if message.user is None else message.user,
            title=title_of(said.text),
            priority=message.priority,
        )

        def start(config: RunConfig) -> RunResultStreaming:
            return start_run(
                project.team,
                said.text,
                session,
                config=config,
                live=flags.stream,
                to=said.to,
                strategy=said.strategy or message.strategy,
                variables=message.variables,
            )

        return await here.watch(session, start)


async def resume_run(flags: RunFlags, place: Place, session_id: str) -> int:
    """Resume a session and show the run, and return the exit code."""
    if place.is_server:
        return await _resume_at_server(flags, place, session_id)
    from ekiden.api.methods.endpoint import check_arguments
    from ekiden.api.runs import RunsApi
    from ekiden.sessions import Session

    check_arguments(RunsApi, "resume", session_id=session_id, **flags.limits.options())
    project = open_project(flags, as_json=flags.as_json)
    async with _opened(flags, place, project, create=False) as here:
        chosen = await find_session(sessions_of(here.store, project), session_id)
        return await here.watch(Session(chosen, store=here.store), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Here:
    """A local store and team."""

    flags: RunFlags
    project: Project
    store: Store
    store_words: list[str]
    config: RunConfig
    wait_policy: WaitPolicy

    async def watch(self, session: Session, start: Start | None) -> int:
        """Show the run that `start` begins, or with `None` the session's current one."""
        from ekiden.project.run_tasks import finished_run, resume_run

        flags, team = self.flags, self.project.team
        hint = resume_command(
            session.session_id,
            self.store.url,
            self.store_words,
            team=flags.team,
            model=flags.model,
            approve=flags.approve,
        )
        observer = RunView(
            as_json=flags.as_json,
            stream=flags.stream,
            how_to_resume=hint,
            store_words=self.store_words,
            begun=start is None,
        )

        def resume(config: RunConfig) -> RunResultStreaming:
            return resume_run(team, session, config=config, live=flags.stream)

        run = LocalRun(
            observer=observer,
            session=session,
            config=self.config,
            start=start or resume,
            resume=resume,
            ended=lambda row: finished_run(team, session, row, config=self.config),
        )
        return await RunFollower(run=run, observer=observer).watch(self.wait_policy)


@asynccontextmanager
async def _opened(
    flags: RunFlags, place: Place, project: Project, *, create: bool
) -> AsyncIterator[_Here]:
    from ekiden.project import open_store

    address = place.address(project.settings.store)
    wait_policy = WaitPolicy.of(wait=flags.wait, timeout_s=flags.wait_timeout, store=address)
    async with open_store(address, create=create) as store, project:
        tell_notes(project, as_json=flags.as_json)
        yield _Here(
            flags=flags,
            project=project,
            store=store,
            store_words=place.words(store.url),
            config=run_config(
                limits=flags.limits,
                no_wait=flags.no_wait,
                model=flags.model,
                approver=approver(flags.allow, where=flags.approve),
                settings=project.settings,
            ),
            wait_policy=wait_policy,
        )


async def _begin_at_server(flags: RunFlags, place: Place, message: OpeningMessage) -> int:

    place.check_for_server(flags, allow=flags.allow)
    async with place.connected() as client:
        chosen = await begun_session_id(client.ekiden.sessions, message.session)
        await check_owner(client.sessions, chosen, message.user)
        said = message.said
        run = ServerRun(
            ekiden=client.ekiden,
            observer=_observer(flags, place.words(client.url)),
            approver=_approver_at_server(flags),
            session_id=chosen or "",
            waits=not flags.no_wait,
            start=lambda on_busy: client.runs.stream(
                said.text,
                session_id=chosen,
                agent=said.to,
                strategy=said.strategy or message.strategy,
                user_id=user_here(message.user),
                priority=message.priority,
                variables=message.variables,
                title=title_of(said.text),
                on_busy=on_busy,
                **flags.limits.options(),
            ),
        )
        return await _watch_at_server(flags, run)


async def _resume_at_server(flags: RunFlags, place: Place, session_id: str) -> int:
    from ekiden.api.methods.called import AsyncStream
    from ekiden.core.runs import Run, RunStarted

    place.check_for_server(flags, allow=flags.allow)
    async with place.connected() as client:
        session_id = await find_session(client.ekiden.sessions, session_id)
        observer = _observer(flags, place.words(client.url))
        observer.begun = True

        async def resumed(on_busy: OnBusy) -> AsyncGenerator[Shown, None]:
            deadline = monotonic() + (BUSY_S if on_busy == "wait" else 0.0)
            begun: Run | None = None
            while begun is None:
                # Events that are stored before the resume are not shown again.
                run.after = (await client.sessions.get(session_id)).events
                try:
                    begun = await client.runs.resume(session_id, **flags.limits.options())
                except SessionBusy:
                    if monotonic() >= deadline:
                        raise
                    await asyncio.sleep(_RETRY_BUSY_S)
            yield RunStarted(run_id=begun.run_id, session_id=session_id)
            async with client.runs.follow(begun.run_id, after=run.after) as shown:
                async for each in shown:
                    yield each

        run = ServerRun(
            ekiden=client.ekiden,
            observer=observer,
            approver=_approver_at_server(flags),
            session_id=session_id,
            waits=not flags.no_wait,
            start=lambda on_busy: AsyncStream(resumed(on_busy)),
        )
        return await _watch_at_server(flags, run)


async def _watch_at_server(flags: RunFlags, run: ServerRun) -> int:
    wait_policy = WaitPolicy.of(wait=flags.wait, timeout_s=flags.wait_timeout)
    return await RunFollower(run=run, observer=run.observer).watch(wait_policy)


def _approver_at_server(flags: RunFlags) -> TerminalApprover | None:
    """Asks the person at this terminal about the tools of a server's team."""
    if flags.approve == "inbox" or not is_attended():
        return None
    return TerminalApprover(ask=ask_on_terminal)


def _observer(flags: RunFlags, store_words: list[str]) -> RunView:
    return RunView(
        as_json=flags.as_json, stream=flags.stream, how_to_resume="", store_words=store_words
    )
