"""From files, environment and call to settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ekiden.core.errors import SettingsInvalid, UnknownSetting
from ekiden.project.settings import (
    LoadedSettings,
    SettingOrigin,
    Settings,
    SettingsProblem,
    load_settings,
)

Problems = list[tuple[str, int | None, int | None, str]]


class Places:
    """A home and a project folder."""

    def __init__(self, folder: Path) -> None:
        self.home, self.root = folder / "home", folder / "project"
        for each in (self.home, self.root):
            (each / ".ekiden").mkdir(parents=True)
        self.user = self.home / ".ekiden" / "settings.json"
        self.project = self.root / ".ekiden" / "settings.json"

    def load(self, overrides: dict[str, object] | None = None, **environ: str) -> LoadedSettings:
        """What holds here."""
        return load_settings(self.root, overrides=overrides, environ=environ, home=self.home)

    def problems(self, **environ: str) -> Problems:
        """What is wrong here, with the files' folders or the variables."""
        with pytest.raises(SettingsInvalid) as caught:
            self.load(**environ)
        found: Sequence[SettingsProblem] = caught.value.problems
        names = {str(self.user): "home", str(self.project): "project"}
        return [
            (names.get(each.where or "", each.where or ""), each.line, each.column, each.code)
            for each in found
        ]

    def message(self, text: str) -> str:
        """What is said of the project's file with this text."""
        self.project.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsInvalid) as caught:
            self.load()
        return str(caught.value).removeprefix(f"{self.project}:")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_without_files_the_defaults_hold(places: Places) -> None:
    loaded = places.load()
    assert loaded.settings == Settings()
    assert loaded.origin("model") == SettingOrigin(kind="default")
    assert str(loaded.origin("model")) == "default"


def test_the_first_source_with_a_value_decides(places: Places) -> None:
    places.user.write_text('{"agents": {"routing": {"strategy": "llm"}}}')
    assert places.load().settings.agents.routing.strategy == "llm"
    assert places.load().origin("routing.strategy").kind == "user"
    places.project.write_text('{"agents": {"routing":\n{"strategy": "semantic"}}}')
    assert places.load().settings.agents.routing.strategy == "semantic"
    origin = places.load().origin("routing.strategy")
    assert str(origin) == f"project {places.project}:2"
    loaded = places.load(EKIDEN_ROUTING_STRATEGY="rule")
    assert loaded.settings.agents.routing.strategy == "rule"
    assert str(loaded.origin("routing.strategy")) == "environment EKIDEN_ROUTING_STRATEGY"
    loaded = places.load({"routing.strategy": "hybrid"}, EKIDEN_ROUTING_STRATEGY="rule")
    assert loaded.settings.agents.routing.strategy == "hybrid"
    assert str(loaded.origin("routing.strategy")) == "call"


def test_files_are_merged_key_by_key_and_lists_are_replaced(places: Places) -> None:
    places.user.write_text(
        '{"agents": {"routing": {"enabled": false, "rule": {"confidence_threshold": 50}}},'
        ' "tools": {"shell": {"allow": ["git", "make"], "timeout": 5}}}'
    )
    places.project.write_text(
        '{"agents": {"routing": {"strategy": "rule"}}, "tools": {"shell": {"allow": ["ls"]}}}'
    )
    settings = places.load().settings
    routing, shell = settings.agents.routing, settings.tools.shell
    assert (routing.enabled, routing.strategy, routing.rule.confidence_threshold) == (
        False,
        "rule",
        50,
    )
    assert (shell.allow, shell.timeout) == (("ls",), 5.0)


