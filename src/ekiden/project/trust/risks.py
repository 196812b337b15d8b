"""The lines of a project's files that run code, start programs, send data or weaken approval."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ekiden.agents import AgentDefinition, LoadedAgents, agent_folders
from ekiden.agents.definition import printable
from ekiden.core.aliases import commands_of
from ekiden.core.checks.addresses import is_loopback
from ekiden.core.values import dumps
from ekiden.project.agent_files.edges import is_mcp_name
from ekiden.project.settings.files import SettingsFiles, read_text
from ekiden.project.settings.jsonc import JsoncDocument, JsoncMember, ObjectNode, parse
from ekiden.project.settings.keys import SETTINGS, Setting
from ekiden.project.settings.loaded import LoadedSettings, SettingOrigin, plain, without_tokens
from ekiden.project.settings.model import SERVERS
from ekiden.project.settings.places import key_path, place_of
from ekiden.project.stores import DEMO_TEAM
from ekiden.project.trust.modules import is_module_of, started_by
from ekiden.tools.builtin import BUILTIN_NAMES

_LONGEST = 2_000
_MODEL_PATH = re.compile(r"[~.]|.*[/\\]|.*\.gguf$", re.IGNORECASE | re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)")
_EFFECTS: Mapping[str, str] = {
    "command": "starts this program",
    "args": "with these arguments",
    "env": "in this environment",
    "cwd": "in this folder",
    "headers": "sends this header",
    "url": "connects to this address",
    "httpUrl": "connects to this address",
    "serverUrl": "connects to this address",
}
"""By the keys of an MCP server."""
_MODEL_FILE = "loads this model file"
_SENDS = "sends conversations to this address"
_MODELS = ("model", "agents.routing.llm.model", "memory.embedding_model")
_DEMO_TOOL = "ekiden.project.demo:lookup_order"
"""Comes with Ekiden and reads a fixed table; templates name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A line that needs trust."""

    path: Path
    """Of the file, below the project's folder where it is in there."""
    line: int
    key: str
    """``mcpServers.files.command``, or the key in an agent file."""
    value: str
    """On one line, safe for a terminal; tokens of well-known services are masked."""
    effect: str
    """What it does: "starts this program"."""

    def __str__(self) -> str:
        place = f"{printable(str(self.path))}:{self.line}"
        return f"{place}: {printable(self.key)}: {self.value}  ({self.effect})"

    def to_json(self) -> dict[str, object]:
        """As `ekiden trust --json` prints it."""
        return {
            "path": printable(str(self.path)),
            "line": self.line,
            "key": printable(self.key),
            "value": self.value,
            "effect": self.effect,
        }


def settings_risks(
    root: Path, loaded: LoadedSettings, files: SettingsFiles, *, leave_out: Collection[str] = ()
) -> Iterator[Risk]:
    """Of the settings that hold because the project's file says so, without those to `leave_out`.

    The user's own counts only where it names code or files that the project's folder has.
    """
    settings = {each.name: each for each in SETTINGS}
    document = _document(files.project)
    for name, origin in loaded.origins.items():
        if name in leave_out or origin.kind not in ("project", "user"):
            continue
        value, line = loaded.value(name), origin.line or 1
        path = files.project if origin.where is None else Path(origin.where)
        if not name.startswith(f"{SERVERS}."):
            effect = _setting_effect(settings[name], value, origin, root)
            if effect is not None:
                yield _risk(root, path, line, name, value, effect)
        elif origin.kind == "project":
            yield from _server_risks(root, name, path, document)
        elif (started := started_by(value, root)).files or started.modules:
            effect = "starts this program with files of this folder"
            yield _risk(root, path, line, f"{name}.command", value.get("command"), effect)


def agent_risks(
    root: Path, loaded: LoadedSettings, files: LoadedAgents, *, home: Path | None = None
) -> Iterator[Risk]:
    """Of the agents' files. Of the user's own, only what the project's folder has the code for."""
    asks = loaded.settings.tools.ask or loaded.origin("tools.ask").kind == "project"
    foreign = loaded.settings.agents.foreign_user_folders
    users = [
        each.path
        for each in agent_folders(root, home=home, foreign_user_folders=foreign)
        if each.scope == "user"
    ]
    for each in (*files.definitions, *files.partial):
        is_users = any(each.path.is_relative_to(folder) for folder in users)
        for key, name, line in functions_of(each):
            if not is_users or is_module_of(name, root):
                yield _risk(root, each.path, line, key, name, "imports this code")
        if is_users:
            continue
        yield from _calls(root, each)
        if not asks:
            for name in each.tools:
                if name in BUILTIN_NAMES or is_mcp_name(name) or commands_of(name):
                    line, _ = each.tool_places.get(name, (each.line, 1))
                    effect = "runs without approval, as your settings say"
                    yield _risk(root, each.path, line, "tools.allow", name, effect)


