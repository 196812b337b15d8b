"""What `run` or `serve` would refuse is refused where it is set, from wherever it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ekiden.core.errors import SettingsInvalid
from ekiden.models.providers import BUILT_IN, LOCAL
from ekiden.project.settings import agent_names_check, load_settings, set_setting
from ekiden.project.settings.keys import SETTINGS
from ekiden.project.settings.model import BUILT_IN_PROVIDERS

WRONG = {
    "model": "foo",
    "agents.routing.llm.model": "openai:",
    "store": "mysql://desk",
    "memory.embedding_model": "nope",
    "server.host": "not a host",
    "server.hosts": '["*"]',
    "server.origins": '["desk.example.com"]',
    "tools.http_get.allow": '["a b"]',
    "mirror.vertex.project": "a/b",
    "mirror.vertex.location": "a b",
    "mirror.vertex.engine": "../x",
    "team": "desk",
}
ENV = {each.name: each.env for each in SETTINGS}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_value_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=f"^{name} (must be|is|cannot be used)"):
        set_setting(name, WRONG[name], root=tmp_path, home=tmp_path / "home")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsInvalid, match=f"{name} (must be|is|cannot be used)"):
        load_settings(tmp_path, environ={ENV[name]: WRONG[name]}, home=tmp_path / "home")


def test_an_unknown_provider_is_refused_unless_a_team_may_register_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="no model provider is called 'opnai'.*openai"):
        set_setting("model", "opnai:gpt-5", root=tmp_path, home=tmp_path / "home")
    set_setting("team", "desk:team", root=tmp_path, home=tmp_path / "home")
    set_setting("model", "corp:large", root=tmp_path, home=tmp_path / "home")


def test_a_refused_address_shows_no_password(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        set_setting("store", "mysql://ada:sesame@db/desk", root=tmp_path, home=tmp_path / "home")
    assert "sesame" not in str(refused.value)


def test_the_built_in_providers_are_known_without_loading_them() -> None:
    assert set(BUILT_IN_PROVIDERS) == {*BUILT_IN, LOCAL, "demo"}


def test_the_address_of_an_embedder_is_checked(tmp_path: Path) -> None:
    name = "openai:x@http://ada:sesame@h/v1"
    with pytest.raises(SettingsInvalid, match="user name or password") as refused:
        set_setting("memory.embedding_model", name, root=tmp_path, home=tmp_path / "home")
    assert "sesame" not in str(refused.value)


def test_a_budget_for_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ".ekiden" / "agents"
    folder.mkdir(parents=True)
    (folder / "clerk.md").write_text("---\nname: clerk\ndescription: C.\n---\nHelp.\n")
    check = agent_names_check("limits.agents", root=tmp_path, home=tmp_path / "home")

    def give(name: str) -> None:
        value = {name: {"tokens": 5}}
        set_setting("limits.agents", value, root=tmp_path, home=tmp_path / "home", check=check)

    with pytest.raises(SettingsInvalid, match="no agent has this name; known: clerk"):
        give("clark")
    give("clerk")