def test_servers_are_merged_one_by_one_and_null_removes_one(places: Places) -> None:
    places.user.write_text(
        '{"mcpServers": {"a": {"command": "a", "args": ["-x"]}, "b": {"command": "b"},'
        ' "c": {"url": "https://c.example.org"}}}'
    )
    places.project.write_text('{"mcp_servers": {"a": {"url": "http://localhost"}, "b": null}}')
    loaded = places.load({"mcpServers": {"d": {"command": "d"}}})
    assert loaded.settings.mcp_servers == {
        "a": {"url": "http://localhost"},
        "c": {"url": "https://c.example.org"},
        "d": {"command": "d"},
    }
    assert [loaded.origin(f"mcpServers.{name}").kind for name in "abcd"] == [
        "project",
        "default",
        "user",
        "call",
    ]


@pytest.mark.parametrize(
    "server",
    [
        '{"command": "a", "args": [], "env": null, "cwd": "b", "disabled": true}',
        '{"httpUrl": "http://localhost", "type": "http", "command": null}',
        '{"serverUrl": "http://localhost", "headers": {"A": "b"}, "timeout": 5, "ours": {}}',
    ],
)
def test_servers_are_read_in_the_format_of_other_tools(places: Places, server: str) -> None:
    places.project.write_text(f'{{"mcpServers": {{"x": {server}}}}}')
    assert places.load().settings.mcp_servers == {"x": json.loads(server)}


def test_null_in_the_project_overrides_a_value_of_the_user(places: Places) -> None:
    places.user.write_text('{"model": "openai:x"}')
    places.project.write_text('{"model": null}')
    assert places.load().settings.model is None
    assert places.load().origin("model").kind == "project"


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("EKIDEN_MODEL", "openai:x", "model", "openai:x"),
        ("EKIDEN_STORE", "memory:", "store", "memory:"),
        ("EKIDEN_TEAM", "desk:team", "team", "desk:team"),
        ("EKIDEN_ROUTING_ENABLED", "FALSE", "routing.enabled", False),
        ("EKIDEN_ROUTING_ENABLED", "1", "routing.enabled", True),
        ("EKIDEN_ROUTING_ENABLED", "off", "routing.enabled", False),
        ("EKIDEN_ROUTING_STRATEGY", " llm ", "routing.strategy", "llm"),
        ("EKIDEN_LOCAL_MODEL", "a.gguf", "local.model", "a.gguf"),
        ("EKIDEN_LOCAL_CTX", "512", "local.context", 512),
        ("EKIDEN_LOCAL_THREADS", "2", "local.threads", 2),
        ("EKIDEN_ROUTING_THRESHOLD", "65", "routing.rule.confidence_threshold", 65),
    ],
)
def test_environment_variables_have_the_type_of_their_setting(
    places: Places, variable: str, text: str, key: str, value: object
) -> None:
    loaded = places.load(**{variable: text})
    assert loaded.value(key) == value
    assert loaded.origin(key) == SettingOrigin(kind="environment", where=variable)


def test_an_empty_variable_is_ignored(places: Places) -> None:
    assert places.load(EKIDEN_MODEL="", EKIDEN_ROUTING_THRESHOLD=" ").settings == Settings()


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("EKIDEN_ROUTING_ENABLED", "maybe"),
        ("EKIDEN_ROUTING_STRATEGY", "magic"),
        ("EKIDEN_ROUTING_THRESHOLD", "101"),
        ("EKIDEN_ROUTING_THRESHOLD", "8_0"),
        ("EKIDEN_ROUTING_THRESHOLD", "eighty"),
        ("EKIDEN_TEAM", "no colon"),
    ],
)
def test_an_invalid_variable_is_named(places: Places, variable: str, text: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"^{variable}: .* must be "):
        places.load(**{variable: text})


def test_overrides_of_none_are_ignored(places: Places) -> None:
    assert places.load({"model": None, "routing.strategy": None}).settings == Settings()