def functions_of(definition: AgentDefinition) -> Iterator[tuple[str, str, int]]:
    """The functions that an agent's file names, each with its key and its line."""
    for name in definition.tools:
        if ":" in name and name != _DEMO_TOOL and not is_mcp_name(name) and not commands_of(name):
            line, _ = definition.tool_places.get(name, (definition.line, 1))
            yield "tools.allow", name, line
    said = definition.guardrails
    for name in () if said is None else said.functions:
        assert said is not None
        keys = [key for key in said.places if getattr(said, key[1:], None) == name]
        key = keys[0] if keys else "/"
        line, _ = said.places.get(key, (definition.line, 1))
        yield f"guardrails.{key[1:]}", name, line


def _calls(root: Path, definition: AgentDefinition) -> Iterator[Risk]:
    """Addresses that an agent's file names."""
    path, remote, model = definition.path, definition.a2a, definition.model
    if remote is not None:
        effect = _SENDS
        if remote.token_env is not None:
            effect += f", with {remote.token_env} of your environment"
        yield _risk(root, path, remote.line, "a2a.card", remote.card, effect)
        if remote.token_env is not None:
            line = _line_of(path, remote.token_env) or remote.line
            effect = "sends this variable of your environment"
            yield _risk(root, path, line, "a2a.token_env", remote.token_env, effect)
    effect_of_model = None if model is None else _model_effect(model)
    if model is not None and effect_of_model is not None:
        line = _line_of(path, model) or definition.line
        yield _risk(root, path, line, "model", model, effect_of_model)


def _setting_effect(
    setting: Setting, value: object, origin: SettingOrigin, root: Path
) -> str | None:
    """What the value does; `None` if it needs no trust."""
    if setting.risk is None or value in (plain(setting.default), DEMO_TEAM):
        return None
    if origin.kind == "user":
        is_here = setting.name == "team" and is_module_of(str(value), root)
        return setting.risk if is_here else None
    if setting.name == "store":
        is_remote = str(value).partition("://")[0] in ("postgresql", "postgres")
        return setting.risk if is_remote else None
    if setting.name in _MODELS:
        return _model_effect(str(value), sends=setting.risk)
    return setting.risk


def _model_effect(model: str, *, sends: str = _SENDS) -> str | None:
    """What a model does that is neither a provider's own nor installed here.

    A server on this machine is no risk: nothing leaves it.
    """
    provider, _, rest = model.partition(":")
    if provider == "local" and _MODEL_PATH.match(rest.strip()):
        return _MODEL_FILE
    found = re.search("@(https?://.*)", rest, re.IGNORECASE | re.DOTALL)
    if found is None:
        return None
    try:
        is_here = is_loopback(urlsplit(found[1]).hostname)
    except ValueError:
        is_here = False
    return None if is_here else sends


def _server_risks(
    root: Path, name: str, path: Path, document: JsoncDocument | None
) -> Iterator[Risk]:
    """One line for everything that an MCP server is started or called with."""
    member = None if document is None else _member(document, name)
    if document is None or member is None or not isinstance(member.node, ObjectNode):
        return
    values = member.node.value
    if isinstance(values, Mapping) and values.get("disabled") is True:
        return
    for each in member.node.members:
        effect = _EFFECTS.get(each.key)
        if effect is None:
            continue
        inner = [each]
        if isinstance(each.node, ObjectNode):
            inner = list(each.node.members)
        for part in inner:
            key = f"{name}.{each.key}" + ("" if part is each else f".{part.key}")
            line, _ = document.position(part.start)
            yield _risk(root, path, line, key, part.node.value, effect)


def _member(document: JsoncDocument, name: str) -> JsoncMember | None:
    node, found = document.root, None
    for spellings in key_path(place_of(name)):
        if not isinstance(node, ObjectNode):
            return None
        found = next((each for each in reversed(node.members) if each.key in spellings), None)
        if found is None:
            return None
        node = found.node
    return found


def _document(path: Path) -> JsoncDocument | None:
    text = read_text(path)
    return None if text is None else parse(text)


def _line_of(path: Path, text: str) -> int | None:
    """The first line of a file that has `text` in it."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((number for number, line in enumerate(lines, 1) if text in line), None)


def _risk(root: Path, path: Path, line: int, key: str, value: object, effect: str) -> Risk:
    text = printable(without_tokens(value if isinstance(value, str) else dumps(value)))
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… and {len(text) - _LONGEST:,} more characters"
    if names := list(dict.fromkeys(_VARIABLE.findall(text))):
        effect += f", with {', '.join(names)} of your environment"
    if path.is_relative_to(root):
        path = path.relative_to(root)
    return Risk(path=path, line=line, key=key, value=text, effect=effect)
