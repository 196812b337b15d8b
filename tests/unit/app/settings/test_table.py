"""The table of settings and the values they become are the same settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.app.settings import SETTINGS, Setting, Settings
from ekiden.app.settings.places import Group, place_of
from ekiden.core.errors import UnknownSetting
from tests.support.cases import each_case


def fields_of(instance: Any, above: str = "") -> Iterator[str]:
    """The dotted names of all fields that have no fields of their own."""
    for field in dataclasses.fields(instance):
        value, name = getattr(instance, field.name), f"{above}{field.name}"
        if dataclasses.is_dataclass(value):
            yield from fields_of(value, f"{name}.")
        else:
            yield name


def test_the_table_has_exactly_what_settings_has() -> None:
    listed = [".".join(setting.attributes) for setting in SETTINGS]
    assert sorted(listed) == sorted(fields_of(Settings()))


@each_case("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_value_that_may_be_set(setting: Setting) -> None:
    assert setting.kind.read(setting.default) == setting.default
    assert setting.meaning
    assert setting.kind.expects


def test_variables_are_named_after_the_program_and_are_different() -> None:
    variables = [setting.env for setting in SETTINGS if setting.env]
    assert all(variable.startswith("EKIDEN_") for variable in variables)
    assert len(set(variables)) == len(variables)


@each_case(
    ("written", "meant"),
    [
        ("model", "model"),
        ("agents.routing.rule.confidence_threshold", "agents.routing.rule.confidence_threshold"),
        ("agents.routing.rule.confidenceThreshold", "agents.routing.rule.confidence_threshold"),
        ("routing.strategy", "agents.routing.strategy"),
        ("routing", "agents.routing"),
        ("tools.httpGet.maxBytes", "tools.http_get.max_bytes"),
        ("mcpServers", "mcpServers"),
        ("mcp_servers.github", "mcpServers.github"),
        ("mcpServers.my.server", "mcpServers.my.server"),
        ("mcpServers.検索 server", "mcpServers.検索 server"),
    ],
)
def test_names_may_be_short_and_in_either_case(written: str, meant: str) -> None:
    assert place_of(written).name == meant


def test_a_group_knows_the_settings_in_it() -> None:
    group = place_of("tools.shell")
    assert isinstance(group, Group)
    assert [each.name for each in group.settings()] == [
        "tools.shell.allow",
        "tools.shell.timeout",
        "tools.shell.max_bytes",
    ]


@each_case(
    "name",
    [
        "",
        ".",
        "modell",
        "Model",
        "model.x",
        "agents.",
        "agents..routing",
        "mcpServers.",
        "mcpServers.\x1b",
        f"mcpServers.{'x' * 101}",
        "routing.routing",
        "x" * 100_000,
    ],
)
def test_a_name_that_means_nothing_is_refused_with_all_there_are(name: str) -> None:
    with pytest.raises(UnknownSetting) as caught:
        place_of(name)
    assert all(setting.name in str(caught.value) for setting in SETTINGS)


@pytest.mark.parametrize(
    ("name", "near"),
    [("routing.stratgy", "routing.strategy"), ("chat.histroy", "chat.history"), ("Store", "store")],
)
def test_the_nearest_name_is_suggested(name: str, near: str) -> None:
    with pytest.raises(UnknownSetting) as caught:
        place_of(name)
    assert caught.value.near == near
