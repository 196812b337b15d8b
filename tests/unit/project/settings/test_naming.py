"""Whether the default agent is one of the project's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.errors import SettingsInvalid, UnknownSetting
from ekiden.core.profile import Scope
from ekiden.project.project import load_project
from ekiden.project.settings import AgentsSettings, Settings, agent_names_check
from ekiden.routing.settings import RoutingSettings

KEY = "routing.default_agent"
TEAM: dict[str, Scope] = {"reception": "project", "mine": "user", "watch": "system"}


def settings(name: str | None, **routing: Any) -> Settings:
    return Settings(agents=AgentsSettings(routing=RoutingSettings(default_agent=name, **routing)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with an agent, and an agent whose file cannot be used."""
    agents = tmp_path / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "reception.md").write_text("---\nname: reception\n---\nHello.\n")
    (agents / "broken.md").write_text("---\nname: [\n---\n")
    return tmp_path


def test_a_name_of_an_agent_file_is_accepted_and_another_refused(root: Path) -> None:
    check = agent_names_check(KEY, root=root, home=root / "home")
    check(settings("reception"))
    check(settings(None))
    with pytest.raises(SettingsInvalid) as refused:
        check(settings("recepton"))
    assert str(refused.value) == (
        "agents.routing.default_agent cannot be 'recepton': no agent has this name; "
        "known: reception; did you mean 'reception'?"
    )


def test_without_agent_files_every_name_is_accepted(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    agent_names_check(KEY, root=tmp_path / "empty", home=root / "home")(settings("anybody"))
    in_python = replace(settings("anybody"), team="desk:team")
    agent_names_check(KEY, root=root, home=root / "home")(in_python)


@pytest.mark.parametrize(
    ("name", "routing", "is_taken"),
    [
        ("mine", {}, True),
        ("nobody", {}, False),
        ("watch", {}, False),
        ("watch", {"enabled": False}, True),
        ("watch", {"enabled": False, "fallback": "default_agent"}, False),
    ],
)
def test_the_agents_of_a_loaded_team_are_the_known_names(
    name: str, routing: dict[str, Any], is_taken: bool
) -> None:
    check = agent_names_check(KEY, agents=TEAM)
    if is_taken:
        check(settings(name, **routing))
        return
    with pytest.raises(SettingsInvalid, match="known: mine, reception"):
        check(settings(name, **routing))


def test_an_unknown_name_in_user_settings_is_refused_only_where_used() -> None:
    check = agent_names_check(KEY, where="user", agents=TEAM)
    check(settings("of-another-project"))
    with pytest.raises(SettingsInvalid, match="no agent has this name"):
        check(settings("of-another-project", fallback="default_agent"))


@pytest.mark.parametrize(
    ("key", "routing"),
    [("routing.fallback", {"fallback": "default_agent"}), ("routing.enabled", {"enabled": False})],
)
def test_settings_that_depend_on_the_name_check_it(key: str, routing: dict[str, Any]) -> None:
    check = agent_names_check(key, agents=TEAM)
    check(settings("nobody"))
    with pytest.raises(SettingsInvalid, match="no agent has this name"):
        check(settings("nobody", **routing))
    agent_names_check("model", agents=TEAM)(settings("nobody", **routing))


@pytest.mark.parametrize("routing", ['"fallback": "default_agent"', '"enabled": false'])
def test_an_unknown_name_in_an_edited_file_is_reported_with_its_line(
    root: Path, routing: str
) -> None:
    file = root / ".ekiden" / "settings.json"
    (root / ".ekiden" / "agents" / "broken.md").unlink()
    for name, is_right in (("nobody", False), ("reception", True)):
        file.write_text(f'{{"agents": {{"routing": {{{routing},\n "default_agent": "{name}"}}}}}}')
        if is_right:
            load_project(root, home=root / "home")
            continue
        with pytest.raises(SettingsInvalid) as refused:
            load_project(root, home=root / "home")
        assert str(refused.value) == (
            f"{file}:2: agents.routing.default_agent cannot be 'nobody': no agent has this name; "
            "known: reception"
        )


def test_only_some_of_many_agents_are_listed() -> None:
    many: dict[str, Scope] = {f"agent-{number:02}": "project" for number in range(25)}
    with pytest.raises(SettingsInvalid, match="agent-19 and 5 more$"):
        agent_names_check(KEY, agents=many)(settings("somebody else"))


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UnknownSetting):
        agent_names_check("routing.defualt_agent")
