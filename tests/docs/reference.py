"""Parts of pages that are generated from the code: commands, settings, keys, errors and events.

A page has them between ``<!-- generated: NAME ARGUMENTS -->`` and ``<!-- end of generated -->``.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

import ekiden
from ekiden import client
from ekiden.agents.keys.objects import Object
from ekiden.agents.keys.table import AGENT
from ekiden.cli import errors as cli_errors
from ekiden.cli.errors import Exit
from ekiden.cli.parser.help import EXAMPLES, FIELDS, plain, shown_name, shown_text
from ekiden.cli.parser.parser import COMMANDS, GROUPS, build
from ekiden.core import errors as core_errors
from ekiden.core.errors import EkidenError
from ekiden.core.values import dumps
from ekiden.project.settings import SETTINGS, Setting
from ekiden.server.openapi.examples import EVENT_TYPES
from tests.conformance.names import table as compat_table
from tests.docs import stability
from tests.docs.api_page import document

_PART: Final = re.compile(
    r"(?P<begin><!-- generated: (?P<call>[^>]+) -->\n).*?(?=<!-- end of generated -->)", re.DOTALL
)
_OPTION: Final = re.compile(r"(?<![\w=-])--[a-z][a-z-]*(?:=[A-Z]+)?")
_BRACKETS: Final = re.compile(r"\[((?:choices|default|env var|required)[^\]]*)\]")
_SETS: Final = {
    "list options": ("--limit", "--cursor", "--wide", "--json-lines"),
    "team options": ("--team", "--keep-going", "--trust"),
    "limits": ("--max-turns", "--max-tokens", "--max-money", "--max-seconds"),
}
"""Options that most commands take together, and what they are called on the page."""
_COMMON: Final = 3
"""An argument or option that so many commands have is described once."""
_WIDTH: Final = 120


def rewritten(text: str) -> str:
    """A page with its generated parts as they should be."""

    def part(found: re.Match[str]) -> str:
        name, *arguments = found["call"].split()
        return f"{found['begin']}\n{PARTS[name](*arguments)}\n\n"

    return _PART.sub(part, text)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    safe = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in safe)


def _codes(names: str) -> str:
    """Names separated by commas, as code."""
    return ", ".join(f"`{name}`" for name in names.split(", "))


@dataclass(slots=True)
class Command:
    """A help page, taken apart; Cyclopts hands it the parts."""

    about: str = ""
    entries: list[tuple[str, str]] = field(default_factory=list)

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Left out: the table of options has it."""

    def render_description(self, console: Any, options: Any, told: Any) -> None:
        """What the command does."""
        self.about = plain(told)

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Arguments and options."""
        for entry in panel.entries:
            self.entries.append(
                (re.sub(r" [A-Z]+(\.{3})?$", "", shown_name(entry)), shown_text(entry))
            )


@cache
def command_pages() -> Mapping[str, Command]:
    """The help of every command, by what is typed."""
    names = [
        *COMMANDS,
        *(f"{group} {each}" for group, (_, below) in GROUPS.items() for each in below),
    ]
    found = {name: Command() for name in names}
    for name, page in found.items():
        app = build(name.split())
        app.help_formatter = page
        app.help_print(name.split())
    return found


@cache
def _common() -> Mapping[str, str]:
    """What several commands take with the same description; of two descriptions, the usual one."""
    counted = Counter(each for page in command_pages().values() for each in page.entries)
    often = [each for each, times in counted.most_common() if times >= _COMMON]
    return dict(reversed(often))


def commands() -> str:
    """The arguments and options that many commands share, and every command."""
    sets = "\n".join(f"- {name}: {_codes(', '.join(each))}" for name, each in _SETS.items())
    rows = (f"- {_codes(name)}: {_marked(text)}" for name, text in sorted(_common().items()))
    return "\n\n".join(
        [
            sets,
            "The single options:",
            "\n".join(rows),
            *(_command(name, page) for name, page in command_pages().items()),
        ]
    )


def _command(name: str, page: Command) -> str:
    parts = [f"## ekiden {name}", *map(_filled, re.split(r"\n\s*\n", page.about))]
    parts.append("\n".join(f"    {line}" for line in EXAMPLES[name].split("\n")))
    shared = [name for name, text in page.entries if _common().get(name) == text]
    own = [each for each in page.entries if each[0] not in shared]
    before = {each: _before(name, each) for each in own}
    if listed := [each for each in own if not before[each]]:
        parts.append("\n".join(f"- {_codes(n)}: {_marked(t)}" for n, t in listed))
    for other in dict.fromkeys(filter(None, before.values())):
        names = _codes(", ".join(each[0] for each in own if before[each] == other))
        link = f"[ekiden {other}](#ekiden-{other.replace(' ', '-')})"
        parts.append(_filled(f"As in {link}: {names}."))
    shared = [name for name in shared if name != "--json"]
    if {"--store", "--server"} <= set(shared):
        shared = [name for name in shared if name not in ("--store", "--server")]
    if shared:
        parts.append(_filled(f"Common: {', '.join(_by_set(shared))}."))
    if name in FIELDS:
        parts.append(_filled(f"`--json` prints {FIELDS[name]}."))
    return "\n\n".join(parts)


def _by_set(names: list[str]) -> Iterator[str]:
    """Names as code, and first the sets that are complete."""
    sets = {name: options for name, options in _SETS.items() if set(options) <= set(names)}
    yield from sets
    inside = {option for options in sets.values() for option in options}
    yield from (_codes(name) for name in names if name not in inside)


def _before(name: str, entry: tuple[str, str]) -> str | None:
    """The earlier command that describes the same argument or option."""
    pages = list(command_pages().items())
    earlier = pages[: [each for each, _ in pages].index(name)]
    return next((each for each, page in earlier if entry in page.entries), None)


def _marked(text: str) -> str:
    """Options in a text as code; brackets would be links."""
    text = _BRACKETS.sub(r"(\1)", text).replace("(choices: ", "(")
    text = text.replace("You can repeat this option.", "Repeatable.")
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = (_OPTION.sub(r"`\g<0>`", each).replace("*", r"\*") for each in parts[::2])
    return "".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(
        _marked(" ".join(text.split())), _WIDTH, break_on_hyphens=False, break_long_words=False
    )


def exits() -> str:
    """The exit codes of commands."""
    return _table(("code", "meaning"), ((str(each.value), each.meaning) for each in Exit))


def settings() -> str:
    """Every setting: its default, the values it takes, its variable if that is an exception."""
    return "\n".join(map(_setting, SETTINGS))


def _setting(each: Setting) -> str:
    usual = each.name.removeprefix("agents.").replace(".", "_").upper()
    notes = [_value(each.default), _values(each.kind.expects)]
    notes += [f"variable `{each.env}`"] if each.env != f"EKIDEN_{usual}" else []
    meaning = each.meaning.removeprefix("The ")
    return f"- `{each.name}` ({'; '.join(filter(None, notes))}): {meaning[0].upper()}{meaning[1:]}"


def _values(expects: str) -> str:
    """What a setting takes, in fewer words; a default shows that it is true or false."""
    if expects == "true or false":
        return ""
    text = re.sub(r"^a whole number from (\d+) to \d{7,}", r"from \1", expects)
    text = re.sub(r"^a whole number from ", "", text)
    return text.removeprefix("a ")


KEY_PAGES: Final = {
    "name": "routing.md#by-a-model",
    "model": "models.md",
    "tools": "tools.md#tools-in-agent-files",
    "triggers": "routing.md",
    "capabilities": "capabilities.md",
    "handoffs": "handoffs.md",
    "handoffs.filters": "filters.md",
    "handoffs.trigger": "triggers.md",
    "budget": "budgets.md#budget-of-an-agent",
    "runs_on": "workers.md#labels",
    "can_ask": "asking.md#let-a-model-ask",
    "can_tell": "asking.md#let-a-model-ask",
    "can_ask_people": "inbox.md",
    "guardrails": "guardrails.md",
    "memory": "memory.md",
    "supervisor": "supervisor.md",
    "a2a": "a2a.md#add-a-remote-agent-to-your-team",
}
"""The page that explains a key of agent files in detail."""


def agent_keys() -> str:
    """Every key of an agent file."""
    return "\n".join(_keys(AGENT))


def _keys(mapping: Object, prefix: str = "", listed: dict[int, str] | None = None) -> Iterator[str]:
    """An entry for each key; an object that several keys have is listed once."""
    listed = {} if listed is None else listed
    for each in mapping.fields:
        key = f"{prefix}{each.name}"
        name = f"[`{key}`]({KEY_PAGES[key]})" if key in KEY_PAGES else f"`{key}`"
        notes = [_form(each.kind.schema())]
        notes += ["required"] if each.required else []
        notes += [f"default {_value(each.default)}"] if each.default is not None else []
        inside: Any = getattr(each.kind, "inside", each.kind)
        within = inside if isinstance(inside, Object) and key != "tool_confirmation" else None
        again = within is not None and id(within) in listed
        text = f"{each.text} Keys as in `{listed[id(within)]}`." if again else each.text
        yield f"- {name} ({'; '.join(notes)}): {text}"
        if within is not None and not again:
            listed[id(within)] = key
            yield from _keys(within, f"{key}.", listed)


def _form(schema: Mapping[str, Any]) -> str:
    """The values that a JSON Schema accepts, in a few words."""
    if "type" not in schema and "anyOf" in schema:
        return ", ".join(dict.fromkeys(map(_form, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] in ("number", "integer"):
        return _number(schema)
    names = {"boolean": "`true`, `false`", "array": "list", "object": "mapping", "string": "text"}
    return names[schema["type"]]


def _number(schema: Mapping[str, Any]) -> str:
    kind = "whole number" if schema["type"] == "integer" else "number"
    if "exclusiveMinimum" in schema:
        return f"{kind} above {schema['exclusiveMinimum']}"
    if schema["maximum"] > 1_000_000:
        return f"{kind} from {schema['minimum']}"
    return f"{kind} from {schema['minimum']:,} to {schema['maximum']:,}"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value if isinstance(value, str) else dumps(value)}`"


@cache
def known_errors() -> Mapping[str, type[EkidenError]]:
    """All that are raised on purpose: those of the core, of the client, and the public ones."""
    names = [each.name for each in iter_modules(core_errors.__path__, f"{core_errors.__name__}.")]
    modules = [core_errors, *map(import_module, names), ekiden]
    found = [getattr(module, name) for module in modules for name in dir(module)]
    found += [getattr(client, name) for name in client.__all__]
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, EkidenError)]
    return {each.__name__: each for each in kinds}


def errors(*names: str) -> str:
    """Errors, each with those below it in its module."""
    found: dict[type[EkidenError], None] = {}
    for top in map(known_errors().__getitem__, names):
        below = (
            each for each in vars(sys.modules[top.__module__]).values() if _is_below(each, top)
        )
        found.update(dict.fromkeys([top] if top is EkidenError else below))
    first = next(each for each in found if each is not EkidenError)
    return "\n".join(_error(each, first) for each in found)


def _error(each: type[EkidenError], first: type[EkidenError]) -> str:
    """An error with its code; its base only if it is not what a reader expects."""
    base = each.__bases__[0]
    expected = (EkidenError, Exception) if each in (first, EkidenError) else (first,)
    note = "" if base in expected else f", base `{base.__name__}`"
    return f"- `{each.__name__}` (`{each.code}`{note}): {_about(each)}"


def _is_below(each: object, top: type[EkidenError]) -> bool:
    return isinstance(each, type) and issubclass(each, top) and each.__module__ == top.__module__


def cli_codes() -> str:
    """The codes of commands' own errors."""
    found = [each for each in vars(cli_errors).values() if isinstance(each, type)]
    own = [each for each in found if issubclass(each, EkidenError) and "code" in vars(each)]
    rows = ((f"`{each.code}`", _about(each)) for each in own if each.code.startswith("cli."))
    return _table(("code", "meaning"), rows)


