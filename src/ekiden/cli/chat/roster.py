"""The team of a chat, reloaded when its files change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ekiden.cli.projects import relative
from ekiden.core.errors import AgentFilesInvalid, EkidenError

if TYPE_CHECKING:
    from ekiden.agents import AgentWatcher, LoadedAgents
    from ekiden.core.agent import Team
    from ekiden.project.project import Project


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
        """Prepare the team for a message; returns notes for the person.

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
