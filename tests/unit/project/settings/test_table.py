"""The table of settings and the values they become are the same settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ekiden.core.checks.kinds import Choice, Flag, Number, Texts
from ekiden.core.errors import UnknownSetting
from ekiden.core.questions import EscalationStep
from ekiden.core.values import dumps, loads
from ekiden.project.settings import (
    SETTINGS,
    Setting,
    Settings,
    load_settings,
    set_setting,
    settings_schema,
)
from ekiden.project.settings.keys import Group, place_of
from tests.support.cases import each_case


def fields_of(instance: Any, above: str = "") -> Iterator[str]:
    """The dotted names of all fields that have no fields of their own."""
    for field in dataclasses.fields(instance):
        value, name = getattr(instance, field.name), f"{above}{field.name}"
        if dataclasses.is_dataclass(value):
            yield from fields_of(value, f"{name}.")
        else:
            yield name


def test_the_table_has_exactly_the_fields_of_settings() -> None:
    listed = [".".join(setting.attributes) for setting in SETTINGS]
    assert sorted(listed) == sorted(fields_of(Settings()))


@each_case("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_valid_value(setting: Setting) -> None:
    assert setting.kind.read(setting.default) == setting.default
    assert setting.meaning
    assert setting.kind.expects


def test_variables_are_unique_and_have_the_prefix_of_the_program() -> None:
    variables = [setting.env for setting in SETTINGS]
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


def test_a_group_lists_its_settings() -> None:
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
def test_an_unknown_name_is_refused_with_the_command_that_lists_all(name: str) -> None:
    with pytest.raises(UnknownSetting, match="`ekiden config list` lists all settings$") as caught:
        place_of(name)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("routing.stratgy", "routing.strategy"),
        ("chat.histroy", "chat.history"),
        ("Store", "store"),
        ("strategy", "agents.routing.strategy"),
    ],
)
def test_the_nearest_name_is_suggested(name: str, near: str) -> None:
    with pytest.raises(UnknownSetting) as caught:
        place_of(name)
    assert caught.value.near == near


_EXAMPLES: dict[str, tuple[str, object]] = {
    "prices": ('{"m": {"input": 1, "output": 2}}', {"m": {"input": 1.0, "output": 2.0}}),
    "limits.agents": ('{"a": {"tokens": 5}}', {"a": {"tokens": 5}}),
    "limits.tenants": ('{"*": {"money": 5}}', {"*": {"money": 5.0}}),
    "mcpServers": ('{"git": {"command": "git-mcp"}}', {"git": {"command": "git-mcp"}}),
    "inbox.escalation": ('[{"role": "lead", "after_s": 60}]', (EscalationStep("lead", 60.0),)),
    "team": ("desk.team:team", "desk.team:team"),
    "agents.routing.default_agent": ("裁判", "裁判"),
    "model": ("openai:other", "openai:other"),
    "agents.routing.llm.model": ("openai:other", "openai:other"),
    "memory.embedding_model": ("hashing", "hashing"),
    "server.origins": ('["https://a.example"]', ("https://a.example",)),
}


def example(setting: Setting) -> tuple[str, object]:
    """A value that is not the default: as a text, and as `Settings` has it."""
    kind = setting.kind
    if setting.name in _EXAMPLES:
        return _EXAMPLES[setting.name]
    match kind:
        case Flag():
            return str(not setting.default).lower(), not setting.default
        case Choice():
            words = [each for each in kind.words if each not in (setting.default, "default_agent")]
            return words[0], words[0]
        case Number():
            value = kind.high if setting.default != kind.high else kind.low
            return dumps(value), value
        case Texts():
            return '["a", "b"]', ("a", "b")
        case _:
            return "other", "other"


def test_every_setting_can_be_set_in_the_environment_and_in_a_file(tmp_path: Path) -> None:
    validator = jsonschema_rs.Draft202012Validator(settings_schema())
    for setting in SETTINGS:
        root, home = tmp_path / setting.name, tmp_path / "home"
        root.mkdir()
        text, value = example(setting)
        found = load_settings(root, environ={setting.env: text}, home=home)
        assert reduce(getattr, setting.attributes, found.settings) == value
        change = set_setting(setting.name, text, root=root, home=home)
        kept = load_settings(root, environ={}, home=home)
        assert reduce(getattr, setting.attributes, kept.settings) == value
        validator.validate(loads(change.path.read_text()))
