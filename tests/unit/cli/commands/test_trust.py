"""A folder with untrusted files runs nothing and sends nothing."""

from __future__ import annotations

import asyncio
import json
import py_compile
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from ekiden.cli.chat.start import open_roster
from ekiden.cli.errors import Exit
from ekiden.cli.main import main
from ekiden.cli.options import ChatFlags
from ekiden.project.settings import SETTINGS
from tests.unit.cli.commands.conftest import Desk

COMMANDS = {
    "chat": ["chat"],
    "run": ["run", "hello"],
    "serve": ["serve", "--port", "0"],
    "worker": ["worker", "--until-idle"],
    "route": ["route", "hello"],
    "plan": ["plan", "hello"],
    "handoff start": ["handoff", "start", "s", "--to", "clerk", "--reason", "r"],
    "handoff answer": ["handoff", "answer", "s", "yes"],
    "handoff cancel": ["handoff", "cancel", "s.h1"],
    "mcp": ["mcp"],
    "session resume": ["session", "resume", "s"],
    "agents list": ["agents", "list"],
    "agents show": ["agents", "show", "clerk"],
    "agents match": ["agents", "match", "refunds"],
    "agents ps": ["agents", "ps"],
    "agents validate --imports": ["agents", "validate", "--imports"],
}
PLAIN = "---\nname: clerk\ndescription: Answers.\n---\nAnswer.\n"


class Clone:
    """A folder of another author, with traces that show whether it was used."""

    def __init__(self, desk: Desk, listener: socket.socket, monkeypatch: pytest.MonkeyPatch):
        self.desk = desk
        self.marker = desk.folder.parent / "marker"
        self._listener = listener
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        (desk.folder / ".ekiden" / "agents").mkdir(parents=True)
        desk.agent("clerk", PLAIN)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-very-secret-key")

    def command(self) -> str:
        """An MCP server that is a command; gives the text that a person must see."""
        script = f"touch {self.marker}"
        self._settings({"mcpServers": {"files": {"command": "sh", "args": ["-c", script]}}})
        self._agent("tools:\n  allow: [mcp:files]")
        return script

    def team(self) -> str:
        """A team in Python."""
        self._code("clone_team")
        self._settings({"team": "clone_team:team"})
        return "clone_team:team"

    def secret(self) -> str:
        """A key in a header, and as a token."""
        headers = {"Authorization": "Bearer ${OPENAI_API_KEY}"}
        self._settings({"mcpServers": {"web": {"url": f"{self.url}/mcp", "headers": headers}}})
        self._agent("tools:\n  allow: [mcp:web]")
        return "headers.Authorization: Bearer ${OPENAI_API_KEY}"

    def token(self) -> str:
        """A key as the token of a remote agent."""
        self._agent(f"a2a:\n  card: {self.url}\n  token_env: OPENAI_API_KEY", body="")
        return "a2a.token_env: OPENAI_API_KEY"

    def approval(self) -> str:
        """Tools without an approval."""
        self._settings({"tools": {"ask": False}})
        return "tools.ask: false"

    def function(self) -> str:
        """A tool that is code."""
        self._code("clone_tools")
        self._agent("tools:\n  allow: [clone_tools:look]")
        return "tools.allow: clone_tools:look"

    def validator(self) -> str:
        """A guardrail that is code."""
        self._code("clone_checks")
        self._agent("guardrails:\n  custom_validator: clone_checks:look")
        return "guardrails.custom_validator: clone_checks:look"

    def database(self) -> str:
        """A store elsewhere."""
        store = self.url.replace("http", "postgresql") + "/desk"
        self._settings({"store": store})
        return f"store: {store}"

    def embedder(self) -> str:
        """An embedding model elsewhere."""
        name = "openai:x@https://models.evil.example/v1"
        self._settings({"memory": {"embedding_model": name}})
        return f"memory.embedding_model: {name}"

    def model_file(self) -> str:
        """A file of this folder as the model."""
        self._settings({"model": "local:.weights"})
        return "model: local:.weights"

    def model(self) -> str:
        """A model elsewhere."""
        self._settings({"model": "openai:x@https://models.evil.example/v1"})
        return "model: openai:x@https://models.evil.example/v1"

    @property
    def was_used(self) -> bool:
        """Whether code or a command ran, or a server was called."""
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return self.marker.exists()
        return True

    def _settings(self, values: dict[str, object]) -> None:
        self.desk.settings(json.dumps({"model": "demo:offline", **values}, indent=2))

    def _agent(self, lines: str, body: str = "Help.") -> None:
        self.desk.agent("helper", f"---\nname: helper\ndescription: H.\n{lines}\n---\n{body}\n")

    def _code(self, module: str) -> None:
        text = f"from pathlib import Path\nPath({str(self.marker)!r}).touch()\n"
        (self.desk.folder / f"{module}.py").write_text(f"{text}def look(x: str) -> str: ...\n")


