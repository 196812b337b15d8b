"""Caches the team of a project, as far as routing needs it, in the user's cache folder.

The load of a large project takes longer than the routing of a request. Therefore `ekiden route`
stores the agents with their triggers, and the settings. The stored team is used only while its
sources are unchanged: the content of every file, the names in every folder, the environment and
Ekiden's own code. For the project's files, contents are compared instead of times and sizes, so
that no change is missed.

The cache is untrusted data, so a stored team with any error is ignored.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ekiden import __version__
from ekiden.core.agent import Agent
from ekiden.core.checks.fields import check_fields
from ekiden.core.errors import UserError
from ekiden.core.profile import Capability, Triggers
from ekiden.core.values import dumps, loads
from ekiden.embeddings.cache_folder import cache_folder, keep_newest, write_whole
from ekiden.routing.router import Router
from ekiden.routing.settings import (
    LlmSettings,
    RoutingSettings,
    RuleSettings,
    SemanticSettings,
    StickySettings,
)

if TYPE_CHECKING:
    from pathlib import Path

_FEWEST: Final = 50
"""A smaller team is loaded soon enough."""
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_TEAMS: Final = 20
_SUFFIX: Final = ".team"
_BAD: Final = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    UserError,
)
_SECTIONS: Final[Mapping[str, Any]] = {
    "rule": RuleSettings,
    "semantic": SemanticSettings,
    "llm": LlmSettings,
    "sticky": StickySettings,
}
_TEXTS: Final = ("title", "description", "handoff_description")


class StoredTeam(NamedTuple):
    """A team for routing. The agents have no tools and handoffs, so the team cannot run."""

    router: Router
    agents: Mapping[str, Agent[Any]]
    """All agents by name, without the router."""
    settings: RoutingSettings
    """The settings of the project. The router's own settings may differ, if an agent file
    configures the router."""
    problems: Sequence[tuple[Mapping[str, Any], str]]
    """The errors of skipped files, each as JSON and as text."""


class TeamSources(NamedTuple):
    """The files and folders from which a team is loaded. They include missing files and folders,
    because the team changes when these appear."""

    files: tuple[str, ...]
    folders: tuple[str, ...]

    def digest(self) -> str:
        """A hash of the contents of files and folders, and of everything else that the team depends
        on."""
        digest = blake2b(repr((self, *_surroundings())).encode("utf-8", "surrogatepass"))
        for path in self.folders:
            digest.update(repr(_names(path)).encode("utf-8", "surrogatepass"))
        for path in self.files:
            data = _content(path)
            digest.update(b"missing;" if data is None else f"{len(data)};".encode())
            digest.update(data or b"")
        return digest.hexdigest()


def sources(files: Iterable[Path], folders: Iterable[Path]) -> TeamSources:
    """The sources of a team: `files`, and the agent files in `folders` and their subfolders."""
    inside = [os.path.abspath(path) for path in files]
    visited: list[str] = []
    waiting = [os.path.abspath(path) for path in folders]
    while waiting:
        path = waiting.pop()
        visited.append(path)
        for name, kind in _names(path) or ():
            if kind == "folder":
                waiting.append(os.path.join(path, name))
            elif name.endswith(".md"):
                inside.append(os.path.join(path, name))
    return TeamSources(tuple(dict.fromkeys(inside)), tuple(dict.fromkeys(visited)))


def read_team(root: str) -> StoredTeam | None:
    """The stored team of the folder `root`; `None` if no team is stored or a source has changed."""
    try:
        path = _path(root)
        if os.stat(path).st_size > _MOST_BYTES:
            return None
        with open(path, "rb") as file:
            checksum, text = file.readline(), file.read()
        if checksum != _checksum(text):
            return None
        data = loads(text)
        files, folders = map(_texts, data["sources"])
        if TeamSources(files, folders).digest() != data["digest"]:
            return None
        team = _team(data)
    except _BAD:
        return None
    with suppress(OSError):
        # `_remove_oldest` keeps the teams that were used last.
        os.utime(path)
    return team


def write_team(
    root: str,
    made_of: TeamSources,
    digest: str,
    *,
    router: Router,
    agents: Iterable[Agent[Any]],
    settings: RoutingSettings,
    problems: Sequence[tuple[Mapping[str, Any], str]],
) -> None:
    """Store a team. `digest` is the digest of its sources from before the team was loaded.

    Nothing is stored if a source has changed since then, or if the folder cannot be written. Small
    teams and teams that ask a model are not stored either.
    """
    targets = router.targets
    if len(targets) < _FEWEST or router.has_model:
        return
    others = [agent for agent in agents if agent.name not in targets]
    with suppress(*_BAD):
        data = {
            "sources": list(made_of),
            "digest": digest,
            "targets": [_agent_json(each) for each in targets.values()],
            "others": [_agent_json(each) for each in others],
            "settings": [_settings_json(settings), _settings_json(router.settings)],
            "problems": list(problems),
        }
        text = dumps(data).encode()
        if len(text) <= _MOST_BYTES and _is_same(_team(loads(text)), router, settings):
            if made_of.digest() != digest:
                return
            path = _path(root)
            write_whole(path, [_checksum(text), text])
            keep_newest(path.parent, _SUFFIX, _MOST_TEAMS)


def _is_same(team: StoredTeam, router: Router, settings: RoutingSettings) -> bool:
    """Whether the team that will be read is the one that was written."""
    return (
        team.settings == settings
        and team.router.settings == router.settings
        and [_agent_json(each) for each in team.router.targets.values()]
        == [_agent_json(each) for each in router.targets.values()]
    )


def _path(root: str) -> Path:
    digest = sha256(os.fsencode(os.path.abspath(root))).hexdigest()
    return cache_folder("teams") / f"{digest}{_SUFFIX}"


def _checksum(text: bytes) -> bytes:
    return blake2b(text, digest_size=32).hexdigest().encode() + b"\n"


def _surroundings() -> tuple[object, ...]:
    """What a team depends on besides files: the environment, the home folder, Ekiden's code."""
    home = os.path.expanduser("~")
    environment = sorted(each for each in os.environ.items() if each[0].startswith("EKIDEN_"))
    package = os.path.dirname(os.path.dirname(__file__))
    return (environment, home, os.path.realpath(home), __version__, [*_code(package)])


