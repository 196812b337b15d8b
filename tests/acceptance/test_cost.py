"""`ekiden cost`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden

TEAM = """
from dataclasses import replace

from ekiden import Agent, Team
from ekiden.core.conversation.model import Usage
from ekiden.testing import ScriptedModel, say

USED = Usage(requests=1, input_tokens=1_000_000, output_tokens=100_000)

async def ask(ctx):
    return str(await ctx.ask("helper", ctx.text))

def model(name):
    return ScriptedModel(respond=lambda request: replace(say("this", usage=USED), model=name))

helper = Agent("helper", model=model("gpt-5-mini"))
clerk = Agent("clerk", model=model("house-model"))
team = Team(Agent("desk", run=ask), helper, clerk)
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sessions that used models."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "shop.py").write_text(TEAM)
    ekiden = Ekiden(folder)
    ekiden.env["EKIDEN_TEAM"] = "shop:team"
    assert ekiden("run", "--session", "s1", "@desk hello").code == 0
    assert ekiden("run", "--session", "s2", "@clerk hello").code == 0
    return folder


@pytest.fixture
def desk(ekiden: Ekiden, stored: Path) -> Ekiden:
    """The command, with these sessions."""
    shutil.copytree(stored, ekiden.folder, dirs_exist_ok=True)
    return ekiden


def test_total_cost_is_shown_with_models_of_unknown_price(desk: Ekiden) -> None:
    ran = desk("cost")
    assert ran.code == 0
    header, *rows = [line.split() for line in ran.out.splitlines()]
    assert header == ["agent", "model", "calls", "input", "cached", "output", "cost"]
    assert rows == [
        ["helper", "gpt-5-mini", "1", "1,000,000", "0", "100,000", "0.450000"],
        ["clerk", "house-model", "1", "1,000,000", "0", "100,000", "?"],
        ["all", "2", "2,000,000", "0", "200,000", "0.450000", "+", "?"],
    ]
    assert "the price of 1 calls of house-model is unknown" in ran.err


@pytest.mark.slow
def test_the_cost_of_a_session_is_the_cost_of_its_agents(desk: Ekiden) -> None:
    report = desk("cost", "s1", "--by", "agent", "--json").json
    assert [(line["agent"], line["cost"]) for line in report["lines"]] == [("helper", 0.45)]
    assert desk("cost", "nope").code == 5


@pytest.mark.slow
def test_prices_in_the_settings_override_built_in_prices(desk: Ekiden) -> None:
    prices = {"x:house-model": {"input": 1, "output": 10}, "gpt-5-mini": {"input": 0, "output": 0}}
    assert desk("config", "set", "prices", json.dumps(prices)).code == 0
    report = desk("cost", "--by", "model", "--json").json
    assert {line["model"]: line["cost"] for line in report["lines"]} == {
        "house-model": 2.0,
        "gpt-5-mini": 0.0,
    }
    assert report["unpriced_models"] == []
    assert desk("config", "get", "prices", "--json").json["gpt-5-mini"] == {"input": 0, "output": 0}


@pytest.mark.slow
def test_calls_can_be_grouped_and_filtered_by_time(desk: Ekiden) -> None:
    by_day = desk("cost", "--by", "day", "--json").json
    assert by_day["total"]["requests"] == by_day["lines"][0]["requests"] == 2
    by_two = desk("cost", "--by", "session", "--by", "model", "--json").json
    assert len(by_two["lines"]) == 2
    assert desk("cost", "--since", "7d", "--json").json["total"]["requests"] == 2
    assert desk("cost", "--since", "2999-01-01").out == "there were no model calls\n"
    assert desk("cost", "--since", "noon").code == 2
    assert desk("cost", "--by", "agent", "--by", "agent").code == 2
    assert desk("cost", "--by", "colour").code == 2
