"""A folder with agents and settings, as a team."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentFileProblem
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.errors import AgentFilesInvalid, ToolError, UserError
from ekiden.core.profile import Confirmation
from ekiden.core.text.wording import MODEL_ALIASES
from ekiden.handoff import get_handoffs
from ekiden.project.project import load_project
from ekiden.project.routing import decide, parse_address
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.testing import ScriptedModel, call, say, transfer

DEBUGGER = """\
---
name: debugger
description: Finds out why programs crash.
triggers:
  keywords: [crash, 报错]
  priority: 90
handoffs:
  - to: writer
    description: when words are wanted
    filters: [keep_last(2)]
tools:
  allow: [read_file]
---
You find faults.
"""
WRITER = """\
---
name: writer
description: Writes texts.
triggers:
  keywords: [letter]
---
You write.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".ekiden" / "agents").mkdir(parents=True)
    write(tmp_path, "debugger", DEBUGGER)
    write(tmp_path, "writer", WRITER)
    return tmp_path


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


def write(folder: Path, name: str, text: str) -> None:
    (folder / ".ekiden" / "agents" / f"{name}.md").write_text(text, encoding="utf-8")


def settings(folder: Path, text: str) -> None:
    (folder / ".ekiden" / "settings.json").write_text(text, encoding="utf-8")


async def test_agent_files_become_a_team_with_a_router(folder: Path) -> None:
    project = load_project(folder)
    assert sorted(project.agents) == ["debugger", "writer"]
    assert project.team.entry.name == "router-agent"
    with ScriptedModel([say("found it")]) as model:
        for agent in project.agents.values():
            agent.model = model
        result = await Runner.run(project.team, "it gives a crash 报错")
    assert result.chain == ["user", "debugger"]


async def test_an_agent_may_hand_off_to_named_agents_and_back_to_the_router(folder: Path) -> None:
    project = load_project(folder)
    debugger = project.agents["debugger"]
    with ScriptedModel([transfer("writer", reason="words"), say("Dear …")]) as model:
        for agent in project.agents.values():
            agent.model = model
        result = await Runner.run(project.team, "write", to="debugger")
        offered = await get_handoffs(debugger, result.context_wrapper)
    assert result.chain == ["user", "debugger", "writer"]
    assert [each.tool_name for each in offered] == [
        "transfer_to_writer",
        "transfer_to_router_agent",
    ]
    assert [tool.name for tool in debugger.tools] == ["read_file"]


async def test_a_built_in_tool_is_refused_without_an_approver(folder: Path) -> None:
    project = load_project(folder)
    (folder / "secret.txt").write_text("abc")
    script = [call("read_file", path="secret.txt"), say("I may not")]
    with ScriptedModel(script) as model:
        project.agents["debugger"].model = model
        await Runner.run(project.team, "crash", to="debugger", run_config=RunConfig())
    assert "abc" not in model.calls[1].input[-1]["output"]


def test_the_model_of_the_settings_is_the_default_of_agents(folder: Path) -> None:
    write(folder, "writer", WRITER.replace("name: writer", "name: writer\nmodel: openai:other"))
    settings(folder, '{"model": "openai:team"}')
    agents = load_project(folder).agents
    assert agents["debugger"].model == "openai:team"
    assert agents["writer"].model == "openai:other"
    assert load_project(folder, overrides={"model": "a:b"}).agents["debugger"].model == "a:b"


def test_all_faults_of_all_files_are_reported_at_once(folder: Path) -> None:
    write(folder, "bad", "---\nname: bad\ntriger: {}\ntools: {allow: [red_file]}\n---\nx")
    write(folder, "worse", "---\nname: worse\nhandoffs: [{to: writter}]\n---\nx")
    with pytest.raises(AgentFilesInvalid) as caught:
        load_project(folder)
    text = str(caught.value)
    assert "bad.md:3" in text
    assert "worse.md:3" in text
    assert "did you mean 'writer'" in text


def test_an_unknown_tool_is_reported_with_its_line(folder: Path) -> None:
    write(folder, "bad", "---\nname: bad\ndescription: x\ntools:\n  allow: [red_file]\n---\nx")
    with pytest.raises(AgentFilesInvalid, match=r"bad\.md:5:.*did you mean 'read_file'"):
        load_project(folder)