def _about(error: type[EkidenError]) -> str:
    return " ".join((error.__doc__ or "").partition("\n\n")[0].split()).replace("``", "`")


def error_modules() -> str:
    """Where errors are that cannot be imported from `ekiden`."""
    found: dict[str, list[str]] = {}
    for name, each in known_errors().items():
        if not hasattr(ekiden, name):
            place = client.__name__ if name in client.__all__ else each.__module__
            found.setdefault(place, []).append(name)
    rows = ((f"`{module}`", _codes(", ".join(names))) for module, names in sorted(found.items()))
    return _table(("module", "errors"), rows)


def event_fields() -> str:
    """The fields of an event."""
    fields = document()["components"]["schemas"]["SessionEvent"]["properties"]
    rows = (
        (f"`{name}`", " ".join(value["description"].partition("\n\n")[0].split()))
        for name, value in fields.items()
    )
    return _table(("field", "meaning"), rows)


def events() -> str:
    """Every type of event."""
    parts = []
    for name, kind in EVENT_TYPES.items():
        parts += [f"### `{name}`", _filled(kind.about)]
        if kind.details:
            parts.append("\n".join(f"- {_codes(k)}: {v}" for k, v in kind.details.items()))
    return "\n\n".join(parts)


def surfaces() -> str:
    """What is public, and how much of it has which state."""
    return _table(("surface", "names", *stability.STATES), stability.rows())


PARTS: Final[Mapping[str, Callable[..., str]]] = {
    "commands": commands,
    "exits": exits,
    "settings": settings,
    "agent_keys": agent_keys,
    "errors": errors,
    "cli_codes": cli_codes,
    "error_modules": error_modules,
    "event_fields": event_fields,
    "events": events,
    "compat_names": compat_table,
    "surfaces": surfaces,
}
