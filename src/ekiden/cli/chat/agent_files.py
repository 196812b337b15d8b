"""The agents' files of a project, looked at between two messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chat.roster import News
from ekiden.cli.projects import relative

if TYPE_CHECKING:
    from ekiden.agents import AgentWatcher, LoadedAgents


class AgentFiles:
    """`Watcher` of the folders that an `AgentWatcher` knows."""

    def __init__(self, watcher: AgentWatcher) -> None:
        self._watcher = watcher

    @property
    def loaded(self) -> LoadedAgents:
        """What the files give now; of a file that has become bad, what it gave before."""
        return self._watcher.loaded

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
