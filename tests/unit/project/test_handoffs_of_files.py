"""A team of files at work: its handoffs are made on the terms that the files name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Team
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import Waiting
from ekiden.handoff.records import HandoffRecord, records_of
from ekiden.project.project import load_project
from ekiden.runtime import RunConfig, Runner
from ekiden.testing import ScriptedModel, call, fail, say, transfer

Make = Callable[..., Team]

GAUGES = """\
from ekiden import RunContextWrapper, function_tool

@function_tool
def rate(ctx: RunContextWrapper, confidence: float) -> str:
    '''Say how sure you are.'''
    ctx.set("confidence", confidence)
    return "noted"
"""


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A team of files: their names, and the front matter of each."""

    def team(module: str = "", **files: str) -> Team:
        folder = tmp_path / ".ekiden" / "agents"
        folder.mkdir(parents=True)
        for name, front in files.items():
            (folder / f"{name}.md").write_text(f"---\nname: {name}\n{front}\n---\nDo it.\n")
        if module:
            (tmp_path / f"{module}.py").write_text(GAUGES)
            monkeypatch.syspath_prepend(tmp_path)
        return load_project(tmp_path, home=tmp_path / "home").team

    return team


class Strict:
    """A person who says no."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def approve(self, request: ConfirmationRequest) -> Approval:
        self.asked.append(request.prompt)
        return Approval(approved=False, by="the manager")


async def run(team: Team, model: ScriptedModel, **options: Any) -> Any:
    with model:
        return await Runner.run(
            team, "hi", to="clerk", run_config=RunConfig(model=model, **options)
        )


def one(result: Any) -> HandoffRecord:
    [record] = records_of(result.events)
    return record


def offered(model: ScriptedModel) -> list[list[str]]:
    """The transfers that the model was offered, call by call."""
    names = [[tool.name for tool in each.tools] for each in model.calls]
    return [[name for name in each if name.startswith("transfer_to_")] for each in names]


async def test_a_trigger_hands_off_without_a_model_call(team: Make) -> None:
    made = team(
        "zz_gauges_auto",
        clerk="tools: ['zz_gauges_auto:rate']\nhandoffs: [{to: boss, trigger: confidence < 0.5}]",
        boss="",
    )
    model = ScriptedModel([call("rate", confidence=0.3), say("The boss is sure.")])
    result = await run(made, model)
    assert result.chain == ["user", "clerk", "boss"]
    assert (one(result).by.kind, one(result).status) == ("trigger", "completed")
    assert offered(model)[0] == ["transfer_to_router_agent"]


async def test_an_error_trigger_of_a_file_agent_hands_off(team: Make) -> None:
    made = team(clerk="handoffs: [{to: boss, trigger: {type: error}, policy: immediate}]", boss="")
    result = await run(made, ScriptedModel([fail(ValueError("out of order")), say("I see.")]))
    assert result.chain == ["user", "clerk", "boss"]
    assert result.final_output == "I see."


async def test_a_conditional_handoff_is_offered_only_while_its_condition_holds(
    team: Make,
) -> None:
    made = team(
        "zz_gauges_while",
        clerk="tools: ['zz_gauges_while:rate']\n"
        "handoffs: [{to: boss, when: conditional, condition: confidence < 0.5}]",
        boss="",
    )
    script = [
        call("rate", confidence=0.3),
        call("rate", confidence=0.9),
        call("rate", confidence=0.1),
        transfer("boss", reason="unsure"),
        say("The boss is sure."),
    ]
    model = ScriptedModel(script)
    result = await run(made, model)
    assert result.chain == ["user", "clerk", "boss"]
    boss, nobody = ["transfer_to_boss", "transfer_to_router_agent"], ["transfer_to_router_agent"]
    assert offered(model)[:4] == [nobody, boss, nobody, boss]


async def test_a_conditional_policy_refuses_a_handoff_whose_condition_fails(team: Make) -> None:
    made = team(clerk="handoffs: [{to: boss, policy: conditional, condition: depth > 5}]", boss="")
    model = ScriptedModel([transfer("boss", reason="x"), say("Then I do it.")])
    result = await run(made, model)
    assert result.chain == ["user", "clerk"]
    assert one(result).code == "CONDITIONS_NOT_MET"


async def test_the_best_agent_for_a_capability_gets_the_conversation(team: Make) -> None:
    made = team(
        clerk="handoffs: [{to: '*', capabilities: [refunds, tag:japanese]}]",
        novice="capabilities: [{name: Refunds, proficiency: 0.4, tags: [japanese]}]",
        expert="capabilities: [{name: refunds, proficiency: 0.9, tags: [日本語, japanese]}]",
        linguist="capabilities: [{name: translation, tags: [japanese]}]",
    )
    (edge, _) = made["clerk"].handoffs
    name = getattr(edge, "tool_name", "")
    model = ScriptedModel([call(name, reason="a refund"), say("Done.")])
    result = await run(made, model)
    assert result.chain == ["user", "clerk", "expert"]


async def test_an_unavailable_agent_is_not_the_best(team: Make) -> None:
    made = team(
        clerk="handoffs: [{to: '*', capabilities: [refunds]}, {to: expert}]",
        novice="capabilities: [{name: refunds, proficiency: 0.4}]",
        expert="capabilities: [refunds]\navailable: false",
    )
    script = [
        transfer("expert", reason="x"),
        call("transfer_to_best_at_refunds", reason="y"),
        say("Done."),
    ]
    result = await run(made, ScriptedModel(script))
    assert result.chain == ["user", "clerk", "novice"]
    refused, _ = records_of(result.events)
    assert refused.code == "AGENT_UNAVAILABLE"


async def test_a_conversation_handed_off_to_people_waits_for_them(team: Make) -> None:
    made = team(clerk="handoffs: [{to: 'person:support', description: when they insist}]")
    model = ScriptedModel([transfer("person:support", reason="they insist")])
    result = await run(made, model)
    assert isinstance(result.outcome, Waiting)
    assert result.last_agent.name == "person:support"
    assert one(result).reason == "they insist"


async def test_a_rejected_handoff_leaves_the_conversation_where_it_is(team: Make) -> None:
    question = "{prompt_template: 'Let {tool_name} be made with {tool_args}?'}"
    made = team(clerk=f"handoffs: [{{to: boss, confirm: {question}}}]", boss="")
    person = Strict()
    model = ScriptedModel([transfer("boss", reason="x"), say("Then I do it.")])
    result = await run(made, model, approver=person)
    assert person.asked == ['Let transfer_to_boss be made with {"reason": "x"}?']
    assert result.chain == ["user", "clerk"]
    assert one(result).code == "NOT_APPROVED"


@pytest.mark.parametrize("may_return", [True, False])
async def test_a_conversation_returns_only_where_the_file_allows_it(
    team: Make, may_return: bool
) -> None:
    allow = "true" if may_return else "false"
    made = team(clerk="handoffs: [boss]", boss=f"handoffs: [{{to: clerk, allow_return: {allow}}}]")
    script = [
        transfer("boss", reason="x"),
        transfer("clerk", reason="y", summary="It was found."),
        say("Done."),
    ]
    result = await run(made, ScriptedModel(script))
    expected = ["user", "clerk", "boss", "clerk"]
    assert result.chain == (expected if may_return else expected[:3])


async def test_a_restricted_target_uses_only_the_tools_both_have(team: Make) -> None:
    made = team(
        clerk="tools: [read_file]\nhandoffs: [{to: boss, restrict_tools: true}]",
        boss="tools: [read_file, write_file]",
    )
    model = ScriptedModel([transfer("boss", reason="x"), say("Done.")])
    await run(made, model)
    names = [tool.name for tool in model.calls[1].tools]
    assert [name for name in names if not name.startswith("transfer_to_")] == ["read_file"]
