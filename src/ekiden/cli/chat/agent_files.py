"""The agents' files of a project, looked at between two messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chat.roster import News
from ekiden.cli.projects import relative
from ekiden.core.errors import AgentFilesInvalid

if TYPE_CHECKING:
    from ekiden.agents import AgentWatcher, LoadedAgents
    from ekiden.app.project import Project


class AgentFiles:
    """`Watcher` of the folders that an `AgentWatcher` knows."""

    def __init__(self, watcher: AgentWatcher) -> None:
        self._watcher = watcher

    @property
    def loaded(self) -> LoadedAgents:
        """What the files give now; of a file that has become bad, what it gave before."""
        return self._watcher.loaded

    def check(self, project: Project) -> None:
        """`AgentFilesInvalid` if a file that is good in itself names what is not there.

        A tool, for example: an agent must not lose it, unnoticed, in the middle of a chat.
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
