"""`ekiden config`, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ekiden.cli.main import main
from ekiden.project.settings import SETTINGS

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and an empty home."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    for setting in SETTINGS:
        if setting.env is not None:
            monkeypatch.delenv(setting.env, raising=False)
    return project


def config(*arguments: str) -> int:
    return main(["config", *arguments])


def written(folder: Path) -> str:
    return (folder / ".ekiden" / "settings.json").read_text(encoding="utf-8")


def test_a_setting_is_set_read_and_removed(folder: Path, capsys: Captured) -> None:
    assert config("set", "routing.strategy", "rule") == 0
    assert config("get", "agents.routing.strategy") == 0
    assert config("unset", "routing.strategy") == 0
    assert config("get", "routing.strategy") == 0
    assert config("unset", "routing.strategy") == 0
    assert capsys.readouterr().out.splitlines() == [
        "agents.routing.strategy is rule in .ekiden/settings.json",
        "rule",
        "removed agents.routing.strategy from .ekiden/settings.json",
        "hybrid",
        "agents.routing.strategy is not set in .ekiden/settings.json",
    ]


def test_the_results_are_json_when_asked_for(folder: Path, capsys: Captured) -> None:
    path = str(folder / ".ekiden" / "settings.json")
    config("set", "chat.history", "5", "--json")
    config("unset", "--json", "chat")
    config("get", "chat", "--json")
    config("get", "model", "--json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {
            "key": "chat.history",
            "value": 5,
            "path": path,
            "changed": True,
            "origin": {"kind": "project", "where": ".ekiden/settings.json", "line": 3},
        },
        {"key": "chat", "path": path, "changed": True},
        {"history": 1000, "markdown": True},
        None,
    ]


def test_values_are_printed_plain_and_groups_as_objects(capsys: Captured) -> None:
    for key in ("model", "chat.markdown", "tools.shell.allow", "chat"):
        config("get", key)
    assert capsys.readouterr().out.splitlines() == [
        "null",
        "true",
        "[]",
        '{"history":1000,"markdown":true}',
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["set", "chat.history", "-5"],
        ["set", "chat.history", "--", "-5"],
        ["set", "routing.strategy", "magic"],
        ["set", "routing.stratgy", "rule"],
        ["set", "agents", "{}"],
        ["set", "mcpServers.x", '{"url": "ftp://b"}'],
        ["set", "chat.history"],
        ["get", "nothing"],
        ["get", "mcpServers.nobody"],
        ["unset", "nothing"],
    ],
)
def test_invalid_arguments_exit_with_2_and_change_nothing(
    arguments: list[str], folder: Path, capsys: Captured
) -> None:
    assert config(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error[")
    assert shown.out == ""
    assert not list(folder.iterdir())


def test_an_invalid_value_is_refused_with_the_valid_ones(capsys: Captured) -> None:
    config("set", "routing.strategy", "magic")
    assert capsys.readouterr().err == (
        "error[settings.invalid]: agents.routing.strategy must be one of "
        "rule, semantic, llm, hybrid, not 'magic'\n"
    )


def test_the_list_has_every_setting_and_hides_secrets(capsys: Captured) -> None:
    config("set", "mcpServers.hub", '{"command": "hub", "env": {"TOKEN": "s3cret"}}')
    config("set", "store", "postgresql://me:s3cret@db/x")
    config("list")
    out = capsys.readouterr().out
    assert "s3cret" not in out
    assert "agents.routing.rule.confidence_threshold  80" in out
    assert ["chat.history", "1000", "default"] in [line.split() for line in out.splitlines()]
    assert "project .ekiden/settings.json:" in out
    config("list", "--json")
    listed = {each["key"]: each for each in json.loads(capsys.readouterr().out)}
    assert listed["mcpServers.hub"]["value"] == {"command": "hub", "env": {"TOKEN": "***"}}
    assert listed["mcpServers.hub"]["origin"]["kind"] == "project"
    assert listed["chat.history"] == {
        "key": "chat.history",
        "value": 1000,
        "origin": {"kind": "default", "where": None, "line": None},
    }


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("routing.strategy", "rule, semantic, llm, hybrid"),
        ("routing.fallback", "none, prompt_user, default_agent"),
    ],
)
def test_the_valid_words_of_a_setting_are_named(key: str, words: str, capsys: Captured) -> None:
    assert config("set", key, "magic") == 2
    assert f"must be one of {words}, not 'magic'" in capsys.readouterr().err


def test_a_token_is_not_echoed(capsys: Captured) -> None:
    server = {"command": "hub", "args": ["ghp_s3cret", "--header", "Authorization: Bearer s3cret"]}
    assert config("set", "mcpServers.hub", json.dumps(server)) == 0
    assert "s3cret" not in capsys.readouterr().out


def test_a_fallback_without_a_default_agent_is_refused_and_nothing_changes(
    folder: Path, capsys: Captured
) -> None:
    assert config("set", "agents.routing.fallback", "default_agent") == 2
    shown = capsys.readouterr().err
    assert shown.index("agents.routing.default_agent NAME`, then") > 0
    assert not list(folder.iterdir())


def test_a_default_agent_must_exist_in_the_files(folder: Path, capsys: Captured) -> None:
    agents = folder / ".ekiden" / "agents"
    agents.mkdir(parents=True)
    (agents / "reception.md").write_text("---\nname: reception\n---\nHello.\n")
    assert config("set", "agents.routing.default_agent", "recepton") == 2
    assert "did you mean 'reception'?" in capsys.readouterr().err
    assert not (folder / ".ekiden" / "settings.json").exists()
    assert config("set", "agents.routing.default_agent", "reception") == 0
    assert config("set", "agents.routing.fallback", "default_agent") == 0
    assert config("set", "agents.routing.default_agent", "nosuch") == 2
    assert config("unset", "agents.routing.default_agent") == 2
    assert main(["agents", "list"]) == 0


def test_an_overridden_value_is_reported(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    config("set", "model", "openai:b")
    config("set", "--user", "model", "openai:d")
    assert "it has no effect here: project .ekiden/settings.json:2" in capsys.readouterr().err
    monkeypatch.setenv("EKIDEN_MODEL", "openai:f")
    config("set", "model", "openai:h")
    assert "environment EKIDEN_MODEL takes precedence" in capsys.readouterr().err


def test_other_invalid_settings_are_reported(capsys: Captured) -> None:
    user = Path.home() / ".ekiden"
    user.mkdir()
    (user / "settings.json").write_text('{"modle": 1}')
    assert config("set", "model", "openai:b") == 0
    assert "other settings are invalid" in capsys.readouterr().err
    assert config("set", "model", "openai:c", "--json") == 0
    assert json.loads(capsys.readouterr().out)["origin"] is None


def test_in_the_home_folder_both_settings_files_are_the_same(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path.home())
    config("set", "--user", "model", "openai:b")
    config("get", "model")
    shown = capsys.readouterr()
    assert shown.out.endswith("openai:b\n")
    assert shown.err == ""


def test_config_path_prints_both_paths(folder: Path, capsys: Captured) -> None:
    config("set", "model", "openai:b")
    config("path")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == [
        "project",
        str(folder / ".ekiden" / "settings.json"),
        "exists",
    ]
    assert lines[3].endswith("does not exist")
    config("path", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "project": {"path": str(folder / ".ekiden" / "settings.json"), "exists": True},
        "user": {"path": str(Path.home() / ".ekiden" / "settings.json"), "exists": False},
    }


@pytest.mark.parametrize("command", ["list", "get", "set", "unset", "path"])
def test_every_command_explains_itself_and_has_json(command: str, capsys: Captured) -> None:
    assert config(command, "--help") == 0
    assert "--json" in capsys.readouterr().out
