"""The team is read again when its files change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentWatcher, agent_folders
from ekiden.cli.chat.local import AgentFiles, Roster
from ekiden.core.agent import Agent
from ekiden.core.errors import AgentFilesInvalid
from ekiden.project.project import Project, load_project
from ekiden.testing import ScriptedModel
from tests.unit.cli.chat.doubles import project_of

AGENT = "---\nname: {name}\ndescription: {about}\n{more}---\nDo it.\n"


class Folder:
    """A project's folder with agents in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".ekiden" / "agents").mkdir(parents=True)
        self.home = root / "home"

    def path(self, name: str) -> Path:
        return self.root / ".ekiden" / "agents" / f"{name}.md"

    def write(self, name: str, about: str = "Does it.", more: str = "") -> None:
        self.path(name).write_text(AGENT.format(name=name, about=about, more=more))

    def roster(self) -> Roster:
        files = AgentFiles(AgentWatcher(agent_folders(self.root, home=self.home)))

        def load(*, keep_going: bool = True) -> Any:
            project = load_project(
                self.root, files=files.loaded, keep_going=keep_going, home=self.home
            )
            files.check(project)
            return project

        return Roster(load(keep_going=False), load=load, watcher=files)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("clerk")
    made.write("door")
    return made


async def test_unchanged_files_are_not_reported(folder: Folder) -> None:
    roster = folder.roster()
    project = roster.project
    assert await roster.ready() == []
    assert await roster.ready() == []
    assert roster.project is project
    await roster.close()


async def test_changed_new_and_removed_files_are_reported(folder: Folder) -> None:
    roster = folder.roster()
    folder.write("clerk", about="Does it differently.")
    folder.write("cashier")
    folder.path("door").unlink()
    assert sorted(await roster.ready()) == ["gone: door", "reloaded: cashier, clerk"]
    assert sorted(roster.project.agents) == ["cashier", "clerk"]
    assert roster.team["clerk"].description == "Does it differently."
    await roster.close()


async def test_an_invalid_file_is_reported_once_and_the_last_valid_version_stays(
    folder: Folder,
) -> None:
    roster = folder.roster()
    folder.path("clerk").write_text("---\nname: clerk\nnonsense: 1\n---\n")
    (told,) = await roster.ready()
    assert "clerk.md:3" in told
    assert "nonsense" in told
    assert roster.team["clerk"].description == "Does it."
    assert await roster.ready() == []
    folder.write("clerk", about="Repaired.")
    assert await roster.ready() == ["reloaded: clerk"]
    assert roster.team["clerk"].description == "Repaired."
    await roster.close()


async def test_other_files_are_reloaded_despite_an_invalid_one(folder: Folder) -> None:
    roster = folder.roster()
    folder.path("clerk").write_text("---\nname: [\n---\n")
    folder.write("door", about="Another door.")
    told = await roster.ready()
    assert told[-1] == "reloaded: door"
    assert roster.team["door"].description == "Another door."
    assert roster.team["clerk"].description == "Does it."
    await roster.close()


async def test_an_agent_that_fails_to_reload_stays_unchanged(folder: Folder) -> None:
    roster = folder.roster()
    folder.write("clerk", about="New.", more="tools:\n  allow: [no_such_module:tool]\n")
    told = await roster.ready()
    assert any("no_such_module" in line for line in told)
    assert told[-1] == "the agents stay unchanged"
    assert roster.team["clerk"].description == "Does it."
    await roster.close()


async def test_a_failed_reload_changes_nothing(folder: Folder) -> None:
    roster = folder.roster()
    project = roster.project

    def fail() -> Any:
        raise AgentFilesInvalid(["broken"])

    roster = Roster(project, load=fail)
    assert isinstance(await roster.reload(), AgentFilesInvalid)
    assert roster.project is project
    await roster.close()


async def test_project_notes_are_shown_once() -> None:
    project = project_of(Agent("clerk", model=ScriptedModel([])))
    project.notes.append("a server cannot be reached")
    roster = Roster(project, load=lambda: project)
    assert await roster.ready() == ["a server cannot be reached"]
    assert await roster.ready() == []
    await roster.close()


async def test_a_cancelled_connection_is_started_again_the_next_time() -> None:
    class Stuck(Project):
        left = 0

        async def __aenter__(self) -> Any:
            raise asyncio.CancelledError

        async def __aexit__(self, *exc_info: object) -> None:
            Stuck.left += 1

    fresh = project_of(Agent("clerk", model=ScriptedModel([])))
    stuck = Stuck(root=fresh.root, team=fresh.team, router=fresh.router, loaded=fresh.loaded)
    roster = Roster(stuck, load=lambda: fresh)
    with pytest.raises(asyncio.CancelledError):
        await roster.ready()
    assert Stuck.left == 1
    assert await roster.ready() == []
    assert roster.project is fresh
    await roster.close()
