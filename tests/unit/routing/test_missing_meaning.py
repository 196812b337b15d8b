"""Semantic routing that is not there, is made late, or cannot be made."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.routing import Router, RoutingSettings, SemanticSettings
from ekiden.testing import ScriptedModel, transfer
from tests.unit.routing.doubles import TEAM, Guess

MISSING = "semantic routing is not installed: pip install 'ekiden[local]'"


def provide(monkeypatch: pytest.MonkeyPatch, made: Any) -> list[Any]:
    """Let the built-in stage be `made`, or raise it; the answer lists who asked for it."""
    asked: list[Any] = []

    def build(*args: Any, **options: Any) -> Any:
        asked.append((args, options))
        if isinstance(made, Exception):
            raise made
        return made

    module = SimpleNamespace(semantic_stage=build, SemanticStage=build)
    monkeypatch.setitem(sys.modules, "ekiden.routing.semantic", module)
    return asked


async def test_a_missing_semantic_package_is_no_match_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provide(monkeypatch, MISSING)
    router = Router(TEAM)
    decision = await router.route("crash", strategy="semantic")
    assert (decision.agent, decision.reason) == (None, MISSING)
    assert await router.prepare() == MISSING


async def test_hybrid_without_semantic_uses_rules_and_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provide(monkeypatch, MISSING)
    with ScriptedModel([transfer("writer", reason="x")]) as model:
        decision = await Router(TEAM, model=model).route("error")
    assert decision.agent == "writer"
    assert decision.stages[1].reason == MISSING


async def test_the_semantic_stage_is_created_once_in_a_thread_on_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where: list[threading.Thread] = []

    class Watched(Guess):
        def decide(self, text: str, **options: Any) -> Any:
            where.append(threading.current_thread())
            return super().decide(text, **options)

    asked = provide(monkeypatch, Watched(("writer", 99), sure=True))
    router = Router(TEAM)
    assert asked == []
    decisions = await asyncio.gather(*(router.route("hm") for _ in range(20)))
    assert {decision.agent for decision in decisions} == {"writer"}
    assert len(asked) == 1
    assert threading.main_thread() not in where
    assert await router.prepare() is None
    assert len(asked) == 1


async def test_a_custom_embedder_is_used_with_the_threshold_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = provide(monkeypatch, Guess(("writer", 99), sure=True))
    embedder: Any = object()
    settings = RoutingSettings(semantic=SemanticSettings(threshold=0.7))
    router = Router(TEAM, settings=settings, embedder=embedder)
    assert await router.prepare() is None
    [(args, options)] = asked
    assert [agent.name for agent in args[0]] == ["debugger", "writer"]
    assert args[1] is embedder
    assert options == {"threshold": 0.7, "sure_at": 80}


async def test_semantic_routing_without_numpy_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provide(monkeypatch, ModuleNotFoundError("No module named 'numpy'", name="numpy"))
    decision = await Router(TEAM).route("crash", strategy="semantic")
    assert decision.reason == "semantic routing needs numpy: pip install 'ekiden[local]'"


async def test_a_semantic_stage_that_fails_to_start_is_reported_and_not_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = provide(monkeypatch, OSError("the weights are damaged"))
    router = Router(TEAM)
    for _ in range(2):
        decision = await router.route("error")
        assert decision.agent == "debugger"
        assert decision.stages[1].reason == (
            "semantic routing cannot be set up: OSError: the weights are damaged"
        )
    assert len(asked) == 1
