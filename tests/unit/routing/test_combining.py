"""A model that tells probabilities is weighed together with meaning."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from ekiden import Agent
from ekiden.core.conversation.model import ModelEvent, ModelRequest, ModelResponse, function_call
from ekiden.routing import RouteDecision, Router
from tests.unit.routing.doubles import Guess

TEAM = [Agent("billing"), Agent("travel")]


class Weighing:
    """Chooses the most probable tool and says how probable each is."""

    def __init__(self, probabilities: Any) -> None:
        self._probabilities = probabilities

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        told = self._probabilities
        best = max(told, key=told.get) if isinstance(told, Mapping) else "transfer_to_billing"
        call = function_call("c1", best, '{"reason": "so"}')
        call["provider_details"] = {"details": {"probabilities": told}}
        yield ModelResponse(output=[call])


def of(billing: float, travel: float, nobody: float = 0.0) -> dict[str, float]:
    names = ("transfer_to_billing", "transfer_to_travel", "transfer_to_nobody")
    return dict(zip(names, (billing, travel, nobody), strict=True))


async def route(told: Any, *guesses: tuple[str, int]) -> RouteDecision:
    return await Router(TEAM, model=Weighing(told), semantic=Guess(*guesses)).route("hm")


async def test_the_semantic_stage_outweighs_an_unsure_model() -> None:
    decision = await route(of(0.55, 0.45), ("travel", 60), ("billing", 30))
    assert (decision.agent, decision.method) == ("travel", "llm")
    assert "the model chose billing, meaning travel" in decision.reason
    assert [score.agent for score in decision.candidates] == ["travel", "billing"]


async def test_a_sure_model_outweighs_an_unsure_semantic_stage() -> None:
    decision = await route(of(0.98, 0.02), ("travel", 45), ("billing", 40))
    assert decision.agent == "billing"
    assert decision.confidence > 90
    assert "weighed together with meaning" in decision.reason


async def test_model_and_semantic_stage_can_agree_on_no_agent() -> None:
    decision = await route(of(0.1, 0.1, 0.8), ("travel", 20), ("billing", 10))
    assert decision.agent is None
    assert "no agent fits" in decision.reason


@pytest.mark.parametrize(
    "told",
    [
        {"transfer_to_billing": 1.0},
        of(7.0, 0.1),
        {**of(0.5, 0.5), "transfer_to_ghost": 0.1},
        "very likely",
        None,
    ],
)
async def test_invalid_probabilities_are_ignored(told: Any) -> None:
    decision = await route(told, ("travel", 60), ("billing", 30))
    assert (decision.agent, decision.confidence) == ("billing", 90)


async def test_without_a_semantic_stage_the_model_decides() -> None:
    decision = await route(of(0.55, 0.45))
    assert (decision.agent, decision.method) == ("billing", "llm")
