"""The router: strategies, their order, and what happens when nothing matches."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from ekiden import Agent, Team, UnknownAgent, UserError
from ekiden.core.profile import Triggers
from ekiden.core.roles import Assigner
from ekiden.routing import (
    LlmSettings,
    Router,
    RoutingSettings,
    RuleSettings,
    Score,
)
from ekiden.testing import ScriptedModel, fail, hang, transfer
from tests.unit.routing.doubles import DEBUGGER, NOTHING, SYSTEM, TEAM, Broken, Guess


def threshold(value: int) -> RoutingSettings:
    return RoutingSettings(rule=RuleSettings(confidence_threshold=value))


async def test_the_rule_strategy_takes_even_a_weak_match() -> None:
    decision = await Router(TEAM).route("a Crash", strategy="rule")
    assert (decision.agent, decision.method, decision.confidence) == ("debugger", "rule", 85)
    assert decision.matched_keywords == ("crash",)
    assert decision.matched_patterns == ()
    assert decision.strategy == "rule"
    assert [stage.method for stage in decision.stages] == ["rule"]
    assert decision.elapsed_ms > 0


async def test_the_decision_lists_the_candidates_with_their_matches() -> None:
    decision = await Router(TEAM).route("error TS2304 in the text", strategy="rule")
    assert decision.candidates == (
        Score(agent="debugger", score=30, confidence=99, keywords=("error",), patterns=(r"TS\d+",)),
        Score(agent="writer", score=10, confidence=1, keywords=("text", "error")),
    )
    assert decision.matched_patterns == (r"TS\d+",)


async def test_the_list_of_candidates_is_limited() -> None:
    agents = [Agent(f"a{i}", triggers=Triggers(keywords=("x",))) for i in range(50)]
    router = Router(agents)
    assert len((await router.route("x", strategy="rule")).candidates) == 20
    assert len((await router.route("x", strategy="rule", limit=99)).candidates) == 50
    assert len((await router.route("x", strategy="rule", limit=0)).candidates) == 1


async def test_rules_at_the_threshold_decide_without_other_stages() -> None:
    guess = Guess(("writer", 99), sure=True)
    with ScriptedModel() as model:
        router = Router(TEAM, settings=threshold(85), model=model, semantic=guess)
        decision = await router.route("crash")
    assert (decision.agent, decision.method) == ("debugger", "rule")
    assert guess.asked == []
    assert [stage.method for stage in decision.stages] == ["rule"]


async def test_below_the_threshold_a_sure_semantic_stage_decides() -> None:
    guess = Guess(("writer", 93), ("debugger", 4), sure=True)
    with ScriptedModel() as model:
        decision = await Router(TEAM, model=model, semantic=guess).route("error")
    assert (decision.agent, decision.method, decision.confidence) == ("writer", "semantic", 93)
    assert decision.matched_keywords == ("error",), "what its rules found is told as well"
    assert [(s.agent, s.method, s.keywords) for s in decision.candidates] == [
        ("writer", "semantic", ("error",)),
        ("debugger", "semantic", ("error",)),
    ]
    assert [(stage.method, stage.agent) for stage in decision.stages] == [
        ("rule", "debugger"),
        ("semantic", "writer"),
    ]


async def test_if_both_stages_are_unsure_the_model_decides() -> None:
    guess = Guess(("debugger", 40))
    with ScriptedModel([transfer("writer", reason="Prose.", context="short")]) as model:
        decision = await Router(TEAM, model=model, semantic=guess).route("error")
    assert (decision.agent, decision.method, decision.confidence) == ("writer", "llm", 90)
    assert decision.reason == "writer: Prose."
    assert decision.context == "short"
    assert decision.usage is not None
    assert [score.agent for score in decision.candidates] == ["writer", "debugger"]
    assert [stage.method for stage in decision.stages] == ["rule", "semantic", "llm"]


async def test_a_model_may_decide_for_no_agent() -> None:
    with ScriptedModel([transfer("nobody", reason="Weather.")]) as model:
        router = Router(TEAM, model=model, semantic=Guess(("writer", 40)))
        decision = await router.route("error")
    assert (decision.agent, decision.method) == (None, "none")
    assert "llm: the model says that no agent fits: Weather." in decision.reason


async def test_two_unsure_stages_that_agree_are_combined() -> None:
    decision = await Router(TEAM, semantic=Guess(("debugger", 40))).route("error")
    assert (decision.agent, decision.method) == ("debugger", "semantic")
    assert [stage.confidence for stage in decision.stages] == [56, 40, 0]
    assert decision.confidence == 73, "100 - 44 % of 60"
    assert "rules and meaning agree" in decision.reason
    assert "there is no model to ask" in decision.stages[-1].reason


async def test_two_agreeing_stages_override_a_model_that_chooses_nobody() -> None:
    with ScriptedModel([transfer("nobody", reason="Weather.")]) as model:
        router = Router(TEAM, model=model, semantic=Guess(("debugger", 40)))
        decision = await router.route("error")
    assert (decision.agent, decision.confidence) == ("debugger", 73)
    assert decision.stages[-1].reason == "the model says that no agent fits: Weather."


async def test_two_stages_that_reach_the_threshold_together_need_no_model() -> None:
    with ScriptedModel() as model:
        router = Router(TEAM, model=model, semantic=Guess(("debugger", 60)))
        decision = await router.route("error")
    assert (decision.agent, decision.confidence) == ("debugger", 82)


async def test_one_keyword_at_the_default_priority_decides() -> None:
    travel = Agent("travel", triggers=Triggers(keywords=("fly",)))
    with ScriptedModel() as model:
        router = Router([travel, *TEAM], model=model, semantic=NOTHING)
        decision = await router.route("I want to fly to Kyoto")
    assert (decision.agent, decision.method, decision.confidence) == ("travel", "rule", 85)
    assert decision.candidates[0].score == 5, "the score is the specified one"


async def test_a_weak_rule_does_not_override_a_near_semantic_match() -> None:
    decision = await Router(TEAM, semantic=Guess(("writer", 40))).route("error")
    assert (decision.agent, decision.method, decision.confidence) == ("writer", "semantic", 40)
    assert [score.agent for score in decision.candidates] == ["writer", "debugger"]
    assert decision.stages[0].agent == "debugger"


async def test_hybrid_without_a_model_takes_the_semantic_choice() -> None:
    router = Router(TEAM, semantic=Guess(("writer", 40)))
    for strategy in ("hybrid", "semantic"):
        decision = await router.route("hm", strategy=strategy)
        assert (decision.agent, decision.method) == ("writer", "semantic")


@pytest.mark.parametrize("step", [fail(RuntimeError("down")), hang(), "I think the debugger"])
async def test_the_best_rule_decides_if_no_other_stage_answers(step: Any) -> None:
    settings = RoutingSettings(llm=LlmSettings(timeout=5))
    with ScriptedModel([step]) as model:
        router = Router(TEAM, settings=settings, model=model, semantic=NOTHING)
        decision = await router.route("error")
    assert (decision.agent, decision.method, decision.confidence) == ("debugger", "rule", 56)
    assert decision.reason.endswith("no other stage has anything to say")


async def test_a_failed_semantic_stage_is_recorded_and_skipped() -> None:
    with ScriptedModel([transfer("writer", reason="x")]) as model:
        decision = await Router(TEAM, model=model, semantic=Broken()).route("error")
    assert decision.agent == "writer"
    assert decision.stages[1].reason == "semantic routing failed: RuntimeError: no vectors today"


@pytest.mark.parametrize("sure", [True, False])
async def test_semantic_takes_a_match_above_its_threshold(sure: bool) -> None:
    router = Router(TEAM, semantic=Guess(("writer", 60), sure=sure))
    decision = await router.route("error", strategy="semantic")
    assert (decision.agent, decision.confidence) == ("writer", 60)
    assert [stage.method for stage in decision.stages] == ["semantic"]


async def test_llm_asks_the_model_without_other_stages() -> None:
    guess = Guess(("debugger", 99), sure=True)
    with ScriptedModel([transfer("writer", reason="x")]) as model:
        router = Router(TEAM, model=model, semantic=guess)
        decision = await router.route("error", strategy="llm")
    assert decision.agent == "writer"
    assert guess.asked == []


async def test_llm_without_a_model_gives_advice() -> None:
    decision = await Router(TEAM).route("error", strategy="llm")
    assert decision.agent is None
    assert "set agents.routing.llm.model" in decision.reason


async def test_the_model_of_the_settings_overrides_that_of_the_team() -> None:
    settings = RoutingSettings(strategy="llm", llm=LlmSettings(model="nowhere:x"))
    with ScriptedModel() as model:
        decision = await Router(TEAM, settings=settings, model=model).route("x")
    assert "'nowhere'" in decision.reason


async def test_of_too_many_agents_those_found_by_rules_and_meaning_are_offered() -> None:
    agents = [Agent(f"a{i:03}") for i in range(100)]
    agents.append(Agent("z-rule", triggers=Triggers(keywords=("x",), priority=1)))
    agents.append(Agent("z-other", triggers=Triggers(priority=0)))
    with ScriptedModel([transfer("z-other", reason="x")]) as model:
        router = Router(agents, model=model, semantic=Guess(("z-other", 20)))
        decision = await router.route("x y", strategy="llm")
    assert decision.agent == "z-other"
    assert "38 were left out" in decision.reason
    assert [stage.method for stage in decision.stages] == ["rule", "semantic", "llm"]


@pytest.mark.parametrize("strategy", ["rule", "semantic", "llm", "hybrid"])
@pytest.mark.parametrize("text", ["", " \n\u3000"])
async def test_an_empty_request_has_no_agent(strategy: Any, text: str) -> None:
    with ScriptedModel() as model:
        router = Router(TEAM, model=model, semantic=Guess(("writer", 99), sure=True))
        decision = await router.route(text, strategy=strategy)
    assert (decision.agent, decision.reason) == (None, "the request is empty")


async def test_excluded_agents_are_never_chosen() -> None:
    guess = Guess(("debugger", 99), ("writer", 50), sure=True)
    with ScriptedModel() as model:
        router = Router(TEAM, model=model, semantic=guess)
        decision = await router.route("error TS1", exclude=["debugger"])
        assert decision.agent == "writer"
        nobody = await router.route("error", exclude=["debugger", "writer"])
    assert nobody.reason == "there are no agents to choose from"


async def test_a_router_without_agents_chooses_none() -> None:
    assert (await Router([]).route("x")).reason == "there are no agents to choose from"
    assert (await Router([SYSTEM]).route("error")).agent is None


async def test_a_long_text_is_routed_by_its_beginning() -> None:
    decision = await Router(TEAM, semantic=NOTHING).route("crash " + "so " * 20_000)
    assert decision.agent == "debugger"
    assert "only the first 20,000" in decision.reason


async def test_concurrent_requests_get_their_own_decisions() -> None:
    router = Router(TEAM, semantic=NOTHING)
    texts = ["crash", "text", "nothing"] * 30
    decisions = await asyncio.gather(*(router.route(text) for text in texts))
    assert [d.agent for d in decisions] == ["debugger", "writer", None] * 30


async def test_a_decision_is_converted_to_json() -> None:
    guess = Guess(("writer", 93), sure=True)
    data = (await Router(TEAM, semantic=guess).route("error")).to_json()
    assert json.loads(json.dumps(data)) == data
    assert list(data) == [
        "agent", "method", "confidence", "matched_keywords", "matched_patterns", "candidates",
        "reason", "elapsed_ms", "strategy", "cause", "stages",
    ]  # fmt: skip
    assert data["candidates"][0] == {
        "agent": "writer",
        "score": 0.93,
        "confidence": 93,
        "method": "semantic",
        "matched_keywords": ["error"],
    }


async def test_usage_and_context_of_the_model_are_in_the_json() -> None:
    with ScriptedModel([transfer("writer", reason="x", context="c")]) as model:
        data = (await Router(TEAM, model=model).route("x", strategy="llm")).to_json()
    assert data["usage"] == {"requests": 1}
    assert data["context"] == "c"


async def test_the_strategy_of_the_settings_is_used_unless_another_is_given() -> None:
    router = Router(TEAM, settings=RoutingSettings(strategy="rule"))
    assert (await router.route("crash")).strategy == "rule"
    with pytest.raises(UserError, match="'hybird'; did you mean 'hybrid'?.*rule, semantic"):
        await router.route("crash", strategy="hybird")


async def test_only_text_can_be_routed() -> None:
    with pytest.raises(UserError, match="must be text, not bytes"):
        await Router(TEAM).route(b"x")


async def test_two_agents_with_one_name_are_refused() -> None:
    assert (await Router([DEBUGGER, DEBUGGER]).route("crash", strategy="rule")).agent == "debugger"
    with pytest.raises(UserError, match="two different agents are called 'debugger'"):
        Router([DEBUGGER, Agent("debugger")])


def test_an_object_that_is_no_agent_is_refused() -> None:
    wrong: Any = ["debugger"]
    with pytest.raises(UserError, match="not 'debugger'"):
        Router(wrong)


def test_the_name_of_the_router_is_reserved() -> None:
    with pytest.raises(UserError, match="name of the router itself"):
        Router([Agent("router-agent")])


async def test_a_team_that_contains_its_router_can_be_routed_again() -> None:
    router = Router(TEAM)
    team = Team(router.agent, *TEAM)
    again = Router(team)
    assert (await again.route("crash", strategy="rule")).agent == "debugger"
    with pytest.raises(UnknownAgent):
        again.named("router-agent")


def test_the_agent_of_the_router_is_a_system_agent() -> None:
    router = Router(TEAM)
    assigner: Assigner = router
    assert router.agent.router is assigner
    assert router.agent is router.agent
    assert (router.agent.name, router.agent.scope) == ("router-agent", "system")


def test_a_person_may_name_an_agent() -> None:
    decision = Router(TEAM).named("writer")
    assert (decision.agent, decision.method, decision.confidence) == ("writer", "named", 100)
    assert decision.cause == "named"
    with pytest.raises(UnknownAgent, match="writter"):
        Router(TEAM).named("writter")


def test_importing_routing_loads_nothing_heavy() -> None:
    code = (
        "import ekiden.routing, sys; from ekiden.routing import RoutingSettings, RouteDecision; "
        "print([name for name in ('re2', 'numpy', 'ahocorasick_rs') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
