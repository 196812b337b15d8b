"""Changing settings files: whole or not at all, one writer at a time."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.errors import SettingsInvalid, SettingsNotWritten, UnknownSetting
from ekiden.project.settings import (
    SettingChange,
    Settings,
    changes,
    load_settings,
    set_setting,
    unset_setting,
)
from ekiden.project.settings.files import locked

NOTED = '{\r\n\t// mine\r\n\t"model": "openai:b",\r\n}'


class Folder:
    """A project that is changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / ".ekiden" / "settings.json"

    def write(self, text: str) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(text, encoding="utf-8", newline="")

    def read(self) -> str:
        return self.file.read_bytes().decode()

    def set(self, key: str, value: object) -> SettingChange:
        return set_setting(key, value, root=self.root)

    def unset(self, key: str) -> SettingChange:
        return unset_setting(key, root=self.root)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.file.parent.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_missing_file_is_created_for_the_user_only(folder: Folder) -> None:
    change = folder.set("routing.strategy", "rule")
    assert change == SettingChange(
        name="agents.routing.strategy", path=folder.file, is_changed=True, value="rule"
    )
    assert json.loads(folder.read()) == {"agents": {"routing": {"strategy": "rule"}}}
    assert stat.S_IMODE(folder.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.file.parent.stat().st_mode) == 0o700
    assert folder.files() == ["settings.json"]


def test_the_rest_of_the_file_is_unchanged(folder: Folder) -> None:
    folder.write(NOTED)
    folder.set("chat.markdown", False)
    assert folder.read() == NOTED.replace(
        "\r\n}", '\r\n\t"chat": {\r\n\t\t"markdown": false\r\n\t},\r\n}'
    )
    folder.unset("chat")
    assert folder.read() == NOTED


def test_user_settings_are_written_to_their_own_file(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    root.mkdir()
    set_setting("model", "openai:b", where="user", root=root, home=home)
    loaded = load_settings(root, environ={}, home=home)
    assert loaded.settings.model == "openai:b"
    assert loaded.origin("model").kind == "user"
    unset_setting("model", where="user", root=root, home=home)
    assert load_settings(root, environ={}, home=home).settings.model is None


@pytest.mark.parametrize(
    ("key", "text", "stored"),
    [
        ("routing.strategy", "rule", "rule"),
        ("routing.strategy", '"rule"', "rule"),
        ("routing.enabled", "true", True),
        ("routing.enabled", "off", False),
        ("routing.rule.confidence_threshold", "65", 65),
        ("routing.semantic.threshold", "0.5", 0.5),
        ("routing.semantic.threshold", "1", 1),
        ("routing.semantic.threshold", "null", None),
        ("model", "null", None),
        ("app", "80", "80"),
        ("model", "  openai:b ", "openai:b"),
        ("routing.default_agent", '"null"', "null"),
        ("store", "null", "null"),
        ("tools.shell.allow", '["git", "make",]', ["git", "make"]),
        ("mcpServers.x", '{"command": "npx"}', {"command": "npx"}),
        ("mcpServers.x", "null", None),
        ("mcpServers", '{"y": {"url": "http://localhost"}}', {"y": {"url": "http://localhost"}}),
    ],
)
def test_text_is_converted_to_the_type_of_the_setting(
    folder: Folder, key: str, text: str, stored: object
) -> None:
    assert folder.set(key, text).value == stored
    value: Any = json.loads(folder.read())
    while isinstance(value, dict) and value != stored:
        (value,) = value.values()
    assert value == stored
    load_settings(folder.root, environ={}, home=folder.root / "nobody")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("routing.strategy", "magic", "must be one of rule, semantic, llm, hybrid, not 'magic'"),
        ("routing.strategy", 5, "must be one of"),
        ("routing.enabled", "maybe", "must be true or false"),
        ("routing.rule.confidence_threshold", "1.5", "a whole number"),
        ("routing.rule.confidence_threshold", "-1", "from 0 to 100, not -1"),
        ("chat.history", "null", "has no value"),
        ("chat.history", "", "not ''"),
        ("tools.shell.allow", '"git"', "a list of programs, not 'git'"),
        ("tools.shell.allow", '["git"', "a list of programs"),
        ("mcpServers.x", "npx", 'an object with "command" or "url", or null, not'),
        ("mcpServers.x", '{"command": "a", "command": "b"}', "an object with"),
        ("mcpServers", "[]", "an object of servers"),
        ("model", "a\ud800", "U+D800"),
    ],
)
def test_an_invalid_value_changes_nothing(
    folder: Folder, key: str, value: object, says: str
) -> None:
    folder.write(NOTED)
    with pytest.raises(SettingsInvalid) as caught:
        folder.set(key, value)
    assert says in str(caught.value)
    assert folder.read() == NOTED
    assert folder.files() == ["settings.json"]


