"""The router in a team: fallbacks, and when an agent loses a conversation it has."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden import Agent, Runner, Session, Team, UserError
from ekiden.core.errors import NoRoute
from ekiden.core.profile import Triggers
from ekiden.routing import Fallback, Router, RoutingSettings, RuleSettings, StickySettings
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer
from tests.unit.routing.doubles import DEBUGGER, NOTHING, TEAM, WRITER, Guess


def settings(fallback: Fallback = "prompt_user", **options: Any) -> RoutingSettings:
    return RoutingSettings(fallback=fallback, **options)


async def test_an_assignment_contains_the_complete_decision() -> None:
    given = await Router(TEAM, semantic=NOTHING).assign("a crash", cause="new")
    assert given.agent == "debugger"
    assert given.reply is None
    assert given.details["matched_keywords"] == ["crash"]
    assert given.details["cause"] == "new"


async def test_the_options_of_a_request_may_name_the_strategy() -> None:
    guess = Guess(("writer", 99), sure=True)
    router = Router(TEAM, semantic=guess)
    given = await router.assign("a crash", cause="asked", options={"strategy": "rule"})
    assert given.agent == "debugger"
    assert (given.details["strategy"], given.details["cause"]) == ("rule", "asked")
    assert (await router.assign("an error", cause="asked", options={})).agent == "writer"


async def test_an_agent_that_gave_up_is_not_chosen_again() -> None:
    router = Router(TEAM, semantic=NOTHING)
    given = await router.assign("an error", cause="gave_up", excluded={"debugger"})
    assert given.agent == "writer"


async def test_without_a_match_the_reply_lists_the_agents() -> None:
    given = await Router(TEAM, semantic=NOTHING).assign("hm", cause="new")
    assert given.agent is None
    assert given.reply == (
        "No agent clearly matches this request. Name one at the beginning of a message, as in "
        "`@debugger …`:\n"
        "- @debugger: Finds faults.\n"
        "- @writer: Writes"
    )


async def test_only_five_of_many_agents_are_listed() -> None:
    agents = [Agent(f"a{i:02}", description="line\n\x1b[0m" + "x" * 500) for i in range(33)]
    given = await Router(agents, semantic=NOTHING).assign("hm", cause="new", excluded={"a00"})
    assert given.reply is not None
    lines = given.reply.split("\n")
    assert len(lines) == 7
    assert lines[1].startswith("- @a01: line [0mxxx")
    assert all(len(line) < 120 for line in lines)
    assert lines[-1] == "… and 27 more"


async def test_without_any_agent_left_the_reply_says_so() -> None:
    given = await Router(TEAM).assign("x", cause="gave_up", excluded={"debugger", "writer"})
    assert given.reply == "No agent can take this request."


async def test_the_fallback_none_gives_no_reply() -> None:
    router = Router(TEAM, settings=settings("none"), semantic=NOTHING)
    given = await router.assign("hm", cause="new")
    assert (given.agent, given.reply) == (None, None)
    assert "no keyword or pattern matches" in given.details["reason"]


@pytest.mark.parametrize("text", ["hm", ""])
async def test_the_default_agent_gets_requests_without_a_match(text: str) -> None:
    router = Router(
        TEAM, settings=settings("default_agent", default_agent="writer"), semantic=NOTHING
    )
    decision = await router.route(text)
    assert (decision.agent, decision.method, decision.confidence) == ("writer", "default", 0)
    assert decision.reason.endswith("so the default agent takes it")
    assert decision.candidates[0].agent == "writer"
    assert (await router.route("crash")).agent == "debugger"


async def test_a_default_agent_that_gave_up_is_not_chosen_again() -> None:
    router = Router(
        TEAM, settings=settings("default_agent", default_agent="writer"), semantic=NOTHING
    )
    given = await router.assign("hm", cause="gave_up", excluded={"writer"})
    assert given.agent is None
    assert given.reply is not None
    assert "@debugger" in given.reply


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "names none; known: debugger, writer"),
        ("writter", "did you mean 'writer'?"),
        ("auditor", "a system agent"),
    ],
)
def test_an_invalid_default_agent_is_refused_immediately(name: str | None, message: str) -> None:
    with pytest.raises(UserError) as raised:
        Router(TEAM, settings=settings("default_agent", default_agent=name))
    assert message in str(raised.value)


async def test_a_default_agent_is_checked_only_if_it_is_the_fallback() -> None:
    unused = settings("none", default_agent="of-another-project")
    given = await Router(TEAM, settings=unused, semantic=NOTHING).assign("hm", cause="new")
    assert (given.agent, given.reply) == (None, None)


async def test_the_agent_that_holds_a_conversation_keeps_it() -> None:
    guess = Guess(("writer", 99), sure=True)
    kept = await Router(TEAM, semantic=guess).keep("a text about an error", agent="debugger")
    assert kept.agent == "debugger"
    assert (kept.details["method"], kept.details["cause"]) == ("sticky", "kept")
    assert kept.details["stages"] == []
    assert guess.asked == []


def switching(threshold: int = 80) -> RoutingSettings:
    return RoutingSettings(
        sticky=StickySettings(switch=True), rule=RuleSettings(confidence_threshold=threshold)
    )


async def test_a_sure_rule_match_moves_a_conversation() -> None:
    router = Router(TEAM, settings=switching(), semantic=NOTHING)
    moved = await router.keep("error TS2304, a crash", agent="writer")
    assert moved.agent == "debugger"
    assert (moved.details["method"], moved.details["cause"]) == ("rule", "switched")
    assert moved.details["matched_keywords"] == ["error", "crash"]
    assert [stage["method"] for stage in moved.details["stages"]] == ["rule", "semantic"]


async def test_a_sure_semantic_match_with_a_margin_moves_a_conversation() -> None:
    guess = Guess(("writer", 80), ("debugger", 10), sure=True)
    router = Router(TEAM, settings=switching(), semantic=guess)
    moved = await router.keep("now a poem", agent="debugger")
    assert (moved.agent, moved.details["method"]) == ("writer", "semantic")


@pytest.mark.parametrize(
    ("text", "agent", "guess"),
    [
        ("", "writer", Guess(("debugger", 99), sure=True)),
        ("now a poem", "debugger", Guess(("writer", 80))),
        ("now a poem", "debugger", Guess(("writer", 55), ("debugger", 45), sure=True)),
        ("a crash", "debugger", Guess(("writer", 99), sure=True)),
        ("error TS2304", "debugger", Guess(("debugger", 99), sure=True)),
        ("an error", "writer", NOTHING),
    ],
    ids=["empty", "unsure", "close", "its own rules match", "itself", "weak rule"],
)
async def test_an_unsure_match_leaves_the_conversation(text: str, agent: str, guess: Guess) -> None:
    with ScriptedModel() as model:
        router = Router(TEAM, settings=switching(), model=model, semantic=guess)
        kept = await router.keep(text, agent=agent)
    assert (kept.agent, kept.details["cause"]) == (agent, "kept")


async def test_two_agents_with_similar_rule_scores_do_not_alternate() -> None:
    words = tuple(f"w{i}" for i in range(12))
    agents = [
        Agent("all", triggers=Triggers(keywords=words, priority=100)),
        Agent("most", triggers=Triggers(keywords=words, priority=95)),
    ]
    router = Router(agents, settings=switching(), semantic=NOTHING)
    assert (await router.keep(" ".join(words), agent="most")).agent == "most"


async def test_a_team_with_a_router_assigns_keeps_and_gives_up() -> None:
    session = Session("s", store=MemoryStore())
    script = [
        say("fixed"),
        say("still here"),
        transfer("router-agent", reason="not mine"),
        say("a poem"),
    ]
    with ScriptedModel(script) as model:
        debugger, writer = (agent.clone(model=model, handoffs=[]) for agent in (DEBUGGER, WRITER))
        router = Router([debugger, writer], semantic=NOTHING)
        debugger.handoffs.append(router.agent)
        team = Team(router.agent, debugger, writer)
        first = await Runner.run(team, "a crash", session=session)
        second = await Runner.run(team, "and what now?", session=session)
        third = await Runner.run(team, "a text with this error", session=session)
    assert [run.last_agent.name for run in (first, second, third)] == [
        "debugger",
        "debugger",
        "writer",
    ]
    routes = [event.details for event in await session.events() if event.type == "route"]
    assert [(each["agent"], each["cause"]) for each in routes if each] == [
        ("debugger", "new"),
        ("debugger", "kept"),
        ("debugger", "kept"),
        ("writer", "gave_up"),
    ]


async def test_a_run_without_a_match_asks_the_person_or_fails() -> None:
    asking = Router([DEBUGGER], semantic=NOTHING)
    result = await Runner.run(Team(asking.agent, DEBUGGER), "hm")
    assert "@debugger" in (result.final_output or "")
    failing = Router([DEBUGGER], settings=settings("none"), semantic=NOTHING)
    with pytest.raises(NoRoute, match="no keyword or pattern matches"):
        await Runner.run(Team(failing.agent, DEBUGGER), "hm")
