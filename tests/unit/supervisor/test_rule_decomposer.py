"""Requests split by keywords and patterns."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ekiden.core.errors import UserError
from ekiden.core.plan import Member, TaskDecomposition
from ekiden.supervisor import RuleDecomposer
from ekiden.supervisor.rule_decomposer import clauses
from tests.unit.supervisor.team import GENERAL, MEMBERS, TRAVEL, WEATHER


async def split(
    text: str, *, members: tuple[Member, ...] = MEMBERS, fallback: str | None = None, most: int = 20
) -> TaskDecomposition:
    return await RuleDecomposer(max_tasks=most).decompose(
        text, members=members, fallback=fallback, ask=None
    )


def told(plan: TaskDecomposition) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.agent, each.description, each.depends_on) for each in plan.tasks]


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("东京天气怎么样，100美元是多少日元？", [
            ("weather", "东京天气怎么样", ()),
            ("finance", "100美元是多少日元？", ()),
        ]),
        ("東京の天気と100 USDは何円ですか", [
            ("weather", "東京の天気", ()),
            ("finance", "100 USDは何円ですか", ()),
        ]),
        ("What's the weather in Kyoto and Osaka, and how much is 100 USD in yen?", [
            ("weather", "What's the weather in Kyoto and Osaka", ()),
            ("finance", "how much is 100 USD in yen?", ()),
        ]),
        ("Check the weather in Tokyo, then find a hotel. What is 3.5 plus 4?", [
            ("weather", "Check the weather in Tokyo", ()),
            ("travel", "find a hotel.", ("t1",)),
            ("general", "What is 3.5 plus 4?", ()),
        ]),
        ("查一下京都的天气，然后订一家酒店，再算一下100美元", [
            ("weather", "查一下京都的天气", ()),
            ("travel", "订一家酒店", ("t1",)),
            ("finance", "算一下100美元", ("t2",)),
        ]),
        ("京都の天気を教えて。それからホテルを探して", [
            ("weather", "京都の天気を教えて", ()),
            ("travel", "ホテルを探して", ("t1",)),
        ]),
        ("Weather in Rome and 5 eur in yen, and then a hotel and a flight", [
            ("weather", "Weather in Rome", ()),
            ("finance", "5 eur in yen", ()),
            ("travel", "a hotel and a flight", ("t1", "t2")),
        ]),
        ("what is 100 usd and 50 eur in yen", [
            ("finance", "what is 100 usd and 50 eur in yen", ()),
        ]),
        ("Hello! A hotel in St. Moritz. Thanks!", [
            ("travel", "Hello! A hotel in St. Moritz. Thanks!", ()),
        ]),
        ('say "weather and hotel" please', [
            ("weather", 'say "weather and hotel" please', ()),
        ]),
        ("Weather in Rome? Tell me a joke about cats.", [
            ("weather", "Weather in Rome?", ()),
            ("general", "Tell me a joke about cats.", ()),
        ]),
        ("Weather in Rome. Also, tell me a joke about cats. Thanks, bye", [
            ("weather", "Weather in Rome.", ()),
            ("general", "Also, tell me a joke about cats. Thanks, bye", ()),
        ]),
        ("tell me a joke", [("general", "tell me a joke", ())]),
        ("。。。", [("general", "。。。", ())]),
        ("Then what?", [("general", "Then what?", ())]),
    ],
)  # fmt: skip
async def test_a_request_is_split_where_another_member_matches(
    text: str, tasks: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    assert told(await split(text)) == tasks


async def test_a_part_without_a_match_goes_to_the_fallback_with_a_note() -> None:
    plan = await split("Weather in Rome? Tell me a joke about cats.", fallback="travel")
    assert plan.tasks[1].agent == "travel"
    assert plan.notes == (
        'no keyword or pattern matches "Tell me a joke about cats.": it goes to the '
        "fallback 'travel'",
    )


async def test_a_short_part_gets_the_complete_request_as_parameter() -> None:
    text = "Check the weather in Tokyo, then find a hotel there"
    weather, travel = (await split(text)).tasks
    assert (dict(weather.parameters), dict(travel.parameters)) == ({}, {"request": text})
    first, _ = (await split("weather and hotel prices in Rome")).tasks
    assert first.parameters["request"] == "weather and hotel prices in Rome"


async def test_words_match_whole_and_case_insensitively() -> None:
    assert (await split("TRAINING for RAIN dances")).tasks[0].agent == "weather"
    assert (await split("a training plan")).tasks[0].agent == "general"
    assert (await split("ｗｅａｔｈｅｒ in Rome")).tasks[0].agent == "weather"


async def test_names_and_capabilities_match_with_a_low_weight() -> None:
    assert (await split("any forecasts?")).tasks[0].agent == "weather"
    assert (await split("ask travel about it")).tasks[0].agent == "travel"
    plain = (Member(name="night-shift"), Member(name="rest"))
    assert (await split("for the night shift", members=plain)).tasks[0].agent == "night-shift"


async def test_too_many_parts_become_one_task_of_the_fallback() -> None:
    text = "weather. hotel. weather. hotel."
    assert len((await split(text)).tasks) == 4
    plan = await split(text, most=3)
    assert told(plan) == [("general", text, ())]
    assert "4 parts, at most 3" in plan.notes[0]


async def test_the_same_request_gives_the_same_plan() -> None:
    text = "Weather in Rome and then a hotel, and 5 eur in yen"
    assert told(await split(text)) == told(await split(text))
    assert [each.task_id for each in (await split(text)).tasks] == ["t1", "t2", "t3"]


async def test_members_and_a_request_are_required() -> None:
    with pytest.raises(UserError, match="no agent can receive tasks"):
        await split("hi", members=())
    with pytest.raises(UserError, match="not among the agents"):
        await split("hi", members=(WEATHER, TRAVEL), fallback="general")
    with pytest.raises(UserError, match="description"):
        await split("  ")
    with pytest.raises(UserError, match="cannot be used"):
        await split("hi", members=(Member(name="odd", patterns=("(",)), GENERAL))


@given(
    text=st.text(
        alphabet=st.sampled_from('a.,;!?\n 和と，。、“"`再然后then weather hotel'), max_size=60
    )
)
async def test_no_word_of_a_request_is_lost(text: str) -> None:
    parts = clauses(text)
    assert all(part.start < part.end for part in parts)
    assert all(one.end <= other.start for one, other in pairwise(parts))
    if text.strip():
        plan = await split(text)
        assert all(each.description in text for each in plan.tasks)


@pytest.mark.parametrize(
    "text",
    ["“" * 30_000, " " * 30_000 + "x", "." * 30_000 + "x", "St. " * 8_000, "和" * 30_000],
)
async def test_hostile_requests_are_split_in_linear_time(text: str) -> None:
    assert len(clauses(text)) <= 200
    assert len((await split(text)).tasks) == 1


async def test_a_lone_surrogate_is_accepted() -> None:
    assert (await split("weather \ud800 in Rome, a hotel \udfff too")).tasks[1].agent == "travel"
