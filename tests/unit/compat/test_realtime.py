"""Live sessions through the door of the OpenAI Agents SDK: its module tree, our own objects."""

from __future__ import annotations

import importlib

import ekiden.integrations.realtime
from ekiden.compat.agents import realtime
from tests.support.cases import each_case

MODULES = (
    "agent config events handoffs items model model_events model_inputs openai_realtime runner "
    "session"
)


@each_case("name", MODULES.split())
def test_every_module_gives_what_the_package_gives(name: str) -> None:
    module = importlib.import_module(f"ekiden.compat.agents.realtime.{name}")
    for each in module.__all__:
        if each != "collect_enabled_handoffs":
            assert getattr(realtime, each) is getattr(module, each)


def test_the_objects_are_our_own() -> None:
    assert realtime.RealtimeAgent is ekiden.integrations.realtime.RealtimeAgent
    assert (
        realtime.OpenAIRealtimeWebSocketModel is ekiden.integrations.realtime.RealtimeWebSocketModel
    )
    assert (
        realtime.RealtimeSessionModelSettings is ekiden.integrations.realtime.RealtimeModelSettings
    )
