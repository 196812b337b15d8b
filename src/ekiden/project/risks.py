"""Finds lines in a project's files that run code, start programs, send data or weaken approval."""

from __future__ import annotations

import ast
import glob
import importlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ekiden.agents import AgentDefinition, LoadedAgents, agent_folders
from ekiden.agents.definition import printable
from ekiden.core.checks.addresses import is_loopback
from ekiden.core.dataclass import dataclass
from ekiden.core.syntax import parse_module
from ekiden.core.text.wording import commands_of
from ekiden.core.values import dumps
from ekiden.project.agent_files.edges import is_mcp_name
from ekiden.project.project import DEMO_TEAM
from ekiden.project.settings.files import SettingsFiles, read_text
from ekiden.project.settings.jsonc import JsoncDocument, JsoncMember, ObjectNode, parse
from ekiden.project.settings.keys import (
    SETTINGS,
    Setting,
    key_path,
    place_of,
    plain,
    without_tokens,
)
from ekiden.project.settings.model import SERVERS
from ekiden.project.settings.sources import LoadedSettings, SettingOrigin
from ekiden.tools.builtin import BUILTIN_NAMES

_BETWEEN = re.compile(r"[\s'\"=;|&()<>]+")
_MODULE = re.compile(r"[^\W\d]\w*(\.\w+)*")
_MOST_FILES = 5_000
_LONGEST_SOURCE = 5_000_000


def is_module_of(name: str, root: Path) -> bool:
    """Whether the module of ``module:function`` is in the folder `root`."""
    top = name.partition(":")[0].partition(".")[0]
    return bool(top) and PathFinder.find_spec(top, [str(root)]) is not None


class Started(NamedTuple):
    """The parts of a project's folder from which an MCP server is started."""

    files: Sequence[Path] = ()
    modules: Sequence[str] = ()
    folders: Sequence[Path] = ()
    """Folders in which Python may find modules."""


def started_by(server: object, root: Path) -> Started:
    """The parts of the folder `root` that the entry of an MCP server names."""
    if not isinstance(server, Mapping):
        return Started()
    command = _words(server.get("command"), *_texts(server.get("args")))
    places = [*command, *_words(server.get("cwd"), *_texts(server.get("env")))]
    named = [path for path in _found(places, root, root) if path.is_dir()]
    folders = list(dict.fromkeys([root, *named]))
    paths = [path for folder in folders for path in _found(places, folder, root)]
    paths += [path for folder in named for path in _found(["__main__.py"], folder, root)]
    names = [name for word in command if _MODULE.fullmatch(word) for name in _with_main(word)]
    return Started(
        files=[path for path in paths if path.is_file()],
        modules=[
            name for name in names if any(any(_files_of(name, [str(each)])) for each in folders)
        ],
        folders=folders,
    )


def _with_main(module: str) -> tuple[str, str]:
    """The modules that ``python -m`` may run: the module, or ``__main__`` in the package."""
    return module, f"{module}.__main__"


def _words(*texts: object) -> list[str]:
    """All parts of the texts that could be a path or a module."""
    found: dict[str, None] = {}
    for text in texts:
        if isinstance(text, str) and "\0" not in text:
            parts = (text, *_BETWEEN.split(text), *text.split(os.pathsep))
            found |= dict.fromkeys(filter(None, parts))
    return list(found)


def _texts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _found(words: Iterable[str], folder: Path, root: Path) -> list[Path]:
    """The existing paths that these words name, relative to `folder`, if they are in the
    project."""
    inside = os.path.realpath(root)
    return [
        path
        for path in (folder / word for word in words)
        if os.path.exists(path) and Path(os.path.realpath(path)).is_relative_to(inside)
    ]


