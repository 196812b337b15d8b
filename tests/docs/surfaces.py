"""The public things that the code has, by surface; see `docs/stability.json`.

``python -m tests.docs.surfaces STATE`` gives this state to all that have none yet, and forgets
provisional things that the code has no more.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import ekiden
from ekiden.agents.keys.objects import Object
from ekiden.agents.keys.table import AGENT
from ekiden.audit import query
from ekiden.cli import errors as cli_errors
from ekiden.cli.errors import Exit
from ekiden.cli.parser.help import FIELDS
from ekiden.core.errors import EkidenError
from ekiden.project.settings import SETTINGS
from ekiden.runtime.history import session_document
from ekiden.server.openapi.examples import EVENT_TYPES
from ekiden.storage.sqlite.open_store import shipped
from tests.docs import stability
from tests.docs.api_page import document
from tests.docs.pages import ROOT
from tests.docs.reference import command_pages, known_errors

_SOURCE: Final = ROOT / "src" / "ekiden"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_VARIABLE: Final = re.compile(r"\bEKIDEN_[A-Z][A-Z0-9_]+")
_METRIC: Final = re.compile(r'"(ekiden_[a-z_]+)"')
_FIELD_LIST: Final = re.compile(r"\bfields? ((?:[a-z_]+(?:, and |, | and ))*[a-z_]+)")
_INSIDE: Final = re.compile(r"\[\{(.*?)\}\]")
_NO_FIELDS: Final = {"as", "of", "that"}
"""Words after "fields" that begin a clause."""


def current() -> dict[str, frozenset[str]]:
    """All public things."""
    return {surface: frozenset(find()) for surface, find in _FINDERS.items()}


def _python() -> Iterator[tuple[str, Any]]:
    """Every public name with its object; packages name theirs with ``import X as X``."""
    yield from ((f"ekiden.{name}", getattr(ekiden, name)) for name in dir(ekiden))
    for package in ("client", "testing"):
        module = import_module(f"ekiden.{package}")
        tree = ast.parse((_SOURCE / package / "__init__.py").read_text("utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for alias in (alias for node in imports for alias in node.names if alias.asname):
            yield f"{module.__name__}.{alias.name}", getattr(module, alias.name)


def _members() -> Iterator[str]:
    for name, found in _python():
        for member in sorted({*_parameters(found), *_attributes(found)}):
            yield f"{name}: {member}"


def _parameters(found: Any) -> Iterator[str]:
    """Those that can be given by name; a class has those of its constructor."""
    function = found.__init__ if inspect.isclass(found) else found
    if inspect.isfunction(function):
        for each in inspect.signature(function).parameters.values():
            named = each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)
            if named and each.name != "self" and not each.name.startswith("_"):
                yield each.name


def _attributes(found: Any) -> Iterator[str]:
    """Fields and methods that Ekiden's own classes define."""
    for each in found.__mro__ if inspect.isclass(found) else ():
        if each.__module__.startswith("ekiden."):
            names = {*vars(each), *vars(each).get("__annotations__", ())}
            yield from (name for name in names if not name.startswith("_"))


def _routes() -> Iterator[str]:
    for path, operations in document()["paths"].items():
        yield from (f"{each.upper()} {path}" for each in _METHODS if each in operations)


def _fields() -> Iterator[str]:
    for schema, field, _ in _properties():
        yield f"{schema}: {field}"


def _properties() -> Iterator[tuple[str, str, Any]]:
    for schema, content in document()["components"]["schemas"].items():
        for field, kind in content.get("properties", {}).items():
            yield schema, field, kind


def _values() -> Iterator[str]:
    for schema, field, kind in _properties():
        yield from (f"{schema}.{field}: {value}" for value in _fixed(kind))


def _fixed(kind: Any) -> Iterator[str]:
    """The texts that a JSON Schema lists."""
    inner = kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ()
    if isinstance(kind, dict):
        listed = (*kind.get("enum", ()), *([kind["const"]] if "const" in kind else ()))
        yield from (each for each in listed if isinstance(each, str) and each)
    for each in inner:
        yield from _fixed(each)


def _options() -> Iterator[str]:
    for command, page in command_pages().items():
        for names, _ in page.entries:
            yield from (f"{command}: {name}" for name in names.replace(",", " ").split())


def _printed() -> Iterator[str]:
    for command, told in FIELDS.items():
        plain = re.sub(r"\([^)]*\)", "", told)
        lists = [*_INSIDE.findall(plain), *_FIELD_LIST.findall(_INSIDE.sub("", plain))]
        words = re.findall(r"[a-z_]+", " ".join(lists))
        yield from (f"{command}: {each}" for each in words if each not in {"and", *_NO_FIELDS})


def _error_codes() -> Iterator[str]:
    own = [each for each in vars(cli_errors).values() if isinstance(each, type)]
    kinds = [*known_errors().values(), *own]
    yield from (each.code for each in kinds if issubclass(each, EkidenError))


def _details() -> Iterator[str]:
    for event, kind in EVENT_TYPES.items():
        for names in kind.details:
            yield from (f"{event}: {name}" for name in names.split(", "))


def _keys(mapping: Object = AGENT, prefix: str = "", inside: tuple[int, ...] = ()) -> Iterator[str]:
    for each in mapping.fields:
        key = f"{prefix}{each.name}"
        yield key
        within: Any = getattr(each.kind, "inside", each.kind)
        if isinstance(within, Object) and id(within) not in inside:
            yield from _keys(within, f"{key}.", (*inside, id(within)))


def _variables() -> Iterator[str]:
    """Those that the code names; the others are made from the names of settings."""
    for path in _SOURCE.rglob("*.py"):
        yield from _VARIABLE.findall(path.read_text("utf-8"))


def _metrics() -> Iterator[str]:
    return iter(_METRIC.findall((_SOURCE / "server" / "metrics.py").read_text("utf-8")))


def _formats() -> Iterator[str]:
    yield from (f"store {each.number}" for each in shipped())
    for module in (session_document, query):
        yield f"{module.EXPORT_FORMAT} {module.EXPORT_VERSION}"


_FINDERS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "Python names": lambda: (name for name, _ in _python()),
    "Python members": _members,
    "HTTP routes": _routes,
    "JSON fields": _fields,
    "JSON values": _values,
    "commands": lambda: iter(command_pages()),
    "options": _options,
    "output of commands": _printed,
    "exit codes": lambda: (f"{each.value} {each.name.lower()}" for each in Exit),
    "error codes": _error_codes,
    "events": lambda: iter(EVENT_TYPES),
    "event details": _details,
    "agent-file keys": _keys,
    "settings": lambda: (each.name for each in SETTINGS),
    "environment variables": _variables,
    "metrics": _metrics,
    "formats": _formats,
}


def main(state: str) -> None:
    """Give the state to what has none, and forget provisional things that are gone."""
    assert state in ("stable", "provisional"), f"{state}: write stable or provisional"
    listed, now = stability.read(), current()
    new = stability.missing(listed, now)
    written = {
        surface: {
            "stable": states.get("stable", frozenset()),
            "provisional": states.get("provisional", frozenset()) & now[surface],
            "removed": states.get("removed", frozenset()),
        }
        for surface, states in listed.items()
    }
    for surface, names in new.items():
        written[surface][state] |= frozenset(names)
    stability.FILE.write_text(stability.text(written), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