def _code(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=_name):
            if entry.name.endswith(".py"):
                seen = entry.stat()
                # Unlike a project's files, Ekiden's own files are too many to be read for each
                # request.
                yield entry.name, seen.st_size, seen.st_mtime_ns
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _code(entry.path)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _names(path: str) -> list[tuple[str, str]] | None:
    """The entries of a folder with their kinds; `None` if there is no such folder."""
    try:
        with os.scandir(path) as entries:
            return sorted((entry.name, _kind(entry)) for entry in entries if entry.name[0] != ".")
    except OSError:
        return None


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir() else "file"


def _content(path: str) -> bytes | None:
    """The bytes of a file; `None` if there is no such file, or if it cannot be read."""
    try:
        # Non-blocking: opening a pipe without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            return None
        data = os.read(descriptor, seen.st_size + 1)
        while len(data) <= _MOST_BYTES and (more := os.read(descriptor, 1 << 20)):
            data += more
        return data
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _agent_json(agent: Agent[Any]) -> list[Any]:
    triggers = agent.triggers
    return [
        agent.name,
        agent.scope,
        *(getattr(agent, name) for name in _TEXTS),
        [
            list(triggers.keywords),
            list(triggers.patterns),
            triggers.priority,
            list(triggers.examples),
        ],
        [
            [each.name, each.description, each.proficiency, list(each.tags)]
            for each in agent.capabilities
        ],
    ]


def _settings_json(settings: RoutingSettings) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(settings)


def _team(data: Any) -> StoredTeam:
    targets = [_agent(each) for each in data["targets"]]
    own, of_router = map(_settings, data["settings"])
    agents = [*targets, *map(_agent, data["others"])]
    problems = [(dict(each), str(text)) for each, text in data["problems"]]
    router = Router(targets, settings=of_router)
    return StoredTeam(router, {each.name: each for each in agents}, own, problems)


def _settings(data: Any) -> RoutingSettings:
    sections = {name: kind(**data[name]) for name, kind in _SECTIONS.items()}
    made = RoutingSettings(**{**data, **sections})
    check_fields(made)
    return made


def _agent(data: Any) -> Agent[Any]:
    name, scope, title, description, handoff_description, triggers, capabilities = data
    keywords, patterns, priority, examples = triggers
    return Agent(
        name,
        scope=scope,
        title=title,
        description=description,
        handoff_description=handoff_description,
        triggers=Triggers(
            keywords=tuple(keywords),
            patterns=tuple(patterns),
            priority=priority,
            examples=tuple(examples),
        ),
        capabilities=tuple([_capability(*each) for each in capabilities]),
    )


def _capability(name: Any, description: Any, proficiency: Any, tags: Any) -> Capability:
    return Capability(name=name, description=description, proficiency=proficiency, tags=tuple(tags))


def _texts(data: Any) -> tuple[str, ...]:
    texts = tuple(data)
    if not all(type(each) is str for each in texts):
        raise ValueError("a path is not text")
    return texts
