"""Caches the definitions of unchanged agent files in the user's cache folder.

Parsing a file takes ten times as long as reading its definition from the cache. The cache finds a
definition by a hash of the file's content, so a changed file is always parsed again. Files with
problems, and definitions that JSON cannot represent, are parsed each time.

The content of the cache is untrusted. An invalid definition is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ekiden import __version__
from ekiden.agents.definition import (
    AgentDefinition,
    HandoffDefinition,
    MemoryDefinition,
    Peer,
    RemoteDefinition,
    SupervisorDefinition,
    WrittenCondition,
)
from ekiden.core.checks.fields import check_fields
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffTrigger
from ekiden.core.profile import Budget, Capability, Confirmation, Triggers
from ekiden.core.values import dumps, loads
from ekiden.embeddings.cache_folder import cache_folder, keep_newest, write_whole

_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_CACHES: Final = 20
_SUFFIX: Final = ".json"
_BAD: Final = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, UserError)
_OBJECTS: Final[Mapping[str, Any]] = {
    "agents": Peer,
    "fallback": Peer,
    "can_ask": Peer,
    "can_tell": Peer,
    "a2a": RemoteDefinition,
    "budget": Budget,
    "capabilities": Capability,
    "conditions": WrittenCondition,
    "confirm": Confirmation,
    "confirmation": Confirmation,
    "handoffs": HandoffDefinition,
    "memory": MemoryDefinition,
    "model_settings": ModelSettings,
    "supervisor": SupervisorDefinition,
    "trigger": HandoffTrigger,
    "triggers": Triggers,
}
"""By the name of a field, the class of the objects that stand in it."""


class DefinitionCache:
    """The cached definitions of one project.

    For example::

        cache = DefinitionCache(root)
        key = cache.key(path.read_bytes(), str(path), "ekiden", "project")
        definition = cache.get(key, path)
        cache.save()
    """

    def __init__(self, root: Path) -> None:
        digest = sha256(os.fsencode(root.absolute())).hexdigest()
        self._path = cache_folder("agents") / f"{digest}{_SUFFIX}"
        self._known = _read(self._path)
        self._used: dict[str, Any] = {}
        self._has_news = False

    def key(self, data: bytes, *facts: str) -> str:
        """The key of a file with the content `data`. `facts` are other values that determine the
        definition, such as the file's path."""
        digest = sha256("\0".join((_code(), *facts)).encode("utf-8", "surrogatepass"))
        digest.update(data)
        return digest.hexdigest()

    def get(self, key: str, path: Path) -> AgentDefinition | None:
        """The cached definition of the file at `path`, or `None` if the cache has no definition
        with this key."""
        found = self._known.get(key)
        if found is None:
            return None
        try:
            definition = _definition(found, path)
        except _BAD:
            return None
        self._used[key] = found
        return definition

    def put(self, key: str, definition: AgentDefinition) -> None:
        """Remember the definition, so that `save` stores it."""
        self._has_news = True
        with suppress(*_BAD):
            written = loads(dumps(_json(definition)))
            if _definition(written, definition.path) == definition:
                self._used[key] = written

    def save(self) -> None:
        """If there are new definitions, store all definitions that were used since the cache was
        read.

        If the cache cannot be written, nothing is stored, and no error is raised.
        """
        if self._has_news:
            text = dumps({"code": _code(), "definitions": self._used}).encode()
            if len(text) <= _MOST_BYTES:
                with suppress(OSError):
                    write_whole(self._path, [text])
                    keep_newest(self._path.parent, _SUFFIX, _MOST_CACHES)


@cache
def _code() -> str:
    """Differs when the code that parses and checks files was changed."""
    folder = Path(__file__).parent
    stamps = []
    for each in sorted([*folder.rglob("*.py"), *folder.with_name("core").rglob("*.py")]):
        seen = each.stat()
        stamps.append((each.name, seen.st_size, seen.st_mtime_ns))
    return f"{__version__} {sha256(repr(stamps).encode()).hexdigest()}"


def _read(path: Path) -> Mapping[str, Any]:
    with suppress(*_BAD):
        if path.stat().st_size <= _MOST_BYTES:
            found = loads(path.read_bytes())
            if found["code"] == _code() and isinstance(found["definitions"], dict):
                # The time marks the file as used, for `keep_newest`.
                os.utime(path)
                return found["definitions"]
    return {}


def _json(value: Any) -> Any:
    """The value as JSON, without fields that have their defaults."""
    if is_dataclass(value):
        return {
            each.name: _json(found)
            for each in fields(value)
            if (found := getattr(value, each.name)) != _default(each) and each.name != "path"
        }
    if isinstance(value, tuple):
        return list(map(_json, value))
    if isinstance(value, Mapping):
        return {name: _json(each) for name, each in value.items()}
    return value


def _default(of: Any) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


def _definition(data: Any, path: Path) -> AgentDefinition:
    definition: AgentDefinition = _object(AgentDefinition, {**data, "path": path})
    return definition


def _object(kind: Any, data: Mapping[str, Any]) -> Any:
    made = kind(**{name: _value(name, each) for name, each in data.items()})
    if not hasattr(kind, "__post_init__"):  # Which checks the fields.
        check_fields(made)
    return made


def _value(name: str, data: Any) -> Any:
    kind = _OBJECTS.get(name)
    if isinstance(data, list):
        return tuple([_object(kind, each) if isinstance(each, dict) else each for each in data])
    if not isinstance(data, dict):
        return data
    if kind is not None:
        return _object(kind, data)
    return {key: tuple(place) for key, place in data.items()}
