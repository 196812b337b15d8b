"""Prices of models in the settings."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.project.run_tasks import config_of, prices_of
from ekiden.project.settings import Settings
from ekiden.project.settings.model import Prices
from ekiden.runtime import Price
from tests.support.cases import each_case


def test_prices_of_the_settings_are_converted_for_runs() -> None:
    given = {
        "openai:x": {"input": 1, "output": 2.5, "cached_input": None},
        "y": {"input": 0, "output": 0},
    }
    read: Any = Prices().read(given)
    settings = Settings(prices=read)
    assert prices_of(settings) == {
        "openai:x": Price(input=1.0, output=2.5),
        "y": Price(input=0.0, output=0.0),
    }
    assert config_of(settings).prices == prices_of(settings)
    cached: Any = Prices().read({"x": {"input": 1, "output": 2, "cached_input": 0.5}})
    assert prices_of(Settings(prices=cached))["x"].cached_input == 0.5


@each_case(
    ("prices", "problem"),
    [
        ([], "an object of models"),
        ({"m": 3}, "is a number"),
        ({"m": {"input": 1}}, "an object with other keys"),
        ({"m": {"input": 1, "output": 1, "other": 1}}, "an object with other keys"),
        ({"m": {"input": -1, "output": 1}}, 'whose "input" must be a number from 0'),
        ({"m": {"input": None, "output": 1}}, 'whose "input" has no value'),
        ({"m": {"input": 1, "output": "much"}}, 'whose "output" must be'),
        ({"": {"input": 1, "output": 1}}, "a model with an invalid name"),
        ({"a\nb": {"input": 1, "output": 1}}, "a model with an invalid name"),
        ({f"m{n}": {} for n in range(1001)}, "at most 1000 models"),
    ],
)
def test_invalid_prices_are_refused(prices: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Prices().read(prices)