def test_a_tool_with_confirmation_must_be_allowed(folder: Path) -> None:
    front = "name: bad\ndescription: x\ntools:\n  allow: [read_file]\n  confirmation:\n"
    front += "    require_confirmation: [read_fil]\n"
    write(folder, "bad", f"---\n{front}---\nx")
    with pytest.raises(AgentFilesInvalid, match=r"not in tools.allow; did you mean 'read_file'"):
        load_project(folder)


def test_an_unknown_filter_is_reported_with_its_line(folder: Path) -> None:
    write(folder, "debugger", DEBUGGER.replace("keep_last(2)", "keep_lst(2)"))
    with pytest.raises(AgentFilesInvalid, match=r"debugger\.md:8:.*did you mean 'keep_last'"):
        load_project(folder)


def test_keep_going_loads_the_valid_files_and_reports_faults(folder: Path) -> None:
    write(folder, "bad", "---\nname: [\n---\nx")
    project = load_project(folder, keep_going=True)
    assert sorted(project.agents) == ["debugger", "writer"]
    assert {problem.path.name for problem in project.problems} == {"bad.md"}


def test_only_invalid_files_are_an_error_even_with_keep_going(tmp_path: Path) -> None:
    (tmp_path / ".ekiden" / "agents").mkdir(parents=True)
    write(tmp_path, "bad", "---\nname: [\n---\nx")
    with pytest.raises(AgentFilesInvalid, match="bad.md"):
        load_project(tmp_path, keep_going=True)


def test_without_routing_the_default_agent_starts(folder: Path) -> None:
    settings(folder, '{"agents": {"routing": {"enabled": false, "default_agent": "writer"}}}')
    project = load_project(folder)
    assert project.team.entry.name == "writer"
    assert [edge.agent_name for edge in project.agents["writer"].handoffs] == []


def test_an_unknown_default_agent_is_refused(folder: Path) -> None:
    settings(folder, '{"agents": {"routing": {"enabled": false, "default_agent": "writter"}}}')
    with pytest.raises(UserError, match="did you mean 'writer'"):
        load_project(folder)


def test_a_folder_without_agents_loads_the_demo_team(tmp_path: Path) -> None:
    project = load_project(tmp_path)
    assert project.is_demo
    assert project.team.entry.name == "triage"
    assert "router-agent" in project.team


def test_a_team_in_code_overrides_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "desk_of_code.py").write_text(
        "from ekiden import Agent, Team\nteam = Team(Agent('coded'), name='desk')\n"
    )
    monkeypatch.chdir(folder)
    settings(folder, '{"team": "desk_of_code:team"}')
    project = load_project(folder)
    assert project.team.entry.name == "coded"
    assert not project.is_demo
    named = load_project(folder, team="ekiden.project.demo:team")
    assert (named.team.entry.name, named.notes) == ("triage", [])


async def test_a_team_in_code_keeps_its_own_router(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "routed_desk.py").write_text(
        "from ekiden import Agent, Team\n"
        "from ekiden.routing import Router\n"
        "agents = [Agent('x', description='Sums.'), Agent('y', description='Songs.')]\n"
        "router = Router(agents)\n"
        "team = Team(router.agent, *agents)\n"
    )
    monkeypatch.chdir(folder)
    project = load_project(folder, team="routed_desk:team")
    assert project.router.agent is project.team.entry


SYSTEM = "---\nname: archivist\nscope: system\n---\nYou keep files.\n"


def test_a_system_agent_never_starts(folder: Path) -> None:
    write(folder, "archivist", SYSTEM)
    settings(folder, '{"agents": {"routing": {"enabled": false}}}')
    assert load_project(folder).team.entry.name == "router-agent"
    settings(folder, '{"agents": {"routing": {"enabled": false, "default_agent": "archivist"}}}')
    with pytest.raises(UserError, match="'archivist', a system agent, which gets no requests"):
        load_project(folder)


async def test_without_routing_only_a_default_agent_gets_requests(
    folder: Path,
) -> None:
    settings(folder, '{"agents": {"routing": {"enabled": false}}}')
    project = load_project(folder)
    said = (await Runner.run(project.team, "error")).final_output or ""
    assert said.startswith("Routing is switched off (agents.routing.enabled is false). Name one")
    settings(folder, '{"agents": {"routing": {"enabled": false, "default_agent": "writer"}}}')
    project = load_project(folder)
    assert (await decide(project, parse_address("error"))).agent == "writer"
    asked = await decide(project, parse_address("@auto error"))
    assert (asked.agent, asked.stages) == (None, ())
    assert "name an agent" in asked.reason


