"""The memory of agents that come from files, and of runs as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.agents import AgentFileProblem
from ekiden.core.errors import AgentFilesInvalid, SettingsInvalid
from ekiden.core.profile import MemorySettings
from ekiden.memory import Memory
from ekiden.project.project import Project, load_project
from ekiden.project.run_tasks import config_of
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say

Load = Callable[..., Project]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A project with one agent, of this front matter."""

    def load(front: str, settings: str = "{}") -> Project:
        folder = tmp_path / ".ekiden" / "agents"
        folder.mkdir(parents=True)
        (folder / "keeper.md").write_text(f"---\nname: keeper\n{front}\n---\nDo it.\n")
        (tmp_path / ".ekiden" / "settings.json").write_text(settings)
        return load_project(tmp_path, home=tmp_path / "home")

    return load


@pytest.mark.parametrize(
    ("front", "memory"),
    [
        ("", None),
        ("memory: {}", None),
        ("memory: {enabled: false, type: vector}", None),
        ("memory: {enabled: true}", MemorySettings(top_k=7, threshold=0.2)),
        (
            "memory: {enabled: true, type: vector, backend: sqlite, scope: app, top_k: 2, "
            "threshold: 0.9}",
            MemorySettings(type="vector", scope="app", top_k=2, threshold=0.9),
        ),
        (
            "memory: {enabled: true, type: vector, backend: pinecone}",
            MemorySettings(type="vector", backend="pinecone", top_k=7, threshold=0.2),
        ),
    ],
)
def test_an_agent_file_configures_memory(
    load: Load, front: str, memory: MemorySettings | None
) -> None:
    project = load(front, '{"memory": {"top_k": 7, "similarity_threshold": 0.2}}')
    assert project.agents["keeper"].memory == memory
    assert project.problems == []


@pytest.mark.parametrize(
    ("front", "code"),
    [
        ("memory: {enabled: true, backend: pinecon}", "agent.unknown_backend"),
        ("memory: {enabled: true, top_k: 0}", None),
        ("memory: {enabled: true, threshold: 2}", None),
        ("memory: {enabled: true, scope: everybody}", None),
        ("memory: {enabled: true, type: graph}", None),
    ],
)
def test_an_invalid_memory_entry_is_reported_with_its_place(
    load: Load, front: str, code: str | None
) -> None:
    with pytest.raises(AgentFilesInvalid) as caught:
        load(front)
    [problem] = [each for each in caught.value.problems if isinstance(each, AgentFileProblem)]
    assert code in (None, problem.code)
    assert problem.line > 1


def test_a_tool_named_like_a_memory_tool_is_refused(load: Load, tmp_path: Path) -> None:
    (tmp_path / "own_tools.py").write_text(
        "from ekiden import function_tool\n\n\n@function_tool\n"
        "def recall(query: str) -> str:\n    return query\n"
    )
    with pytest.raises(AgentFilesInvalid, match="how the agent remembers"):
        load("memory: {enabled: true}\ntools: {allow: ['own_tools:recall']}")


async def test_a_file_agent_stores_memory_in_the_app_of_the_settings(load: Load) -> None:
    project = load("memory: {enabled: true}", '{"app": "shop"}')
    model = ScriptedModel([call("remember", content="likes blue", key="colour"), say("done")])
    async with MemoryStore() as store:
        session = Session(store=store, user_id="anna")
        config = config_of(project.settings)
        project.agents["keeper"].model = model
        await Runner.run(project.team, "hi", to="keeper", session=session, run_config=config)
        [kept] = await Memory(store, user="anna", app="shop").list()
    assert (kept.key, kept.agent) == ("colour", "keeper")


def test_the_embedder_of_the_settings_is_created_on_first_use(load: Load) -> None:
    project = load("", '{"memory": {"embedding_model": "hashing", "dimension": 32}}')
    given = config_of(project.settings).embedder
    assert callable(given)
    assert given().dimensions == 32
    assert given() is given()


def test_an_unknown_embedder_is_an_error_at_load(load: Load) -> None:
    with pytest.raises(SettingsInvalid, match="no embedder is called"):
        load("", '{"memory": {"embedding_model": "nothing"}}')
