"""Finding agents by what they can do."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import pytest

from ekiden import Agent
from ekiden.capabilities import CapabilityMatcher, Fit, Match
from ekiden.core.agent import Team
from ekiden.core.documents import to_json
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.core.profile import Capability
from ekiden.core.values import dumps


def skill(name: str, proficiency: float = 1.0, *tags: str) -> Capability:
    return Capability(name=name, proficiency=proficiency, tags=tags)


@pytest.fixture
def matcher() -> CapabilityMatcher:
    """Three who write code, more or less."""
    made = CapabilityMatcher()
    made.register("ada", [skill("python", 0.9, "code"), skill("sql", 0.7, "data")])
    made.register("bob", [skill("python", 0.4, "code"), skill("翻译", 1.0)])
    made.register("eve", [skill("rust", 0.8, "code", "systems"), skill("go", 0.6, "code")])
    return made


def names(found: list[Match]) -> list[str]:
    return [match.agent for match in found]


def test_the_score_is_the_mean_proficiency_with_zero_for_missing_ones(
    matcher: CapabilityMatcher,
) -> None:
    ada, bob = matcher.find(["python", "sql"], min_score=0.1)
    assert (ada.agent, ada.score) == ("ada", pytest.approx(0.8))
    assert (ada.matched, ada.missing, ada.by) == (("python", "sql"), (), "name")
    assert (bob.agent, bob.score) == ("bob", pytest.approx(0.2))
    assert (bob.matched, bob.missing) == (("python",), ("sql",))


def test_an_agent_below_the_minimum_score_is_skipped(matcher: CapabilityMatcher) -> None:
    assert names(matcher.find(["python"])) == ["ada"]
    assert names(matcher.find(["python"], min_score=0.4)) == ["ada", "bob"]
    assert names(matcher.find(["python"], min_score=0)) == ["ada", "bob", "eve"]


def test_an_excluded_agent_is_not_found(matcher: CapabilityMatcher) -> None:
    assert matcher.find(["python"], exclude=["ada", "stranger"]) == []


def test_the_limit_bounds_the_number_of_matches(matcher: CapabilityMatcher) -> None:
    assert names(matcher.find(["code"], min_score=0, limit=2)) == ["ada", "eve"]


def test_a_tag_matches_a_required_name(matcher: CapabilityMatcher) -> None:
    [eve] = matcher.find(["systems"])
    assert eve.fits == (Fit(required="systems", capability="rust", proficiency=0.8, by="tag"),)
    assert eve.by == "tag"


def test_the_most_proficient_capability_with_a_tag_counts(matcher: CapabilityMatcher) -> None:
    eve = next(match for match in matcher.find(["code"]) if match.agent == "eve")
    assert (eve.fits[0].capability, eve.score) == ("rust", 0.8)


def test_a_name_is_preferred_to_a_tag_of_the_same_agent() -> None:
    matcher = CapabilityMatcher()
    matcher.register("ada", [skill("code", 0.6), skill("python", 0.9, "code")])
    matcher.register("eve", [skill("rust", 0.8, "code")])
    eve, ada = matcher.find(["code"])
    assert (eve.agent, eve.by) == ("eve", "tag")
    assert (ada.score, ada.by) == (0.6, "name")


def test_a_requirement_may_name_a_tag_only() -> None:
    matcher = CapabilityMatcher()
    matcher.register("ada", [skill("code", 1.0), skill("python", 0.7, "Code")])
    [ada] = matcher.find(["tag:code"])
    assert (ada.matched, ada.score, ada.by) == (("tag:code",), 0.7, "tag")


def test_names_match_in_every_width_and_script(matcher: CapabilityMatcher) -> None:
    assert names(matcher.find(["ＰＹＴＨＯＮ"])) == ["ada"]
    assert names(matcher.find(["翻译"])) == ["bob"]


def test_a_repeated_requirement_counts_once(matcher: CapabilityMatcher) -> None:
    [ada] = matcher.find(["Python", "python", "sql"])
    assert (ada.score, ada.matched) == (pytest.approx(0.8), ("Python", "sql"))


def test_the_better_of_two_capabilities_with_one_name_counts() -> None:
    matcher = CapabilityMatcher()
    matcher.register("ada", [skill("SQL", 0.5), skill("sql", 0.9), skill("sql", 0.2)])
    [ada] = matcher.find(["sql"])
    assert ada.score == 0.9


def test_equal_scores_are_ordered_by_availability_load_and_name() -> None:
    matcher = CapabilityMatcher()
    for name, available, load in [
        ("dora", True, 0.0),
        ("carl", True, 0.0),
        ("busy", True, 3.0),
        ("away", False, 0.0),
    ]:
        matcher.register(name, [skill("sql")], available=available, load=load)
    matcher.register("star", [skill("sql", 1.0)], load=9.0)
    assert names(matcher.find(["sql"])) == ["carl", "dora", "busy", "star", "away"]
    assert names(matcher.find(["sql"], available_only=True)) == ["carl", "dora", "busy", "star"]


def test_equal_means_compare_equal_despite_rounding() -> None:
    matcher = CapabilityMatcher()
    grades = (0.1, 0.2, 0.3)
    matcher.register("b", [skill(n, p) for n, p in zip("xyz", grades, strict=True)])
    matcher.register("a", [skill(n, p) for n, p in zip("xyz", reversed(grades), strict=True)])
    a, b = matcher.find("xyz".replace("", " ").split(), min_score=0)
    assert (a.agent, a.score) == ("a", b.score)


def test_best_returns_an_available_agent(matcher: CapabilityMatcher) -> None:
    found = matcher.best(["code"], min_score=0)
    assert found is not None
    assert found.agent == "ada"
    matcher.set_status("ada", available=False)
    found = matcher.best(["code"], min_score=0)
    assert found is not None
    assert found.agent == "eve"
    assert matcher.best(["code"], exclude=["eve"]) is None
    assert matcher.best(["gardening"]) is None


def test_set_status_changes_only_the_given_fields(matcher: CapabilityMatcher) -> None:
    matcher.set_status("ada", load=2)
    matcher.set_status("ada", available=False)
    matcher.set_status("ada")
    [ada] = matcher.find(["sql"])
    assert (ada.available, ada.load) == (False, 2)


def test_availability_and_load_callbacks_override_the_status() -> None:
    free, loads = {"ada": False, "eve": True}, {"ada": 0.0, "eve": 5.0}
    matcher = CapabilityMatcher(availability=free.__getitem__, load=loads.__getitem__)
    matcher.register("ada", [skill("sql")], available=True, load=7)
    matcher.register("eve", [skill("sql")], available=False, load=7)
    eve, ada = matcher.find(["sql"])
    assert (eve.agent, eve.available, eve.load) == ("eve", True, 5.0)
    assert (ada.available, ada.load) == (False, 0.0)
    free["ada"] = True
    assert names(matcher.find(["sql"])) == ["ada", "eve"]


def test_callbacks_are_called_only_for_matching_agents() -> None:
    asked: list[str] = []

    def available(agent: str) -> bool:
        asked.append(agent)
        return True

    matcher = CapabilityMatcher(availability=available)
    matcher.register("ada", [skill("sql")])
    matcher.register("eve", [skill("rust")])
    matcher.find(["sql"])
    assert asked == ["ada"]


def test_a_callback_that_returns_no_number_is_refused() -> None:
    matcher = CapabilityMatcher(load=lambda agent: nan)
    matcher.register("ada", [skill("sql")])
    with pytest.raises(UserError, match="load of agent 'ada'"):
        matcher.find(["sql"])


def test_an_empty_requirement_matches_every_agent(matcher: CapabilityMatcher) -> None:
    matcher.set_status("ada", available=False)
    found = matcher.find([], min_score=1)
    assert [(match.agent, match.score) for match in found] == [
        ("bob", 1.0),
        ("eve", 1.0),
        ("ada", 1.0),
    ]
    assert (found[0].matched, found[0].missing, found[0].by) == ((), (), "name")


def test_registering_again_replaces_capabilities_and_status(matcher: CapabilityMatcher) -> None:
    matcher.set_status("ada", available=False, load=4)
    matcher.register("ada", [skill("cooking")])
    assert matcher.find(["python", "sql"], min_score=0.3) == []
    [ada] = matcher.find(["cooking"])
    assert (ada.available, ada.load) == (True, 0.0)
    assert matcher.capabilities_of("ada") == (skill("cooking"),)


def test_an_unregistered_agent_is_not_found(matcher: CapabilityMatcher) -> None:
    matcher.unregister("ada")
    assert matcher.agents == ("bob", "eve")
    assert matcher.find(["sql"], min_score=0.1) == []
    assert matcher.find(["data"], min_score=0.1) == []


def test_later_changes_of_a_tag_list_have_no_effect() -> None:
    tags: Any = ["data"]
    matcher = CapabilityMatcher()
    matcher.register("ada", [Capability(name="sql", tags=tags)])
    tags[:] = ["other"]
    matcher.unregister("ada")
    assert matcher.find(["data"], min_score=0) == []


def test_an_unknown_agent_is_refused_with_a_suggestion(
    matcher: CapabilityMatcher,
) -> None:
    matcher.register("charlie", [])
    for call in (matcher.unregister, matcher.set_status, matcher.capabilities_of):
        with pytest.raises(UnknownAgent, match="did you mean 'charlie'"):
            call("charly")


@pytest.mark.parametrize("proficiency", [-0.1, 1.1, nan, inf, True, "0.5", None])
def test_an_invalid_proficiency_is_refused_and_nothing_changes(
    matcher: CapabilityMatcher, proficiency: Any
) -> None:
    with pytest.raises(UserError, match="Capability.proficiency must be a number from 0 to 1"):
        matcher.register("ada", [skill("go"), skill("rust", proficiency)])
    assert names(matcher.find(["python"])) == ["ada"]
    assert matcher.find(["go"], min_score=0.7) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": " "}, "Capability.name must be a name"),
        ({"name": "x", "tags": ("",)}, "Capability.tags must be a list of names"),
        ({"name": "x", "tags": "ab"}, r"list of names, not 'ab' \(str\): write \['ab'\]"),
    ],
)
def test_an_invalid_capability_is_refused_when_it_is_created(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        Capability(**fields)


@pytest.mark.parametrize("capabilities", [["python"], "python"])
def test_an_invalid_capability_is_refused_when_it_is_registered(
    matcher: CapabilityMatcher, capabilities: Any
) -> None:
    with pytest.raises(UserError):
        matcher.register("ada", capabilities)
    assert names(matcher.find(["python"])) == ["ada"]


@pytest.mark.parametrize("load", [nan, inf, -1, "much"])
def test_an_invalid_load_is_refused_and_nothing_changes(
    matcher: CapabilityMatcher, load: Any
) -> None:
    with pytest.raises(UserError, match="load"):
        matcher.register("ada", [], load=load)
    with pytest.raises(UserError, match="load"):
        matcher.set_status("ada", available=False, load=load)
    [ada] = matcher.find(["sql"])
    assert (ada.available, ada.load) == (True, 0.0)


@pytest.mark.parametrize(
    "options",
    [
        {"min_score": -0.1},
        {"min_score": 1.1},
        {"min_score": nan},
        {"min_score": "high"},
        {"limit": 0},
        {"limit": -1},
        {"exclude": "ada"},
    ],
)
def test_invalid_options_of_find_are_refused(
    matcher: CapabilityMatcher, options: dict[str, Any]
) -> None:
    with pytest.raises(UserError):
        matcher.find(["python"], **options)


def test_a_string_in_place_of_a_list_is_refused_with_advice(
    matcher: CapabilityMatcher,
) -> None:
    with pytest.raises(UserError, match=r"write \['python'\]"):
        matcher.find("python")


@pytest.mark.parametrize("name", ["", "  ", None])
def test_an_agent_needs_a_name(name: Any) -> None:
    with pytest.raises(UserError, match="name"):
        CapabilityMatcher().register(name, [])


def test_a_team_is_registered_without_its_system_agents() -> None:
    ada = Agent("ada", capabilities=(skill("sql", 0.9),))
    audit = Agent("audit", scope="system", capabilities=(skill("sql"),))
    loads = {"ada": 2.0}
    matcher = CapabilityMatcher.of(Team(ada, audit), load=loads.__getitem__)
    assert matcher.agents == ("ada",)
    [found] = matcher.find(["sql"])
    assert (found.score, found.load) == (0.9, 2.0)


def test_two_agents_with_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two agents are called 'ada'"):
        CapabilityMatcher.of([Agent("ada"), Agent("ada")])


def test_a_match_is_converted_to_json(matcher: CapabilityMatcher) -> None:
    [match] = matcher.find(["python", "data", "chess"], limit=1)
    assert json.loads(dumps(to_json(match))) == {
        "agent": "ada",
        "score": pytest.approx(1.6 / 3),
        "matched": ["python", "data"],
        "missing": ["chess"],
        "by": "tag",
        "fits": [
            {
                "required": "python",
                "capability": "python",
                "proficiency": 0.9,
                "by": "name",
                "similarity": None,
            },
            {
                "required": "data",
                "capability": "sql",
                "proficiency": 0.7,
                "by": "tag",
                "similarity": None,
            },
        ],
        "available": True,
        "load": 0.0,
    }