async def test_the_router_file_sets_its_prompt_and_model(folder: Path) -> None:
    write(folder, "router-agent", "---\nname: router-agent\nmodel: demo:offline\n---\nBe quick.")
    project = load_project(folder)
    assert sorted(project.agents) == ["debugger", "writer"]
    llm = project.router.settings.llm
    assert (llm.prompt, llm.model) == ("Be quick.", "demo:offline")


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_team_of_system_agents_only_is_refused(folder: Path, enabled: str) -> None:
    for name in ("debugger", "writer"):
        (folder / ".ekiden" / "agents" / f"{name}.md").unlink()
    write(folder, "archivist", SYSTEM)
    settings(folder, f'{{"agents": {{"routing": {{"enabled": {enabled}}}}}}}')
    with pytest.raises(UserError, match="no agent that requests can go to: archivist"):
        load_project(folder)


def test_an_inert_project_imports_nothing(folder: Path) -> None:
    write(folder, "writer", WRITER.replace("name: writer", "name: writer\ntools: ['zz_own:f']"))
    project = load_project(folder, inert=True)
    assert [tool.name for tool in project.agents["writer"].tools] == ["zz_own:f"]
    with pytest.raises(AgentFilesInvalid, match="zz_own"):
        load_project(folder)


def test_confirmation_settings_apply_to_every_tool_with_confirmation(folder: Path) -> None:
    front = "tools: {allow: [read_file, shell, zz_asking:own, zz_asking:free], confirmation: "
    front += '{prompt_template: "May {tool_name}?", timeout: 5}}'
    write(folder, "writer", WRITER.replace("name: writer", f"name: writer\n{front}"))
    (folder / "zz_asking.py").write_text(
        "from ekiden import Confirmation, function_tool\n"
        "@function_tool(confirmation=Confirmation(prompt_template='Own?', timeout_s=9))\n"
        "def own() -> str:\n    return ''\n"
        "def free() -> str:\n    return ''\n"
    )
    tools = {tool.name: tool.confirmation for tool in load_project(folder).agents["writer"].tools}
    said = Confirmation(prompt_template="May {tool_name}?", timeout_s=5)
    assert tools == {"read_file": said, "shell": said, "own": said, "free": None}


def test_unset_confirmation_fields_keep_those_of_the_tool(folder: Path) -> None:
    front = "tools: {allow: ['zz_polite:own'], confirmation: {timeout: 5}}"
    write(folder, "writer", WRITER.replace("name: writer", f"name: writer\n{front}"))
    (folder / "zz_polite.py").write_text(
        "from ekiden import Confirmation, function_tool\n"
        "@function_tool(confirmation=Confirmation(prompt_template='Own?'))\n"
        "def own() -> str:\n    return ''\n"
    )
    (tool,) = load_project(folder).agents["writer"].tools
    assert tool.confirmation == Confirmation(prompt_template="Own?", timeout_s=5)


def test_a_file_with_a_fault_is_checked_completely(folder: Path) -> None:
    front = (
        "name: bad\ntriger: {}\n"
        "tools: {allow: [red_file], require_confirmation: [shel]}\n"
        "handoffs: [{to: writter}, {to: writer, filters: [keep_lst(2), keep_frst]}]\n"
    )
    write(folder, "bad", f"---\n{front}---\nx")
    with pytest.raises(AgentFilesInvalid) as caught:
        load_project(folder)
    found = [each for each in caught.value.problems if isinstance(each, AgentFileProblem)]
    assert [(each.code, each.line, each.column) for each in found] == [
        ("agent.unknown_key", 3, 1),
        ("agent.unknown_tool", 4, 17),
        ("agent.unknown_tool", 4, 51),
        ("agent.unknown_handoff", 5, 12),
        ("agent.bad_filter", 5, 27),
        ("agent.bad_filter", 5, 27),
    ]


def test_files_that_are_no_agents_leave_the_demo_team(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / ".claude" / "agents" / "README.md").write_text("These are agents.")
    assert load_project(tmp_path).is_demo


async def test_a_project_without_servers_opens_and_closes(folder: Path) -> None:
    async with load_project(folder) as project:
        assert project.notes == []


def test_the_settings_of_local_models_apply_to_the_process(folder: Path) -> None:
    from ekiden.models.local import set_default_local_model, set_default_local_settings
    from ekiden.models.local.settings import default_local_settings

    settings(folder, '{"local": {"context": 2048, "threads": 1}}')
    try:
        load_project(folder)
        assert default_local_settings().n_ctx == 2048
        assert default_local_settings().threads == 1
    finally:
        set_default_local_settings(None)
        set_default_local_model(None)


