"""A chat with the team of the current folder, which is reloaded when its files change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ekiden.api.local.context import LocalContext
from ekiden.api.local.sessions import summary_of
from ekiden.cli.chat.conversation import AUTO, Chat, waiting_reply
from ekiden.cli.chat.reader import Interrupts
from ekiden.cli.chat.screen import Screen, text_reply
from ekiden.cli.errors import Exit, defect, exit_for_error, exit_for_outcome
from ekiden.cli.place import VIA
from ekiden.cli.projects import check_addressee, check_owner, person_name, relative, title_of
from ekiden.cli.run_observer import problem_of
from ekiden.client.ekiden import Ekiden, at_store
from ekiden.core.errors import AgentFilesInvalid, EkidenError, SessionBusy, SessionNotFound
from ekiden.core.events import Event
from ekiden.core.runs import Failed, OutOfBudget, Waiting
from ekiden.runtime import RunConfig, RunResultStreaming
from ekiden.sessions import Session

if TYPE_CHECKING:
    from ekiden.agents import AgentWatcher, LoadedAgents
    from ekiden.api.sessions import SessionSummary
    from ekiden.core.agent import Team
    from ekiden.core.questions import InboxItem
    from ekiden.project.project import Project
    from ekiden.project.routing import AddressedMessage
    from ekiden.storage.base import SessionRow, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Changes of the agent files since the last look."""

    changed: Sequence[str] = ()
    """Names of agents that are new or changed."""
    gone: Sequence[str] = ()
    problems: Sequence[str] = ()
    """The problems of files that cannot be used."""


class Watcher(Protocol):
    """Watches the agent files."""

    def look(self) -> News | None:
        """Changes since the last look; `None` if there are none."""
        ...


class Roster:
    """A project and its team.

    The first `ready` enters the project, which connects its MCP servers; `close` leaves it.
    """

    def __init__(
        self, project: Project, *, load: Callable[[], Project], watcher: Watcher | None = None
    ) -> None:
        self.project = project
        self._load = load
        self._watcher = watcher
        self._is_entered = False

    @property
    def team(self) -> Team:
        """The agents that answer."""
        return self.project.team

    async def ready(self, tell: Callable[[str], None] | None = None) -> list[str]:
        """Prepare the team for a message, and return notes for the person.

        `tell` is called at once with slow steps, such as connecting to MCP servers. Changed files
        are read again. A faulty file is reported, and the last working team stays.
        """
        notes: list[str] = []
        news = None if self._watcher is None else self._watcher.look()
        if news is not None:
            notes.extend(await self._read_again(news))
        if not self._is_entered:
            self.project.tell = tell
            await self._enter()
            notes.extend(self.project.notes)
        return notes

    async def reload(self) -> EkidenError | None:
        """Read settings and agents again; on an error, which is returned, nothing changes."""
        try:
            project = self._load()
        except EkidenError as exc:
            return exc
        await self.close()
        self.project = project
        return None

    async def close(self) -> None:
        """Leave the project."""
        self._is_entered = False
        await self.project.__aexit__(None, None, None)

    async def _enter(self) -> None:
        try:
            await self.project.__aenter__()
        except BaseException:
            # Some MCP servers may be connected already: start over with a new project.
            await self.close()
            with suppress(EkidenError):
                self.project = self._load()
            raise
        self._is_entered = True

    async def _read_again(self, news: News) -> list[str]:
        notes = list(news.problems)
        if news.changed or news.gone:
            problem = await self.reload()
            if problem is not None:
                return [*notes, f"{problem.code}: {problem}", "the agents stay unchanged"]
        if news.changed:
            notes.append(f"reloaded: {', '.join(news.changed)}")
        if news.gone:
            notes.append(f"gone: {', '.join(news.gone)}")
        return notes


