"""What holds for every registry and every question."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ekiden.capabilities import CapabilityMatcher, Match, missing_capabilities
from ekiden.core.profile import Capability
from tests.support.examples import examples

AGENTS = st.sampled_from(["ada", "bob", "eve", "李雷", "zoë"])
WORDS = st.sampled_from(["sql", "SQL", "code-review", "code_review", "翻译", "コード", "go", "x y"])
REQUIRED = st.lists(WORDS | WORDS.map("tag:{}".format), max_size=5)
SHARES = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
CAPABILITIES = st.lists(
    st.builds(
        Capability,
        name=WORDS,
        proficiency=SHARES,
        tags=st.lists(WORDS, max_size=2).map(tuple),
    ),
    max_size=4,
)
LOADS = st.sampled_from([0.0, 0.5, 3.0])
REGISTRIES = st.dictionaries(AGENTS, st.tuples(CAPABILITIES, st.booleans(), LOADS))
Registry = dict[str, tuple[list[Capability], bool, float]]


def plain(name: str) -> str:
    return name.lower().replace("-", " ").replace("_", " ")


def grade(required: str, capabilities: list[Capability]) -> float | None:
    """What an agent's capabilities are worth for one name, the slow way."""
    key = plain(required)
    tag = key.removeprefix("tag:")
    named = [each.proficiency for each in capabilities if plain(each.name) == key]
    tagged = [each.proficiency for each in capabilities if tag in map(plain, each.tags)]
    return max(named or tagged, default=None)


def expected(registry: Registry, required: list[str], min_score: float) -> list[tuple[str, float]]:
    """Who is found, in order, with the scores."""
    names = {plain(name) for name in required}
    found = []
    for agent, (capabilities, available, load) in registry.items():
        grades = [Fraction(grade(name, capabilities) or 0.0) for name in names]
        score = float(sum(grades, Fraction())) / len(names) if names else 1.0
        if score >= min_score:
            found.append((-score, not available, load, agent))
    return [(agent, abs(score)) for score, _, _, agent in sorted(found)]


def made_of(registry: Registry) -> CapabilityMatcher:
    matcher = CapabilityMatcher()
    for agent, (capabilities, available, load) in registry.items():
        matcher.register(agent, capabilities, available=available, load=load)
    return matcher


def check(match: Match, required: list[str], capabilities: list[Capability]) -> None:
    assert 0 <= match.score <= 1
    assert set(match.matched) | set(match.missing) == set(first_of(required))
    assert not set(match.matched) & set(match.missing)
    assert match.missing == missing_capabilities(required, capabilities)
    for fit in match.fits:
        assert fit.proficiency == grade(fit.required, capabilities)


def first_of(required: list[str]) -> list[str]:
    """Each name once, in its first spelling."""
    seen: dict[str, str] = {}
    for name in required:
        seen.setdefault(plain(name), name)
    return list(seen.values())


@given(REGISTRIES, REQUIRED, SHARES)
def test_matches_equal_a_direct_implementation_of_the_definition(
    registry: Registry, required: list[str], min_score: float
) -> None:
    found = made_of(registry).find(required, min_score=min_score)
    slow = expected(registry, required, min_score)
    assert [(match.agent, match.score) for match in found] == slow
    for match in found:
        check(match, required, registry[match.agent][0])


@given(REGISTRIES, REQUIRED, SHARES)
def test_the_order_of_registration_and_requirements_does_not_matter(
    registry: Registry, required: list[str], min_score: float
) -> None:
    shuffled = dict(reversed([(a, (c[::-1], v, w)) for a, (c, v, w) in registry.items()]))
    one = made_of(registry).find(required, min_score=min_score)
    assert made_of(shuffled).find(required, min_score=min_score) == one
    other = made_of(registry).find(first_of(required)[::-1], min_score=min_score)
    assert [(m.agent, m.score) for m in other] == [(m.agent, m.score) for m in one]


@given(REGISTRIES, REQUIRED, SHARES, st.sets(AGENTS), st.integers(1, 4))
def test_exclusion_and_limit_leave_the_other_matches_unchanged(
    registry: Registry, required: list[str], min_score: float, excluded: set[str], limit: int
) -> None:
    matcher = made_of(registry)
    everybody = matcher.find(required, min_score=min_score)
    others = matcher.find(required, min_score=min_score, exclude=excluded)
    assert others == [match for match in everybody if match.agent not in excluded]
    assert matcher.find(required, min_score=min_score, limit=limit) == everybody[:limit]
    available = [match for match in others if match.available]
    found = matcher.find(required, min_score=min_score, exclude=excluded, available_only=True)
    assert found == available
    best = matcher.best(required, min_score=min_score, exclude=excluded)
    assert best == (available[0] if available else None)


class Registering(RuleBasedStateMachine):
    """A matcher that agents come to and leave, beside a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.matcher = CapabilityMatcher()
        self.registry: Registry = {}

    @rule(agent=AGENTS, capabilities=CAPABILITIES, available=st.booleans(), load=LOADS)
    def register(
        self, agent: str, capabilities: list[Capability], available: bool, load: float
    ) -> None:
        self.matcher.register(agent, capabilities, available=available, load=load)
        self.registry[agent] = (capabilities, available, load)

    @rule(agent=AGENTS)
    def unregister(self, agent: str) -> None:
        if self.registry.pop(agent, None) is not None:
            self.matcher.unregister(agent)

    @rule(agent=AGENTS, available=st.none() | st.booleans(), load=st.none() | LOADS)
    def set_status(self, agent: str, available: bool | None, load: float | None) -> None:
        if agent in self.registry:
            capabilities, was, had = self.registry[agent]
            self.matcher.set_status(agent, available=available, load=load)
            self.registry[agent] = (
                capabilities,
                was if available is None else available,
                had if load is None else load,
            )

    @rule(required=REQUIRED, min_score=SHARES)
    def find(self, required: list[str], min_score: float) -> None:
        found = self.matcher.find(required, min_score=min_score)
        slow = expected(self.registry, required, min_score)
        assert [(match.agent, match.score) for match in found] == slow
        for match in found:
            capabilities, available, load = self.registry[match.agent]
            assert (match.available, match.load) == (available, load)
            check(match, required, capabilities)

    @invariant()
    def knows_everybody(self) -> None:
        assert self.matcher.agents == tuple(sorted(self.registry))
        for agent, (capabilities, _, _) in self.registry.items():
            assert self.matcher.capabilities_of(agent) == tuple(capabilities)


TestRegistering = Registering.TestCase
TestRegistering.settings = settings(max_examples=examples(30), stateful_step_count=30)