def test_overrides_are_checked(places: Places) -> None:
    with pytest.raises(SettingsInvalid, match="the call: agents.routing.strategy must be one of"):
        places.load({"routing.strategy": "rul"})
    with pytest.raises(UnknownSetting):
        places.load({"routing.strat": None})
    with pytest.raises(UnknownSetting, match="there are: tools.shell.allow"):
        places.load({"tools.shell": {"allow": []}})
    with pytest.raises(SettingsInvalid, match="name is wrong"):
        places.load({"mcpServers": {"": {"command": "x"}}})
    with pytest.raises(SettingsInvalid, match="a server that needs either `command`"):
        places.load({"mcpServers": {"x": {}}})
    with pytest.raises(SettingsInvalid, match='a server that has "url", which must begin with'):
        places.load({"mcpServers": {"x": {"url": "ftp://b"}}})


def test_all_problems_are_reported_at_once(places: Places) -> None:
    places.user.write_text('{"modle": "x",\n "chat": {"history": true}}')
    places.project.write_text('{"store": 5,')
    assert places.problems(EKIDEN_ROUTING_THRESHOLD="x") == [
        ("home", 1, 2, "settings.unknown_key"),
        ("home", 2, 22, "settings.wrong_value"),
        ("project", 1, 13, "settings.syntax"),
        ("EKIDEN_ROUTING_THRESHOLD", None, None, "settings.wrong_value"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "1:1: a settings file must be an object, not a list"),
        ("3", "1:1: a settings file must be an object, not a number"),
        ('{"stor": "x"}', "1:2: there is no setting 'stor'; did you mean 'store'?"),
        ('{"xyzzy": 1}', "1:2: there is no setting 'xyzzy'; known here: model, store, team, "),
        ('{"routing": {}}', "1:2: there is no setting 'routing' here; it is agents.routing, "),
        ('{"agents.routing.strategy": 1}', "it is agents.routing.strategy, in nested objects"),
        ('{"agents": null}', "1:12: agents must be an object, not null"),
        ('{"agents": {"routing": {"threshold": 3}}}', "it is agents.routing.semantic.threshold"),
        ('{"agents": {"routing": {"stratgy": 3}}}', "agents.routing has no setting 'stratgy'"),
        ('{"agents": {"routing": {"strategy": "rul"}}}', "not 'rul'; did you mean 'rule'?"),
        ('{"agents": {"routing": {"strategy": []}}}', "one of rule, semantic, llm, hybrid, not a"),
        ('{"agents": {"routing": {"enabled": 1}}}', "must be true or false, not 1"),
        (
            '{"agents": {"routing": {"enabled": null}}}',
            "has no value; write true or",
        ),
        ('{"agents": {"routing": {"semantic": {"threshold": 1.5}}}}', "a number from 0 to 1, or "),
        ('{"agents": {"routing": {"semantic": {"threshold": true}}}}', "not true"),
        ('{"chat": {"history": 1.5}}', "a whole number from 0 to 100000, not 1.5"),
        ('{"chat": {"history": -1}}', "not -1"),
        ('{"tools": {"shell": {"allow": "git"}}}', "a list of programs, not 'git'"),
        ('{"tools": {"shell": {"allow": ["git", 1]}}}', "but number 2 is 1"),
        ('{"tools": {"shell": {"allow": [""]}}}', "but number 1 must not be empty"),
        ('{"model": "a\\nb"}', "must not have a line break"),
        ('{"model": " "}', "must not be empty"),
        ('{"store": null}', "postgresql://… or memory:, or leave the key out"),
        ('{"team": "desk"}', "module:attribute, or null, not 'desk'"),
        ('{"mcpServers": []}', "mcpServers must be an object of servers, not a list"),
        ('{"mcpServers": {"": {"command": "x"}}}', "1:17: a server's name is"),
        ('{"mcpServers": {"x": "npx"}}', "1:22: mcpServers.x must be an object with"),
        ('{"mcpServers": {"x": {}}}', "mcpServers.x needs either `command`, to start it, or `url`"),
        ('{"mcpServers": {"x": {"command": "a", "url": "http://b"}}}', "needs either `command`"),
        ('{"mcpServers": {"x": {"command": ["a"]}}}', 'has "command", which must be text'),
        ('{"mcpServers": {"x": {"url": " "}}}', "needs either `command`"),
        ('{"mcpServers": {"x": {"url": true}}}', 'has "url", which must be text'),
        ('{"mcpServers": {"x": {"url": "ftp://b"}}}', 'has "url", which must begin with http://'),
        ('{"mcpServers": {"x": {"url": "b"}}}', "must begin with http:// or https://"),
        ('{"mcpServers": {"x": {"httpUrl": "ws://b"}}}', 'has "httpUrl", which must begin with'),
        ('{"mcpServers": {"x": {"url": "https://b", "type": "stdio"}}}', "must be 'http' or 'sse'"),
        ('{"mcpServers": {"x": {"command": "a", "args": "b"}}}', '"args", which must be a list'),
        ('{"mcpServers": {"x": {"command": "a", "env": {"T": 12345}}}}', "an object of texts"),
        ('{"model": "a", "model": "b"}', "1:16: the key 'model' appears earlier in this object"),
        ('{"mcpServers": {}, "mcp_servers": {}}', "1:20: 'mcp_servers' and 'mcpServers' are the"),
        (
            '{"mcpServers": {"x": {"command": "a", "command": "b"}}}',
            "appears earlier in this object",
        ),
    ],
)
def test_an_invalid_file_is_reported_with_place_and_advice(
    places: Places, text: str, says: str
) -> None:
    assert says in places.message(text)