def test_a_name_of_several_settings_is_refused(folder: Folder) -> None:
    with pytest.raises(UnknownSetting, match="did you mean 'routing.strategy'"):
        folder.set("routing.stratgy", "rule")
    with pytest.raises(UnknownSetting, match="there are: chat.history, chat.markdown"):
        folder.set("chat", "{}")
    assert not folder.file.parent.exists()


def test_an_equal_value_writes_nothing(folder: Folder) -> None:
    folder.write(NOTED)
    before = folder.file.stat()
    assert not folder.set("model", "openai:b").is_changed
    assert os.path.samestat(before, folder.file.stat())


def test_a_file_with_other_faults_is_not_changed(folder: Folder) -> None:
    folder.write('{"modle": "x", "chat": {"history": "y"}}')
    with pytest.raises(SettingsInvalid) as caught:
        folder.set("store", "memory:")
    assert len(caught.value.problems) == 2
    assert "memory:" not in folder.read()


def test_an_invalid_value_can_be_corrected_and_an_unknown_key_removed(folder: Folder) -> None:
    folder.write('{"modle": "x", "chat": {"history": "y", "x.y": 1}}')
    assert folder.unset("modle").is_changed
    with pytest.raises(UnknownSetting):
        folder.unset("modle")
    assert folder.unset("chat.history").is_changed
    folder.write('{"chat": {"history": "y"}}')
    folder.set("chat.history", 5)
    assert folder.read() == '{"chat": {"history": 5}}'


@pytest.mark.parametrize(
    "text", ['{"model": ', "[]", '{"agents": 5}', '{"agents": {"routing": []}}']
)
def test_a_file_that_is_no_object_is_refused(folder: Folder, text: str) -> None:
    folder.write(text)
    with pytest.raises(SettingsInvalid, match="settings.json:1:"):
        folder.set("routing.strategy", "rule")
    assert folder.read() == text


def test_removing_an_unset_value_changes_nothing(folder: Folder) -> None:
    assert not folder.unset("model").is_changed
    assert not folder.file.parent.exists()
    folder.write(NOTED)
    assert not folder.unset("store").is_changed
    assert folder.read() == NOTED


def test_servers_are_set_and_removed_one_by_one(folder: Folder) -> None:
    folder.set("mcpServers.a", {"command": "a"})
    folder.set("mcp_servers.b.c", {"url": "http://localhost"})
    assert json.loads(folder.read()) == {
        "mcpServers": {"a": {"command": "a"}, "b.c": {"url": "http://localhost"}}
    }
    folder.unset("mcpServers.a")
    assert json.loads(folder.read()) == {"mcpServers": {"b.c": {"url": "http://localhost"}}}


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o664])
def test_the_file_mode_is_kept(folder: Folder, mode: int) -> None:
    folder.write("{}")
    folder.file.chmod(mode)
    folder.set("model", "openai:b")
    assert stat.S_IMODE(folder.file.stat().st_mode) == mode