NAMED = ["command", "team", "secret", "approval"]
FORMS = [*NAMED, "token", "function", "validator", "database", "model", "embedder", "model_file"]
CASES = [(form, name) for form in NAMED for name in COMMANDS]
CASES += [(form, name) for form in FORMS[len(NAMED) :] for name in ("run", "agents list")]


@pytest.fixture
def clone(bare: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clone]:
    monkeypatch.delenv("EKIDEN_TRUST")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield Clone(bare, listener, monkeypatch)


@pytest.mark.parametrize(("form", "command"), CASES)
def test_a_cloned_folder_is_refused_by_every_command_that_loads_it(
    clone: Clone, form: str, command: str
) -> None:
    line = getattr(clone, form)()
    ran = clone.desk(*COMMANDS[command])
    assert ran.code == Exit.NOT_TRUSTED
    assert "error[project.not_trusted]" in ran.err
    assert line in ran.err
    assert "`ekiden trust`" in ran.err
    assert not clone.was_used


@pytest.mark.parametrize("form", FORMS)
def test_commands_that_only_read_files_need_no_trust(clone: Clone, form: str) -> None:
    getattr(clone, form)()
    for command in (["agents", "validate"], ["config", "list"], ["config", "get", "tools.ask"]):
        assert clone.desk(*command).code == Exit.OK
    assert clone.desk("trust", "--show", "--json").json["trusted"] is False
    clone.desk("doctor")
    assert not clone.was_used


def test_plain_agents_need_no_trust(clone: Clone) -> None:
    assert clone.desk("agents", "list").code == Exit.OK
    clone.desk.settings('{"model": "openai:gpt-5-mini", "store": "x.db"}')
    assert clone.desk("agents", "list").code == Exit.OK
    clone.desk.settings('{"tools": {"ask": true, "shell": {"allow": []}}}')
    assert clone.desk("agents", "list").code == Exit.OK
    clone.desk.settings('{"team": "ekiden.project.demo:team"}')
    assert clone.desk("agents", "list").code == Exit.OK
    assert clone.desk("trust").out.startswith("nothing in ")


def test_commands_that_open_a_configured_database_need_trust(clone: Clone) -> None:
    clone.database()
    assert clone.desk("session", "list").code == Exit.NOT_TRUSTED
    assert clone.desk("store", "info").code == Exit.NOT_TRUSTED
    assert not clone.was_used
    assert clone.desk("session", "list", "--store", "none.db").code == Exit.STORE


def test_sending_memories_to_a_remote_embedder_needs_trust(clone: Clone) -> None:
    line = clone.embedder()
    ran = clone.desk("memory", "search", "tea", "--shared", "--meaning")
    assert ran.code == Exit.NOT_TRUSTED
    assert line in ran.err
    assert clone.desk("memory", "sync").code == Exit.NOT_TRUSTED
    assert clone.desk("memory", "store", "tea", "--shared").code == Exit.OK
    assert clone.desk("memory", "search", "tea", "--shared").code == Exit.OK


def test_a_symlink_to_the_users_settings_does_not_make_a_folder_trusted(
    clone: Clone, tmp_path: Path
) -> None:
    line = clone.function()
    own = tmp_path / "home" / ".ekiden" / "settings.json"
    own.parent.mkdir()
    own.write_text('{"model": "demo:offline"}')
    (clone.desk.folder / ".ekiden" / "settings.json").symlink_to(own)
    assert line in clone.desk("run", "hello").err
    assert not clone.was_used