def test_a_long_text_is_refused_and_shown_short(places: Places) -> None:
    assert "longer than 4096" in places.message(f'{{"model": "{"x" * 5000}"}}')
    long = places.message(f'{{"agents": {{"routing": {{"strategy": "{"x" * 5000}"}}}}}}')
    assert len(long) < 300


def test_no_message_shows_the_value_of_a_secret(places: Places) -> None:
    said = places.message('{"mcpServers": {"x": {"command": "a", "env": {"T": ["s3cret"]}}}}')
    assert "s3cret" not in said


def test_both_key_spellings_are_accepted(places: Places) -> None:
    places.project.write_text(
        '{"agents": {"foreignUserFolders": true, "routing": {"defaultAgent": "a",'
        ' "rule": {"confidenceThreshold": 1}}}, "tools": {"httpGet": {"maxBytes": 9}}}'
    )
    settings = places.load().settings
    assert settings.agents.foreign_user_folders
    assert settings.agents.routing.default_agent == "a"
    assert settings.agents.routing.rule.confidence_threshold == 1
    assert settings.tools.http_get.max_bytes == 9


@pytest.mark.parametrize("data", [b"", b" \n", b"// soon\n", b"{}", b"\xef\xbb\xbf{}"])
def test_an_empty_file_sets_nothing(places: Places, data: bytes) -> None:
    places.project.write_bytes(data)
    assert places.load().settings == Settings()


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def make_parent_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b'{\n"model": "\xe9"}'), ":2:11: is not UTF-8 here"),
        (lambda path: path.write_bytes('{"a"}'.encode("utf-16")), "save it as UTF-8"),
        (lambda path: path.write_bytes(b" " * 1_000_001), "larger than 1,000,000 bytes"),
        (make_folder, "is not a file; move it away"),
        (make_pipe, "is not a file; move it away"),
        (make_link_to_itself, "cannot be read: "),
        (make_parent_a_file, "cannot be read: "),
    ],
)
def test_an_unreadable_file_is_reported(
    places: Places, make: Callable[[Path], None], says: str
) -> None:
    make(places.project)
    with pytest.raises(SettingsInvalid, match="project") as caught:
        places.load()
    assert says in str(caught.value)
    assert [each.code for each in caught.value.problems] == ["settings.unreadable"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_reported(places: Places) -> None:
    places.user.write_text("{}")
    places.user.chmod(0)
    with pytest.raises(SettingsInvalid, match="cannot be read: Permission denied"):
        places.load()


def test_in_the_home_folder_the_file_is_read_once(places: Places) -> None:
    places.user.write_text('{"model": 5}')
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(places.home, environ={}, home=places.home)
    assert len(caught.value.problems) == 1


def test_without_a_home_there_is_no_user_file(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    assert load_settings(places.root, environ={}).settings == Settings()


def test_values_and_groups_are_returned_as_json(places: Places) -> None:
    places.project.write_text(
        '{"tools": {"shell": {"allow": ["git"]}}, "mcpServers": {"x": {"command": "y"}}}'
    )
    loaded = places.load()
    assert loaded.value("tools.shell") == {"allow": ["git"], "timeout": 60.0, "max_bytes": 100_000}
    assert loaded.value("mcp_servers") == {"x": {"command": "y"}}
    assert loaded.value("mcpServers.x") == {"command": "y"}
    with pytest.raises(UnknownSetting, match="there are: mcpServers.x"):
        loaded.value("mcpServers.z")
    with pytest.raises(UnknownSetting):
        loaded.origin("tools.shell")


def test_entries_lists_all_settings_and_each_server(places: Places) -> None:
    places.project.write_text('{"mcpServers": {"b": {"command": "y"}, "a": {"url": "http://z"}}}')
    names = [each.key for each in places.load().entries()]
    at = names.index("mcpServers.a")
    assert names[at + 1] == "mcpServers.b"
    assert "mcpServers" not in names
    assert {"model", "chat.markdown", "agents.routing.llm.timeout"} <= set(names)


def test_the_number_of_reported_problems_is_limited(places: Places) -> None:
    keys = ", ".join(f'"unknown{n}": 1' for n in range(5_000))
    places.project.write_text(f"{{{keys}}}")
    with pytest.raises(SettingsInvalid) as caught:
        places.load()
    assert len(caught.value.problems) == 100
    assert "more" in str(caught.value).splitlines()[-1]
    assert caught.value.problems[0].to_json() == {
        "where": str(places.project),
        "line": 1,
        "column": 2,
        "code": "settings.unknown_key",
        "message": caught.value.problems[0].message,
    }


class TestTogether:
    """`agents.routing.fallback` and `agents.routing.default_agent`."""

    def test_a_fallback_without_its_agent_is_reported_with_its_place(self, places: Places) -> None:
        said = places.message('{"agents": {"routing": {\n  "fallback": "default_agent"}}}')
        assert said == (
            "2:3: agents.routing.fallback is 'default_agent', but agents.routing.default_agent "
            "names no agent; name one: `ekiden config set agents.routing.default_agent NAME`"
        )
        assert places.problems() == [("project", 2, 3, "settings.conflict")]

    def test_a_conflict_is_reported_at_the_file_that_decides(self, places: Places) -> None:
        places.user.write_text('{"agents": {"routing": {"fallback": "default_agent"}}}')
        assert places.problems() == [("home", 1, 25, "settings.conflict")]
        places.project.write_text('{"agents": {"routing": {"default_agent": "a"}}}')
        assert places.load().settings.agents.routing.fallback == "default_agent"
        places.project.write_text('{"agents": {"routing": {"fallback": "none"}}}')
        assert places.load().settings.agents.routing.fallback == "none"

    def test_overrides_of_the_call_are_checked_for_conflicts(self, places: Places) -> None:
        places.project.write_text('{"agents": {"routing": {"fallback": "none"}}}')
        with pytest.raises(SettingsInvalid, match="^the call: agents.routing.fallback is"):
            places.load({"routing.fallback": "default_agent"})

    def test_an_invalid_value_is_reported_without_a_conflict(self, places: Places) -> None:
        places.project.write_text(
            '{"agents": {"routing": {"fallback": "default_agent", "default_agent": 5}}}'
        )
        assert places.problems() == [("project", 1, 71, "settings.wrong_value")]