FOREIGN = {
    ".claude/agents/good.md": "---\nname: good\ntools: Read\nmodel: sonnet\n---\nx",
    ".claude/agents/in/broken.md": "---\nname: broken\ntools: Read\nx: [\n---\nx",
    ".claude/agents/bad.md": "---\nname: bad\napproval: by two people\n---\nx",
    ".gemini/agents/bytes.md": "---\nname: \udcff\n---\nx",
    ".agents/same.md": "---\nname: go-od\n---\nx",
    ".agents/agents/no.md": "---\nname: no\nguardrails: {custom_validator: nowhere:check}\n---\nx",
    ".agents/agents/open.md": "---\nname: open",
    ".agents/agents/second.md": "---\nname: go_od\n---\nx",
}


def test_an_invalid_foreign_file_does_not_stop_the_others(tmp_path: Path) -> None:
    for name, text in FOREIGN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    project = load_project(tmp_path)
    assert sorted(project.agents) == ["broken", "go_od", "good"]
    errors = {each.path.name: each for each in project.problems if each.severity == "error"}
    assert sorted(errors) == ["bad.md", "no.md", "same.md"]
    assert (errors["bad.md"].code, errors["bad.md"].line) == ("agent.unsafe_key", 3)


def test_only_refused_files_do_not_load_the_demo_team(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / ".claude" / "agents" / "bad.md").write_text(FOREIGN[".claude/agents/bad.md"])
    with pytest.raises(AgentFilesInvalid):
        load_project(tmp_path)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_model_without_a_key_is_replaced_by_the_model_of_the_team(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / ".claude" / "agents" / "good.md").write_text(FOREIGN[".claude/agents/good.md"])
    project = load_project(tmp_path, overrides={"model": "openai:gpt-5"})
    wanted = "openai:gpt-5" if key is None else MODEL_ALIASES["sonnet"]
    assert project.agents["good"].model == wanted
    assert [each.code for each in project.problems] == ["agent.model_of_the_team"][: key is None]


def test_a_file_sets_model_settings(folder: Path) -> None:
    write(
        folder,
        "writer",
        "---\nname: writer\ntemperature: 0.2\nmodel_settings: {max_tokens: 9}\nmodel: gpt-5\n"
        "systemPrompt: Be kind.\ntools: [Bash, Grep]\n---\nYou write.",
    )
    writer = load_project(folder).agents["writer"]
    assert writer.model_settings == ModelSettings(temperature=0.2, max_tokens=9)
    assert writer.model == "openai:gpt-5"
    assert writer.instructions == "Be kind.\n\nYou write."
    assert [tool.name for tool in writer.tools] == ["shell", "grep"]


@pytest.mark.parametrize("folder", [".claude", ".ekiden"])
async def test_a_shell_limited_to_some_commands_runs_no_other(folder: str, tmp_path: Path) -> None:
    agents = tmp_path / folder / "agents"
    agents.mkdir(parents=True)
    allowed = ["echo one:*", "echo two"]
    tools = ", ".join(f"Bash({each})" for each in allowed)
    head = f"tools: [{', '.join(repr(each) for each in tools.split(', '))}]"
    (agents / "x.md").write_text(f"---\nname: x\ndescription: X.\n{head}\n---\nX.\n")
    (tmp_path / ".ekiden").mkdir(exist_ok=True)
    (tmp_path / ".ekiden" / "settings.json").write_text(
        '{"tools": {"ask": false, "shell": {"allow": ["echo", "sh"]}}}'
    )
    project = load_project(tmp_path)
    [shell] = project.team["x"].tools
    commands = {
        "echo one": True, "echo one 'more; than $(that)'": True, "echo two": True,
        "'echo' \"one\"": True, "echo two more": False, "echo oneself": False, "echo": False,
        "sh -c 'echo one'": False, "echo one; sh": False, "echo one $(sh)": False,
        "echo one\nsh": False, "echo one && sh": False, "echo one > file": False,
    }  # fmt: skip

    async def code(ctx: CodeContext[Any]) -> str:
        told = []
        for command in commands:
            try:
                told.append(await ctx.call("shell", command=command))
            except ToolError as exc:
                told.append(str(exc))
        return "\n---\n".join(map(str, told))

    agent = Agent("x", run=code, tools=[shell])
    said = (await Runner.run(agent, "x")).final_output.split("\n---\n")
    assert [each.endswith("[exit code 0]") for each in said] == list(commands.values())
