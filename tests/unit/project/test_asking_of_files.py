"""A team of files at work: they ask and tell each other, and people, as the files allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentFileProblem
from ekiden.core.errors import AgentFilesInvalid
from ekiden.core.runs import Waiting
from ekiden.inbox import Inbox
from ekiden.project.project import Project, check_files, load_project
from ekiden.runtime import RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say

Load = Callable[..., Project]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A project of files: their names, and the front matter of each."""

    def load(keep_going: bool = False, **files: str) -> Project:
        folder = tmp_path / ".ekiden" / "agents"
        folder.mkdir(parents=True)
        for name, front in files.items():
            (folder / f"{name}.md").write_text(f"---\nname: {name}\n{front}\n---\nDo it.\n")
        return load_project(tmp_path, home=tmp_path / "home", keep_going=keep_going)

    return load


def offered(model: ScriptedModel) -> list[str]:
    """The tools that the model was offered last, without those that hand over."""
    names = [tool.name for tool in model.calls[-1].tools]
    return [name for name in names if not name.startswith("transfer_to_")]


def problems_of(error: AgentFilesInvalid) -> list[AgentFileProblem]:
    """What is wrong with the files."""
    return [each for each in error.problems if isinstance(each, AgentFileProblem)]


async def test_an_agent_asks_a_peer_named_in_its_file(load: Load) -> None:
    project = load(pm="can_ask: [sales]", sales="")
    model = ScriptedModel(
        [
            call("ask_agent", agent="sales", subject="price", question="How much for 42?"),
            say("980 yen"),
            say("It costs 980 yen."),
        ]
    )
    result = await Runner.run(project.team, "go", to="pm", run_config=RunConfig(model=model))
    assert (result.final_output, result.last_agent.name) == ("It costs 980 yen.", "pm")
    assert offered(model) == ["ask_agent"]
    assert "How much for 42?" in str(model.calls[1].input)


async def test_the_router_finds_an_agent_to_answer(load: Load) -> None:
    project = load(pm="can_ask: [router-agent]", sales="triggers: {keywords: [price]}")
    model = ScriptedModel(
        [
            call("ask_agent", agent="router-agent", subject="price", question="the price of 42?"),
            say("980 yen"),
            say("It costs 980 yen."),
        ]
    )
    result = await Runner.run(project.team, "go", to="pm", run_config=RunConfig(model=model))
    assert result.final_output == "It costs 980 yen."
    assert "980 yen" in str(model.calls[2].input[-1])


async def test_an_agent_tells_a_peer_and_continues(load: Load) -> None:
    project = load(pm="can_tell: [sales]", sales="")
    model = ScriptedModel(
        [
            call("tell_agent", agent="sales", subject="news", message="42 is sold out"),
            say("They know."),
            say("noted"),
        ]
    )
    store = MemoryStore()
    session = Session("s", store=store)
    config = RunConfig(model=model)
    result = await Runner.run(project.team, "go", to="pm", session=session, run_config=config)
    assert result.final_output == "They know."
    assert "42 is sold out" in str(model.calls[2].input)


async def test_an_agent_asks_people_of_the_roles_in_its_file(load: Load) -> None:
    project = load(pm="can_ask_people: true")
    question: dict[str, Any] = {
        "role": "operator",
        "subject": "discount",
        "question": "15 %?",
        "options": ["yes", "no"],
    }
    model = ScriptedModel([call("ask_person", **question), say("Done.")])
    store = MemoryStore()
    session = Session("s", store=store)
    config = RunConfig(model=model, operator="店長")
    result = await Runner.run(project.team, "go", to="pm", session=session, run_config=config)
    assert result.outcome == Waiting("person:店長")
    [item] = (await Inbox(store).list()).items
    assert (item.role, item.subject, item.options) == ("店長", "discount", ("yes", "no"))
    await Inbox(store).answer(item.id, choice="yes", by="mira")
    result = await Runner.wait(project.team, session, run_config=config)
    assert result.final_output == "Done."


async def test_an_agent_without_peers_is_offered_no_ask_tools(load: Load) -> None:
    model = ScriptedModel([say("hi")])
    project = load(pm="")
    await Runner.run(project.team, "go", to="pm", run_config=RunConfig(model=model))
    assert offered(model) == []


def test_an_unknown_peer_is_an_error_and_skipped_with_keep_going(load: Load) -> None:
    with pytest.raises(AgentFilesInvalid) as caught:
        load(pm="can_ask: [sales, nobody, pm, clerk]", sales="", clerk="scope: system")
    codes = ["agent.unknown_peer", "agent.peer_is_itself", "agent.peer_is_system"]
    assert [problem.code for problem in problems_of(caught.value)] == codes


def test_a_team_is_loaded_without_unknown_peers(load: Load) -> None:
    project = load(True, pm="can_ask: [sales, nobody, pm, clerk]", sales="", clerk="scope: system")
    assert project.agents["pm"].can_ask == ("sales",)


def test_a_tool_named_like_an_ask_tool_is_refused(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_desk.py").write_text(
        'def ask_agent() -> str:\n    """Ask."""\n    return ""\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AgentFilesInvalid) as caught:
        load(pm="tools: [own_desk:ask_agent]\ncan_ask: [sales]", sales="")
    [problem] = problems_of(caught.value)
    assert (problem.code, problem.line, problem.column) == ("agent.duplicate_tool", 3, 9)
    assert "rename the tool" in problem.message
    checked = check_files(tmp_path, inert=False, home=tmp_path / "home")
    assert [each.code for each in checked.problems] == ["agent.duplicate_tool"]