class AgentFiles:
    """`Watcher` of the folders of an `AgentWatcher`."""

    def __init__(self, watcher: AgentWatcher) -> None:
        self._watcher = watcher

    @property
    def loaded(self) -> LoadedAgents:
        """The agents of the files now; for a file that became invalid, its last valid version."""
        return self._watcher.loaded

    def check(self, project: Project) -> None:
        """`AgentFilesInvalid` if a valid file names something that does not exist.

        For example a tool: an agent must not lose it silently in the middle of a chat.
        """
        known = set(self.loaded.errors)
        errors = [each for each in project.problems if each.severity == "error"]
        if missing := [relative(each) for each in errors if each not in known]:
            raise AgentFilesInvalid(missing)

    def look(self) -> News | None:
        before = self._watcher.loaded
        after = self._watcher.poll()
        if after is None:
            return None
        old = {each.name: each for each in before.definitions}
        new = {each.name: each for each in after.definitions}
        known = set(before.errors)
        return News(
            changed=[name for name, each in new.items() if old.get(name) != each],
            gone=[name for name in old if name not in new],
            problems=[str(relative(each)) for each in after.errors if each not in known],
        )


Start: TypeAlias = Callable[[RunConfig], RunResultStreaming]
"""Returns the run, which executes while it is read."""

_NAMELESS = "unknown"


@dataclass(slots=True, kw_only=True, eq=False)
class LocalChat(Chat):
    """A chat whose runs are in this process."""

    roster: Roster
    store: Store
    config: RunConfig
    session: Session
    row: SessionRow | None = None
    """The session as last stored; `None` if it has no messages."""
    live: bool = True
    """Whether answers are streamed."""

    @property
    def api(self) -> Ekiden:
        project = self.roster.project
        return at_store(
            LocalContext(
                store=self.store,
                settings=project.settings,
                project=project,
                # Answers in the inbox are given in the name of this machine's user.
                caller=person_name(None) or _NAMELESS,
                via=VIA,
            )
        )

    @property
    def session_id(self) -> str:
        return self.session.session_id

    @property
    def summary(self) -> SessionSummary | None:
        return None if self.row is None else summary_of(self.row)

    @property
    def user(self) -> str | None:
        return self.roster.project.settings.user

    @property
    def active(self) -> str:
        team = self.roster.team
        name = team.entry.name if self.row is None else self.row.agent
        if name not in team:
            return name if team.router is None else AUTO
        return AUTO if team[name].traits.is_router else name

    async def look(self) -> None:
        try:
            self.row = await self.session.row()
        except SessionNotFound:
            self.row = None

    async def enter(self, session_id: str | None) -> None:
        self.session = Session(session_id, store=self.store, user_id=self.user)
        await self.look()

    async def enter_copy(self, *, before: int) -> None:
        from ekiden.runtime.history.fork import fork_session

        self.session = await fork_session(self.store, self.session_id, before_seq=before)
        await self.look()

    async def check_owner(self, session_id: str) -> None:
        await check_owner(self.store, session_id, self.user)

    async def events(self, *, after: int = 0) -> Sequence[Event]:
        return [] if self.row is None else await self.session.events(after=after)

    async def questions(self) -> Sequence[InboxItem]:
        from ekiden.project.stored_runs import questions_to_people

        return await questions_to_people(self.store, self.session_id)

    async def waits_for(self) -> str:
        """The people or agents that the session waits for, at the end of the chain."""
        from ekiden.runtime.loop.answer_wait import waiting_reason
        from ekiden.runtime.state.cursor import open_questions

        asked = {} if self.row is None else open_questions(self.row)
        return (await waiting_reason(self.store, asked)).removeprefix("person:")

    async def ready(self) -> None:
        for line in await self.roster.ready(self.screen.note):
            self.screen.note(line)

    def check_addressee(self, address: AddressedMessage) -> None:
        check_addressee(self.roster.project, address)

    async def send(self, address: AddressedMessage) -> int:
        from ekiden.project.run_tasks import start_run

        if self.row is None:
            self.session.meta.setdefault("title", title_of(address.text))
        team, session = self.roster.team, self.session
        return await self._watch(
            lambda config: start_run(
                team,
                address.text,
                session,
                config=config,
                live=self.live,
                to=address.to,
                strategy=address.strategy,
            )
        )

    async def resume(self) -> int:
        from ekiden.project.run_tasks import resume_run

        self.stored_session("nothing to resume")
        await self.ready()
        team, session = self.roster.team, self.session
        return await self._watch(
            lambda config: resume_run(team, session, config=config, live=self.live)
        )

    @property
    def is_suspended(self) -> bool:
        return self.is_waiting

    async def can_go_on(self) -> bool:
        from ekiden.runtime.loop.answer_wait import is_ready

        with suppress(EkidenError):
            return self.is_waiting and await is_ready(self.store, self.session_id)
        return False

    async def until_ready(self) -> None:
        from ekiden.runtime.loop.answer_wait import until_ready

        # An outage is not reported: the text would appear in the middle of the prompt.
        await until_ready(self.store, self.session_id, on_outage=lambda exc: None)

    async def catch_up(self) -> int:
        seen = 0 if self.row is None else self.row.seq
        await self.look()
        if self.row is None:
            self.screen.note("this session was deleted")
        elif not self.is_waiting:
            self.screen.note("another process continued this session:")
            for event in await self.events(after=seen):
                self.screen.show(event)
        elif await self.can_go_on():
            return await self.resume()
        return Exit.OK

    async def _watch(self, start: Start) -> int:
        turn = Turn(self.screen, self.interrupts)
        code = await turn.watch(start, self.config)
        await self.look()
        if turn.is_stopped:
            text = "stopped; nothing was kept"
            if self.is_unfinished:
                text = "stopped; /resume continues, or type something else"
            self.screen.reply(text_reply("stopped", text, session_id=self.session_id))
        elif code == Exit.WAITING:
            questions, reason = await self.questions(), await self.waits_for()
            self.screen.reply(waiting_reply(self.session_id, questions, reason))
        return code