def test_a_symlink_is_kept_and_its_target_changes(folder: Folder, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.mkdir()
    (real / "ekiden.json").write_text("{}")
    folder.file.parent.mkdir()
    folder.file.symlink_to(real / "ekiden.json")
    folder.set("model", "openai:b")
    assert folder.file.is_symlink()
    assert json.loads((real / "ekiden.json").read_text()) == {"model": "openai:b"}
    assert sorted(path.name for path in real.iterdir()) == ["ekiden.json"]


def test_the_target_of_a_dangling_symlink_is_created(folder: Folder, tmp_path: Path) -> None:
    folder.file.parent.mkdir()
    folder.file.symlink_to(tmp_path / "later.json")
    folder.set("model", "openai:b")
    assert json.loads((tmp_path / "later.json").read_text()) == {"model": "openai:b"}


def in_place_of_the_folder(folder: Folder) -> None:
    folder.file.parent.write_text("")


def in_a_folder_that_is_missing(folder: Folder) -> None:
    folder.file.parent.mkdir()
    folder.file.symlink_to(folder.root / "a" / "b" / "c.json")


def lock_that_is_a_link(folder: Folder) -> None:
    folder.write("{}")
    (folder.file.parent / ".settings.json.lock").symlink_to(folder.root / "elsewhere")


@pytest.mark.parametrize(
    "make", [in_place_of_the_folder, in_a_folder_that_is_missing, lock_that_is_a_link]
)
def test_an_unwritable_place_is_reported(folder: Folder, make: Callable[[Folder], None]) -> None:
    make(folder)
    with pytest.raises(SettingsNotWritten, match="cannot write .*; it is unchanged"):
        folder.set("model", "openai:b")
    assert not (folder.root / "elsewhere").exists()


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_leaves_the_file_unchanged(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder.write(NOTED)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(SettingsNotWritten, match="No space left on device"):
            folder.set("store", "memory:")
    assert folder.read() == NOTED
    assert folder.files() == ["settings.json"]


def test_a_write_protected_file_is_not_replaced(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("{}")
    folder.file.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # The superuser may do everything.
    with pytest.raises(SettingsNotWritten, match="write-protected"):
        folder.set("model", "openai:b")
    assert folder.read() == "{}"


def test_a_folder_in_place_of_the_file_is_reported(folder: Folder) -> None:
    folder.file.mkdir(parents=True)
    with pytest.raises(SettingsInvalid, match="is not a file"):
        folder.set("model", "openai:b")


def test_without_a_home_the_user_file_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(SettingsNotWritten, match="set HOME"):
        set_setting("model", "openai:b", where="user")


KEYS = [
    "model",
    "store",
    "routing.default_agent",
    "routing.llm.model",
    "local.model",
    "mcpServers.a",
    "mcpServers.b",
    "tools.http_get.allow",
]


def value_for(key: str) -> object:
    return {"mcpServers": {"command": "x"}, "tools": ["x"]}.get(key.partition(".")[0], "openai:y")


def test_concurrent_writers_in_one_process_lose_nothing(folder: Folder) -> None:
    start = threading.Barrier(len(KEYS))

    def write(key: str) -> bool:
        start.wait()
        return folder.set(key, value_for(key)).is_changed

    with ThreadPoolExecutor(len(KEYS)) as pool:
        assert all(pool.map(write, KEYS))
    loaded = load_settings(folder.root, environ={}, home=folder.root / "nobody")
    assert [loaded.origin(key).kind for key in KEYS] == ["project"] * len(KEYS)
    assert folder.files() == ["settings.json"]


def test_waiting_for_another_writer_times_out(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("{}")
    monkeypatch.setattr(changes, "_PATIENCE_S", 0.05)
    with (
        locked(folder.file, timeout_s=0),
        pytest.raises(SettingsNotWritten, match="another process has been changing .* try again"),
    ):
        folder.set("model", "openai:b")
    folder.set("model", "openai:b")


KILLED = """
import os, signal, sys
from pathlib import Path
from ekiden.project.settings import set_setting

root, nth = Path(sys.argv[1]), 1
calls = ("open", "write", "fsync", "chmod", "replace", "unlink", "close")

def counted(call, left):
    def counting(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return counting

while True:
    pid = os.fork()
    if pid == 0:
        left = [nth]
        for name in calls:
            setattr(os, name, counted(getattr(os, name), left))
        set_setting("chat.history", nth, root=root)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), (root / ".ekiden/settings.json").read_text())
    if status == 0:
        break
    nth += 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_writer_killed_at_any_call_leaves_the_old_or_the_new_file(folder: Folder) -> None:
    folder.write('{"chat": {"history": 0}}')
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder.root)],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    assert len(lines) > 8
    found = 0
    for number, line in enumerate(lines, start=1):
        code, _, text = line.partition(" ")
        assert int(code) == (0 if number == len(lines) else -signal.SIGKILL)
        now = json.loads(text)["chat"]["history"]
        assert now in (found, number)
        found = now
    assert found == len(lines), "the one that was not killed"
    assert folder.files() == ["settings.json"], "what the killed ones left is removed"


class TestTogether:
    """What would not go with another setting is refused before anything is written."""

    BOTH = '{"agents": {"routing": {"default_agent": "a", "fallback": "default_agent"}}}'

    def test_a_default_agent_fallback_requires_a_default_agent(self, folder: Folder) -> None:
        with pytest.raises(SettingsInvalid) as refused:
            folder.set("routing.fallback", "default_agent")
        assert str(refused.value) == (
            "agents.routing.fallback cannot be 'default_agent' while agents.routing.default_agent "
            "names no agent; first `ekiden config set agents.routing.default_agent NAME`, then "
            "`ekiden config set agents.routing.fallback default_agent`"
        )
        assert not folder.file.parent.exists()
        folder.set("routing.default_agent", "a")
        folder.set("routing.fallback", "default_agent")
        assert load_settings(folder.root).settings.agents.routing.default_agent == "a"

    def test_the_default_agent_may_be_set_in_the_user_file(
        self, folder: Folder, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        with pytest.raises(SettingsInvalid, match="`ekiden config set --user agents.routing.def"):
            set_setting("routing.fallback", "default_agent", where="user", root=tmp_path, home=home)
        set_setting("routing.default_agent", "a", where="user", root=tmp_path, home=home)
        set_setting("routing.fallback", "default_agent", root=tmp_path, home=home)
        with pytest.raises(SettingsInvalid, match="without agents.routing.default_agent"):
            unset_setting("routing.default_agent", where="user", root=tmp_path, home=home)

    @pytest.mark.parametrize("key", ["routing.default_agent", "routing.defaultAgent"])
    def test_a_default_agent_required_by_the_fallback_cannot_be_removed(
        self, folder: Folder, key: str
    ) -> None:
        folder.write(self.BOTH)
        with pytest.raises(SettingsInvalid, match="first `ekiden config set agents.routing.fallb"):
            folder.set(key, None)
        with pytest.raises(SettingsInvalid, match="first `ekiden config set agents.routing.fallb"):
            folder.unset(key)
        assert folder.read() == self.BOTH
        folder.unset("agents")
        assert "agent" not in folder.read()

    def test_removing_an_override_of_an_invalid_fallback_is_refused(
        self, folder: Folder, tmp_path: Path
    ) -> None:
        user = tmp_path / "home" / ".ekiden" / "settings.json"
        user.parent.mkdir(parents=True)
        user.write_text('{"agents": {"routing": {"fallback": "default_agent"}}}')
        folder.write('{"agents": {"routing": {"fallback": "none"}}}')
        with pytest.raises(SettingsInvalid, match="set --user agents.routing.default_agent NAME`"):
            unset_setting("routing.fallback", root=tmp_path, home=tmp_path / "home")

    def test_an_inconsistent_file_can_be_corrected(self, folder: Folder) -> None:
        broken = '{"agents": {"routing": {"fallback": "default_agent"}}}'
        folder.write(broken)
        with pytest.raises(SettingsInvalid, match="cannot be 'default_agent'"):
            folder.set("routing.fallback", "default_agent")
        assert folder.set("model", "openai:b").is_changed
        assert folder.unset("model").is_changed
        assert folder.set("routing.default_agent", "a").is_changed
        folder.write(broken)
        assert folder.unset("routing.fallback").is_changed

    def test_a_check_gets_the_new_settings_and_can_refuse(self, folder: Folder) -> None:
        folder.write('{"model": "openai:b"}')
        seen: list[Settings] = []

        def refuse(settings: Settings) -> None:
            seen.append(settings)
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            set_setting("chat.history", 5, root=folder.root, check=refuse)
        assert (seen[0].model, seen[0].chat.history) == ("openai:b", 5)
        assert folder.read() == '{"model": "openai:b"}'
        assert folder.files() == ["settings.json"]
