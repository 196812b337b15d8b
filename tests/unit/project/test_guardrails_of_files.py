"""`guardrails` of agent files: what they make, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.agents import AgentFileProblem
from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.errors import AgentFilesInvalid, UserError
from ekiden.core.guardrails import (
    GuardrailFailed,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
)
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.tools.guardrails import ToolInputGuardrailData
from ekiden.guardrails import tool_input_validator_guardrail
from ekiden.project.agent_files.edges import FileGuardrails
from ekiden.project.project import Project, check_files, load_project
from ekiden.runtime import RunConfig, Runner
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool

Load = Callable[..., Project]
CTX: RunContextWrapper[Any] = RunContextWrapper(None)
CHECKS = """
def polite(output): return "please" in str(output), "say please"
def no_homework(given): return "homework" not in str(given), "no homework"
async def no_cards(request): return "4111" not in request.reason
def small(tool, arguments): return arguments.get("path") != "secret", f"{tool} may not"
def no_keys(tool, output): return "sk-" not in str(output), "a key"
def nothing(): return True
"""
_number = iter(range(100))


@pytest.fixture
def module(tmp_path: Path) -> str:
    """A module of validators in the project; its name is new each time, as it is imported."""
    name = f"file_checks_{next(_number)}"
    (tmp_path / f"{name}.py").write_text(CHECKS)
    return name


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(front: str, **options: Any) -> Project:
        write(tmp_path, front)
        return load_project(tmp_path, home=tmp_path / "home", **options)

    return load


def write(root: Path, front: str) -> None:
    folder = root / ".ekiden" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clerk.md").write_text(f"---\nname: clerk\n{front}\n---\nDo it.\n")


def clerk(project: Project) -> Agent[Any]:
    return project.agents["clerk"]


def places(problems: Any) -> list[tuple[str, int, int]]:
    return [
        (each.code, each.line, each.column)
        for each in problems
        if isinstance(each, AgentFileProblem)
    ]


async def told(agent: Agent[Any], output: Any) -> list[list[str]]:
    """What each output guardrail finds."""
    found = [(await each.run(CTX, agent, output)).output for each in agent.output_guardrails]
    return [[str(violation) for violation in each.violations] for each in found]


async def test_answers_are_checked_by_schema_and_function(load: Load, module: str) -> None:
    agent = clerk(
        load(
            "guardrails:\n"
            "  output_schema: {type: object, required: [total]}\n"
            f"  customValidator: {module}:polite\n"
            "  on_failure: repair\n"
        )
    )
    names = [each.get_name() for each in agent.output_guardrails]
    assert names == ["output_schema", f"{module}:polite"]
    assert [each.on_failure for each in agent.output_guardrails] == ["repair", "repair"]
    assert await told(agent, '{"total": "please"}') == [[], []]
    assert await told(agent, "{}") == [['"total" is a required property'], ["say please"]]


async def test_inputs_handoffs_and_tools_are_checked(load: Load, module: str) -> None:
    agent = clerk(
        load(
            "tools: [read_file, write_file]\n"
            "guardrails:\n"
            f"  input_validator: {module}:no_homework\n"
            f"  handoff_validator: {module}:no_cards\n"
            f"  tool_input_validator: {module}:small\n"
            f"  tool_output_validator: {module}:no_keys\n"
        )
    )
    (first,) = agent.input_guardrails
    assert (await first.run(agent, "my homework", CTX)).output.tripwire_triggered
    assert [each.on_failure for each in agent.handoff_guardrails] == ["reject"]
    for tool in agent.tools:
        (before,) = tool.tool_input_guardrails or []
        (after,) = tool.tool_output_guardrails or []
        assert after.get_name() == f"{module}:no_keys"
        ctx: ToolContext[Any] = ToolContext(
            tool_name=tool.name, tool_call_id="c", tool_arguments='{"path": "secret"}'
        )
        decision = await before.run(ToolInputGuardrailData(ctx, agent))
        assert decision.output_info == {"violations": [f"{tool.name} may not"]}
        assert decision.behavior == {"type": "raise_exception"}


def test_an_agent_without_guardrails_has_none(load: Load) -> None:
    agent = clerk(load("tools: [read_file]\nguardrails: {on_failure: warn}"))
    assert agent.input_guardrails == agent.output_guardrails == agent.handoff_guardrails == []
    assert agent.tools[0].tool_input_guardrails is None


def test_tools_added_later_are_checked_once() -> None:
    own = tool_input_validator_guardrail(lambda tool, arguments: True)
    added = tool_input_validator_guardrail(lambda tool, arguments: True)

    def first() -> str:
        """Do."""
        return ""

    def second() -> str:
        """Do."""
        return ""

    agent: Agent[Any] = Agent("a", tools=[function_tool(first, tool_input_guardrails=[own])])
    guardrails = FileGuardrails(tool_inputs=[added])
    guardrails.guard_tools(agent)
    agent.tools.append(function_tool(second))
    guardrails.guard_tools(agent)
    assert [each.tool_input_guardrails for each in agent.tools] == [[own, added], [added]]


@pytest.mark.parametrize(
    ("front", "found", "words"),
    [
        ("guardrails:\n  output_schema:\n    type: obj", ("agent.bad_schema", 5, 11), "'obj'"),
        (
            "guardrails:\n  output_schema:\n    properties:\n      a/b:\n        allOf:\n"
            "          - pattern: (?=x)",
            ("agent.bad_schema", 8, 22),
            "look-around",
        ),
        (
            "guardrails: {outputSchema: {items: {$ref: 'http://127.0.0.1:9/x'}}}",
            ("agent.bad_schema", 3, 43),
            "nothing outside of the schema is fetched",
        ),
        ("guardrails: {output_schema: {$schema: draft-07}}", ("agent.bad_schema", 3, 39), "leave"),
        (
            "guardrails: {custom_validator: 'no_such_module_x:f'}",
            ("agent.bad_function", 3, 32),
            "there is no module 'no_such_module_x'",
        ),
        (
            "guardrails:\n  inputValidator: MODULE:gone",
            ("agent.bad_function", 4, 19),
            "has no 'gone'",
        ),
        (
            "guardrails:\n  tool_input_validator: MODULE:polite",
            ("agent.bad_function", 4, 25),
            "must be callable with the tool's name and one more argument",
        ),
        (
            "guardrails:\n  handoff_validator: MODULE:nothing",
            ("agent.bad_function", 4, 22),
            "must be callable with one argument",
        ),
    ],
)
def test_faults_are_reported_with_line_and_column(
    load: Load, module: str, front: str, found: tuple[str, int, int], words: str
) -> None:
    with pytest.raises(AgentFilesInvalid) as caught:
        load(front.replace("MODULE", module))
    assert places(caught.value.problems) == [found]
    assert words in str(caught.value)


def test_all_faults_are_reported_at_once(load: Load) -> None:
    with pytest.raises(AgentFilesInvalid) as caught:
        load(
            "tools: [no_such_tool]\n"
            "guardrails:\n  output_schema: {minimum: x}\n  custom_validator: no_such_module_y:f"
        )
    assert places(caught.value.problems) == [
        ("agent.unknown_tool", 3, 9),
        ("agent.bad_schema", 5, 28),
        ("agent.bad_function", 6, 21),
    ]


def test_functions_are_imported_only_by_projects_that_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        "guardrails: {custom_validator: 'no_such_module_z:f', output_schema: {type: obj}}",
    )
    looked_at = check_files(tmp_path, home=tmp_path / "home")
    assert places(looked_at.problems) == [("agent.bad_schema", 3, 76)]
    imported = check_files(tmp_path, inert=False, home=tmp_path / "home")
    assert [each.code for each in imported.problems] == ["agent.bad_function", "agent.bad_schema"]


async def test_a_function_that_was_not_imported_refuses_everything(load: Load) -> None:
    front = "guardrails: {custom_validator: 'no_such_module_z:f'}"
    (guardrail,) = clerk(load(front, inert=True)).output_guardrails
    assert guardrail.get_name() == "no_such_module_z:f"
    with pytest.raises(UserError, match="was not imported"):
        await guardrail.run(CTX, None, "x")


def test_without_the_extra_a_schema_in_a_file_is_a_fault(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jsonschema_rs", None)
    with pytest.raises(AgentFilesInvalid, match=r"pip install 'ekiden\[guardrails\]'") as caught:
        load("guardrails: {output_schema: {title: not compiled before}}")
    assert places(caught.value.problems) == [("agent.bad_schema", 3, 29)]


SCHEMA = "  output_schema: {type: object, required: [total]}\n"


async def test_an_invalid_answer_is_repaired(load: Load) -> None:
    project = load(f"guardrails:\n{SCHEMA}  on_failure: repair\n")
    model = ScriptedModel([say("It is 7."), say("{}"), say('{"total": 7}')])
    result = await Runner.run(project.team, "go", to="clerk", run_config=RunConfig(model=model))
    assert result.final_output == '{"total": 7}'
    assert "the answer is not JSON" in str(model.calls[1].input[-1])
    assert '"total" is a required property' in str(model.calls[2].input[-1]).replace("\\", "")


async def test_an_invalid_answer_ends_the_run(load: Load) -> None:
    project = load(f"guardrails:\n{SCHEMA}")
    model = ScriptedModel([say("{}")])
    with pytest.raises(OutputGuardrailTripwireTriggered) as caught:
        await Runner.run(project.team, "go", to="clerk", run_config=RunConfig(model=model))
    assert [each.message for each in caught.value.violations] == ['"total" is a required property']


async def test_a_refused_input_makes_no_model_call(load: Load, module: str) -> None:
    project = load(f"guardrails: {{input_validator: '{module}:no_homework'}}")
    model = ScriptedModel([])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(project.team, "my homework", to="clerk", run_config=RunConfig(model=model))
    assert model.calls == []


async def test_a_refused_tool_call_is_reported_to_the_model(load: Load, module: str) -> None:
    project = load(
        "tools: [read_file]\n"
        f"guardrails: {{tool_input_validator: '{module}:small', on_failure: repair}}"
    )
    model = ScriptedModel([call("read_file", path="secret"), say("I may not.")])
    config = RunConfig(model=model, approver=Yes())
    result = await Runner.run(project.team, "go", to="clerk", run_config=config)
    assert result.final_output == "I may not."
    assert "read_file may not" in str(model.calls[1].input[-1])


async def test_an_exception_of_a_validator_fails_the_run(load: Load, tmp_path: Path) -> None:
    (tmp_path / "file_checks_crash.py").write_text("def crash(output): return 1 / 0\n")
    project = load("guardrails: {custom_validator: 'file_checks_crash:crash', on_failure: repair}")
    model = ScriptedModel([say("hello")])
    with pytest.raises(GuardrailFailed, match="ZeroDivisionError"):
        await Runner.run(project.team, "go", to="clerk", run_config=RunConfig(model=model))


class Yes:
    async def approve(self, request: ConfirmationRequest) -> Approval:
        return Approval(approved=True, by="ada")


async def test_memory_and_ask_tools_are_checked_and_confirmed(load: Load, tmp_path: Path) -> None:
    (tmp_path / "file_checks_own.py").write_text(
        "def small(tool, arguments): return 'secret' not in str(arguments), f'{tool} may not'\n"
    )
    project = load(
        "memory: {enabled: true}\n"
        "can_ask_people: [manager]\n"
        "tools: {require_confirmation: [remember, ask_person]}\n"
        "guardrails: {tool_input_validator: 'file_checks_own:small', on_failure: repair}"
    )
    asked: list[str] = []

    class Asked:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            asked.append(request.tool)
            return Approval(approved=len(asked) == 1, by="ada")

    steps = [
        call("remember", content="secret", key=None, tags=None),
        call("ask_person", role="manager", subject="s", question="q"),
        call("recall", query="secret"),
        say("done"),
    ]
    model = ScriptedModel(steps)
    config = RunConfig(model=model, approver=Asked())
    await Runner.run(project.team, "go", to="clerk", run_config=config)
    told = [str(each.input[-1].get("output")) for each in model.calls[1:]]
    assert "remember may not" in told[0]
    assert "The tool was not run" in told[1]
    assert "recall may not" in told[2]
    assert asked == ["remember", "ask_person"]


def test_confirmation_of_a_tool_the_agent_lacks_is_refused(load: Load) -> None:
    with pytest.raises(AgentFilesInvalid, match="'remember' is to be confirmed"):
        load("tools: {require_confirmation: [remember]}")