class Turn:
    """One turn of a chat: a run that is shown on the screen, until its end, wait or Ctrl-C."""

    def __init__(self, screen: Screen, interrupts: Interrupts) -> None:
        self._screen = screen
        self._interrupts = interrupts
        self.is_stopped = False
        """Whether Ctrl-C ended it."""
        self._seen = False
        """Whether anything of the run was shown."""

    async def watch(self, start: Start, config: RunConfig) -> int:
        """Run to the end, or to Ctrl-C, and return the exit code; errors are shown, not raised.

        When cancelled, it first stops the run, so that the run is suspended.
        """
        code: int | None = None
        try:
            code = await self._interrupts.stoppable(self._read(start, config))
        finally:
            if code is None:
                self._screen.break_off()
        self.is_stopped = code is None
        return Exit.INTERRUPTED if code is None else code

    async def _read(self, start: Start, config: RunConfig) -> int:
        try:
            return await self._in_turn(start, config)
        except EkidenError as exc:
            self._failed(exc.code, str(exc))
            return exit_for_error(exc)
        except BrokenPipeError:
            raise
        except Exception as exc:
            self._failed(*defect(exc))
            return Exit.INTERNAL

    async def _in_turn(self, start: Start, config: RunConfig) -> int:
        """The run; if another process has the session, say so and wait for it."""
        if config.on_busy == "refuse":
            return await self._run(start(config))
        try:
            return await self._run(start(replace(config, on_busy="refuse")))
        except SessionBusy as busy:
            # A run in progress can itself find a session busy: only a run that has not begun waits.
            if self._seen:
                raise
            self._screen.note(
                f"waiting for session {busy.session_id}, held by {busy.owner}, "
                f"at most {config.busy_timeout_s:g} s …"
            )
        return await self._run(start(config))

    async def _run(self, run: RunResultStreaming) -> int:
        try:
            async with aclosing(run.events()) as stream:
                async for shown in stream:
                    self._seen = True
                    if isinstance(shown, Event) and shown.session_id != run.session_id:
                        self._screen.show_child(shown)
                    else:
                        self._screen.show(shown)
        except Exception:
            # A run that failed has a result; one that could not begin has none.
            if not run.is_complete:
                raise
        result = run.result
        self._screen.end(result)
        problem = problem_of(result.outcome)
        if problem is not None and not isinstance(result.outcome, Waiting):
            code, message = problem
            if isinstance(result.outcome, OutOfBudget | Failed):
                message = f"{message}; /resume tries again"
            self._screen.error(code, message)
        return exit_for_outcome(result.outcome)

    def _failed(self, code: str, message: str) -> None:
        self._screen.break_off()
        self._screen.error(code, message)