@pytest.mark.parametrize("options", [["--team", "ekiden.project.demo:team"], ["--model", "demo:x"]])
def test_a_confirmation_covers_only_what_was_shown(clone: Clone, options: list[str]) -> None:
    name = "openai:x@https://models.evil.example/v1"
    line = clone.function()
    clone._settings({"tools": {"ask": False}, "team": "clone_team:team", "model": name})
    shown = clone.desk("route", "refunds", *options).err
    for each in (line, "team: clone_team:team", "tools.ask: false", f"model: {name}"):
        assert each in shown
    assert clone.desk("trust", "--show").out.count("clone_") == 2


def test_commands_that_use_one_setting_show_all_lines_that_need_trust(clone: Clone) -> None:
    line = clone.function()
    clone.database()
    assert line in clone.desk("session", "list").err


def test_a_change_during_the_question_is_asked_about(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.approval()
    lines: list[str] = []

    def meanwhile() -> None:
        lines.append(clone.function())

    monkeypatch.setattr("ekiden.cli.prompts.is_attended", lambda: True)
    monkeypatch.setattr("ekiden.cli.prompts.forget_typed_ahead", meanwhile)
    ran = clone.desk("run", "hello", input=b"y\nn\n")
    assert ran.code == Exit.NOT_TRUSTED
    assert len(lines) == 2
    assert lines[0] in ran.err
    assert not clone.was_used


def test_modules_of_the_folder_do_not_shadow_installed_ones(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "clone_bought.py").write_text("import clone_part\ndef look(x: str) -> str: ...")
    (installed / "clone_part.py").write_text("")
    monkeypatch.syspath_prepend(installed)
    clone._code("clone_part")
    own = tmp_path / "home" / ".ekiden" / "agents"
    own.mkdir(parents=True)
    text = "---\nname: own\ndescription: O.\ntools:\n  allow: [clone_bought:look]\n---\nHelp.\n"
    (own / "own.md").write_text(text)
    assert clone.desk("agents", "validate", "--imports").code == Exit.OK
    assert "clone_bought" in sys.modules
    assert not clone.was_used


def test_replicating_sessions_needs_trust(clone: Clone) -> None:
    clone.desk.settings('{"mirror": {"vertex": {"project": "evil", "engine": "1"}}}')
    ran = clone.desk("mirror", "run", "--once")
    assert ran.code == Exit.NOT_TRUSTED
    assert "mirror.vertex.project: evil" in ran.err


def test_trust_holds_until_a_file_changes(clone: Clone) -> None:
    clone.function()
    assert clone.desk("trust").code == Exit.OK
    assert clone.desk("agents", "list").code == Exit.OK
    module = clone.desk.folder / "clone_tools.py"
    before = module.read_text()
    module.write_text(f"import clone_more\n{before}")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED
    (clone.desk.folder / "clone_more.py").write_text("")
    assert clone.desk("trust").code == Exit.OK
    (clone.desk.folder / "clone_more.py").write_text("x = 1")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED, "an imported file changed"
    module.write_text(before)
    assert clone.desk("agents", "list").code == Exit.OK, "this content was trusted"
    clone.desk.agent("clerk", PLAIN + "More.\n")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED, "an agent file changed"
    clone.desk("trust")
    clone.desk("trust", "--revoke")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


@pytest.mark.parametrize(
    ("path", "server"),
    [
        ("files.py", {"command": "python3", "args": ["./files.py"]}),
        ("sub/files.py", {"command": "python3", "args": ["-m", "files"], "cwd": "sub"}),
        ("files.py", {"command": "python3", "args": ["../files.py"], "cwd": "sub"}),
        ("sub/files.py", {"command": "uv", "args": ["--directory", "sub", "run", "files.py"]}),
        ("sub/__main__.py", {"command": "python3", "args": ["-m", "sub"]}),
        ("su-b/__main__.py", {"command": "python3", "args": ["su-b"]}),
        (
            "sub/files.py",
            {"command": "python3", "args": ["-m", "files"], "env": {"PYTHONPATH": "x:sub"}},
        ),
        ("sub/go.sh", {"command": "sh", "args": ["-c", "cd sub && ./go.sh"]}),
    ],
)
def test_trust_covers_the_script_of_an_mcp_server(
    clone: Clone, path: str, server: dict[str, object]
) -> None:
    script = clone.desk.folder / path
    for folder in (script.parent, clone.desk.folder / "sub"):
        folder.mkdir(exist_ok=True)
    script.write_text("")
    clone.desk.settings(json.dumps({"mcpServers": {"files": server}}))
    clone.desk("trust")
    assert clone.desk("agents", "list").code == Exit.OK
    script.write_text("print()")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


def test_trust_covers_compiled_code_that_replaces_a_source(clone: Clone) -> None:
    clone.function()
    source = clone.desk.folder / "clone_tools.py"
    compiled = Path(py_compile.compile(str(source)))
    clone.desk("trust")
    compiled.write_bytes(compiled.read_bytes() + b"\0")
    assert clone.desk("agents", "list").code == Exit.OK, "Python writes such files by itself"
    py_compile.compile(str(source), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


def test_a_folder_named_like_an_agent_file_is_not_an_error(clone: Clone) -> None:
    clone.function()
    (clone.desk.folder / ".ekiden" / "agents" / "x.md").mkdir()
    assert clone.desk("trust").code == Exit.OK
    assert "agent.not_a_file" in clone.desk("agents", "validate").out


def test_trust_belongs_to_one_folder_and_is_stored_in_the_home_folder(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.approval()
    (clone.desk.folder / ".ekiden" / "trusted.json").write_text("{}")
    clone.desk("trust", str(clone.desk.folder))
    kept = tmp_path / "home" / ".ekiden" / "trusted.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    listed = clone.desk("trust", "--list", "--json").json
    assert [each["folder"] for each in listed] == [str(clone.desk.folder)]
    (tmp_path / "link").symlink_to(clone.desk.folder)
    monkeypatch.chdir(tmp_path / "link")
    assert clone.desk("agents", "list").code == Exit.OK, "the same folder by another name"
    moved = clone.desk.folder.rename(tmp_path / "moved")
    monkeypatch.chdir(moved)
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


@pytest.mark.parametrize("damage", ["", "[]", '{"version": 1, "folders": [1]}', "\x00"])
def test_a_damaged_trust_list_trusts_nothing_and_is_rewritten(
    clone: Clone, tmp_path: Path, damage: str
) -> None:
    clone.approval()
    clone.desk("trust")
    kept = tmp_path / "home" / ".ekiden" / "trusted.json"
    kept.write_text(damage)
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED
    assert clone.desk("trust").code == Exit.OK
    assert clone.desk("agents", "list").code == Exit.OK


def test_a_trust_list_of_a_newer_version_is_left_unchanged(clone: Clone, tmp_path: Path) -> None:
    clone.approval()
    kept = tmp_path / "home" / ".ekiden" / "trusted.json"
    kept.parent.mkdir()
    kept.write_text('{"version": 2}')
    ran = clone.desk("trust", "--json")
    assert ran.error["code"] == "trust.not_stored"
    assert kept.read_text() == '{"version": 2}'


@pytest.mark.parametrize("told", ["option", "variable"])
def test_ci_can_trust_a_folder_for_one_command(
    clone: Clone, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.approval()
    if told == "variable":
        monkeypatch.setenv("EKIDEN_TRUST", "1")
    option = ["--trust"] if told == "option" else []
    assert clone.desk("agents", "list", *option).code == Exit.OK
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


def test_an_agent_cannot_trust_a_folder(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.approval()
    monkeypatch.setenv("EKIDEN_ACTING_AGENT", "helper")
    for command in (["trust"], ["agents", "list", "--trust"], ["config", "set", "user", "ada"]):
        clone.desk(*command)
    monkeypatch.delenv("EKIDEN_ACTING_AGENT")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


def test_a_team_named_on_the_command_line_needs_no_trust(clone: Clone) -> None:
    clone._settings({"team": "clone_team:team"})
    assert clone.desk("agents", "list", "--team", "ekiden.project.demo:team").code == Exit.OK


def test_folder_code_named_by_the_users_own_files_needs_trust(clone: Clone, tmp_path: Path) -> None:
    clone._code("clone_own")
    own = tmp_path / "home" / ".ekiden" / "agents"
    own.mkdir(parents=True)
    text = "---\nname: own\ndescription: O.\ntools:\n  allow: [clone_own:look]\n---\nHelp.\n"
    (own / "own.md").write_text(text)
    assert clone.desk("run", "hello").code == Exit.NOT_TRUSTED
    (clone.desk.folder / "clone_own.py").unlink()
    assert clone.desk("agents", "list").code == Exit.OK


def test_agents_with_tools_without_approval_need_trust(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_TOOLS_ASK", "false")
    assert clone.desk("agents", "list").code == Exit.OK
    clone._agent("tools:\n  allow: [shell]")
    assert "tools.allow: shell" in clone.desk("agents", "list").err


def test_init_trusts_the_files_it_wrote(clone: Clone) -> None:
    made = clone.desk("init", "--template", "coding", "--dir", "new", "--json")
    assert made.json["trusted"] is True
    assert clone.desk("trust", "new", "--show", "--json").json["trusted"] is True


def test_init_does_not_trust_existing_files(clone: Clone) -> None:
    clone.approval()
    made = clone.desk("init", "--template", "coding")
    assert "not trusted" in made.out
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED


def test_a_setting_changed_by_the_user_keeps_trust(clone: Clone) -> None:
    assert clone.desk("config", "set", "tools.ask", "false").code == Exit.OK
    assert clone.desk("agents", "list").code == Exit.OK
    clone.desk("config", "unset", "tools.ask")
    clone.approval()
    clone.desk.agent("clerk", PLAIN + "More.\n")
    clone.desk("config", "set", "user", "ada")
    assert clone.desk("agents", "list").code == Exit.NOT_TRUSTED, "it was not trusted before"


def test_shown_lines_are_escaped(clone: Clone) -> None:
    clone._settings({"mcpServers": {"x": {"command": "sh\x1b[2J\u202e\nok"}}})
    shown = clone.desk("agents", "list").err
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "command: sh\\x1b[2J\\u202e\\nok" in shown


def test_the_home_folder_is_trusted(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.approval()
    monkeypatch.setenv("HOME", str(clone.desk.folder))
    assert clone.desk("agents", "list").code == Exit.OK


def test_help_shows_how_to_trust(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "--help"]) == 0
    assert "ekiden trust --show" in capsys.readouterr().out


def test_a_users_server_that_starts_a_file_of_the_folder_needs_trust(
    clone: Clone, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".ekiden").mkdir()
    servers = {"files": {"command": "python3", "args": ["-m", "clone_server"]}}
    own = tmp_path / "home" / ".ekiden" / "settings.json"
    own.write_text(json.dumps({"mcpServers": servers}))
    assert clone.desk("agents", "list").code == Exit.OK
    (clone.desk.folder / "clone_server.py").write_text("")
    assert "mcpServers.files.command: python3" in clone.desk("agents", "list").err


def test_a_chat_does_not_reload_a_change_that_needs_trust(clone: Clone) -> None:
    clone.desk.settings('{"model": "demo:offline", "agents": {"routing": {"strategy": "rule"}}}')
    roster = open_roster(ChatFlags())
    clone.function()
    told = asyncio.run(roster.ready())
    assert told[0].startswith("project.not_trusted: ")
    assert told[1] == "the agents stay unchanged"
    assert [agent.name for agent in roster.team if agent.router is None] == ["clerk"]
    assert not clone.was_used


def test_settings_that_need_trust() -> None:
    """A new setting that runs, sends or weakens something belongs here."""
    assert {each.name for each in SETTINGS if each.risk is not None} == {
        "agents.routing.llm.model",
        "local.model",
        "memory.embedding_model",
        "mirror.vertex.engine",
        "mirror.vertex.project",
        "model",
        "server.hosts",
        "server.origins",
        "store",
        "team",
        "tools.ask",
        "tools.ask_destructive",
        "tools.http_get.allow",
        "tools.shell.allow",
        "tools.web_search.key_env",
        "tools.web_search.url",
    }