def python_files(
    modules: Iterable[str], scripts: Iterable[Path], root: Path, *, beside: Iterable[Path] = ()
) -> set[Path]:
    """The files of these modules and scripts below `root`, and of the modules that they import.

    Modules are searched in `root`, in the folders `beside`, and in the folders of the scripts.
    """
    importlib.invalidate_caches()
    folders = dict.fromkeys([str(root), *map(str, beside)])
    found: set[Path] = set()
    seen: set[str] = set()
    waiting = list(modules)
    for script in scripts:
        found.add(script)
        if script.suffix == ".py":
            folders[str(script.parent)] = None
            waiting += _imported(script, "")
    while waiting and len(found) < _MOST_FILES:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for folder in folders:
            for path, module in _files_of(name, [folder]):
                if path not in found:
                    found.add(path)
                    waiting += _imported(path, module)
    return {*found, *(each for path in found for each in _compiled(path))}


def _compiled(path: Path) -> Iterator[Path]:
    """The bytecode files that Python runs instead of the source without comparing them (unchecked
    hash-based pycs). Imports never write such files."""
    for each in path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc"):
        try:
            with each.open("rb") as file:
                flags = int.from_bytes(file.read(8)[4:], "little")
        except OSError:
            continue
        if flags & 0b11 == 0b01:
            yield each


def _files_of(name: str, folders: list[str]) -> Iterator[tuple[Path, str]]:
    """The files that importing `name` runs, with their modules: first those of the packages."""
    above = ""
    for part in name.split("."):
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return
        above = f"{above}.{part}".lstrip(".")
        if spec.origin is not None and spec.has_location:
            yield Path(spec.origin), above
        if spec.submodule_search_locations is None:
            return
        folders = [os.path.join(folder, part) for folder in folders]


def _imported(path: Path, module: str) -> list[str]:
    """The names in the import statements of a file; empty if it is not Python."""
    try:
        if path.suffix != ".py" or path.stat().st_size > _LONGEST_SOURCE or not path.is_file():
            return []
        tree = parse_module(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level and package else []
            parts = parts[: len(parts) - max(node.level - 1, 0)]
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{each.name}".lstrip(".") for each in node.names)]
    return [name for name in names if name]


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
"""The effects of the keys of an MCP server."""
_MODEL_FILE = "loads this model file"
_SENDS = "sends conversations to this address"
_MODELS = ("model", "agents.routing.llm.model", "memory.embedding_model")
_DEMO_TOOL = "ekiden.project.demo:lookup_order"
"""A harmless tool in Ekiden itself, which the templates name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A line of a settings or agent file that takes effect only in a trusted folder."""

    path: Path
    """The path of the file. It is relative to the project folder if the file is in this folder."""
    line: int
    key: str
    """The key of the line, such as ``mcpServers.files.command``, or the key in an agent file."""
    value: str
    """The value on one line, safe to print to a terminal. Tokens of well-known services are
    masked."""
    effect: str
    """The effect of the line, such as "starts this program"."""

    def __str__(self) -> str:
        place = f"{printable(str(self.path))}:{self.line}"
        return f"{place}: {printable(self.key)}: {self.value}  ({self.effect})"

    def to_json(self) -> dict[str, object]:
        """The risk as JSON, as `ekiden trust --json` prints it."""
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
    """The risks of the settings in the project's file, except the settings in `leave_out`.

    A setting in the user's file is a risk only if it names code or files in the project's folder.
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
    """The risks of the agent files. A user's own file is a risk only if it names code in the
    project's folder."""
    # If the project's own file turns approval off, `settings_risks` reports that line instead.
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
    guardrails = definition.guardrails
    for name in () if guardrails is None else guardrails.functions:
        assert guardrails is not None
        keys = [key for key in guardrails.places if getattr(guardrails, key[1:], None) == name]
        key = keys[0] if keys else "/"
        line, _ = guardrails.places.get(key, (definition.line, 1))
        yield f"guardrails.{key[1:]}", name, line


def _calls(root: Path, definition: AgentDefinition) -> Iterator[Risk]:
    """The risks of the addresses in an agent file."""
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
    """The effect of a value that needs trust; `None` if it needs none."""
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
    """The effect of a model from a file, or at another address than the provider's; `None` if there
    is none. A server on this machine is no risk, because no data leaves the machine."""
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
    """The number of the first line that contains `text`; `None` if there is none."""
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
