"""Names of agents in files and imports, and names of tools and models in other programs."""

from __future__ import annotations

import re
import unicodedata

from ekiden.core.text.wording import lazy_pattern

RESERVED = frozenset({"auto", "user"})
"""Reserved names: ``@auto`` asks for routing, and ``user`` means the person."""

TAKEN = f"this name is taken by Ekiden itself ({', '.join(sorted(RESERVED))}); use another"

MAX_NAME = 100

_ASCII_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_FIRST_CATEGORIES = ("L", "N")
_CATEGORIES = ("L", "N", "M")
"""Unicode categories in names: letters, digits and combining marks."""


def name_fault(name: str) -> str | None:
    """Why a name in an agent file is invalid, with advice; `None` if the name is valid.

    A name has letters and digits of any script, ``-`` and ``_``.
    """
    if name.casefold() in RESERVED:
        return TAKEN
    if len(name) > MAX_NAME:
        return f"use at most {MAX_NAME} characters; it has {len(name)}"
    if _ASCII_NAME.fullmatch(name) or is_slug(name):
        return None
    slug = slug_of(name)
    usable = slug and slug not in RESERVED and is_slug(slug)
    advice = f", such as {slug}" if usable else ""
    return f"use letters, digits, - and _ only, and begin with a letter or digit{advice}"


def slug_of(text: str) -> str:
    """Convert the text to a valid name. The result may be empty or reserved."""
    letters = unicodedata.normalize("NFC", text).lower()
    kept = "".join(each if _fits(each) else " " for each in letters)
    return "-".join(kept.split()).strip("-_")[:MAX_NAME].rstrip("-_")


def is_slug(name: str) -> bool:
    """Whether the name has only allowed characters. Reserved names are included."""
    first = unicodedata.category(name[0])[0]
    return first in _FIRST_CATEGORIES and all(_fits(each) for each in name)


def _fits(character: str) -> bool:
    return character in "-_" or unicodedata.category(character)[0] in _CATEGORIES


_TOOLS = {
    "edit_file": "edit multiedit strreplace searchreplace replace applypatch",
    "glob": "findfiles findbyname filesearch",
    "grep": "grepsearch searchtext searchfilecontent ripgrep codesearch",
    "http_get": "webfetch fetch httpget fetchwebpage",
    "list_folder": "ls list listdir listdirectory readfolder listfiles",
    "read_file": "read readmanyfiles view viewfile notebookread cat",
    "shell": "bash runshellcommand execute terminal runinterminal execcommand",
    "web_search": "websearch googlewebsearch googlesearch",
    "write_file": "write createfile",
}

_BY_ALIAS = {
    alias: name
    for name, aliases in _TOOLS.items()
    for alias in (name.replace("_", ""), *aliases.split())
}

BUILTIN_TOOLS = tuple(sorted(_TOOLS))

READ_ONLY_TOOLS = frozenset({"glob", "grep", "http_get", "list_folder", "read_file", "web_search"})
"""Built-in tools that change nothing."""

MODEL_ALIASES = {
    "sonnet": "anthropic:claude-sonnet-5-5",
    "opus": "anthropic:claude-opus-5-5",
    "haiku": "anthropic:claude-haiku-5-5",
    "fable": "anthropic:claude-fable-5-2",
}
"""Short names in agent files for the newest model of a family."""

INHERIT = "inherit"
"""As the model in an agent file: use the model of the team."""

_PROVIDERS = (
    r"(?P<openai>(?:gpt|chatgpt|codex)-[^\s:]+|o[1-9](?:-[^\s:]+)?)"
    r"|(?P<anthropic>claude-[^\s:]+)|(?P<google>gemini-[^\s:]+)"
)

MODEL_NAME = (
    r"[^\s:]+:.*|(?:gpt|chatgpt|codex|claude|gemini)-[^\s:]+|o[1-9](?:-[^\s:]+)?"
    rf"|{'|'.join(MODEL_ALIASES)}"
)
"""A regular expression for a model: ``provider:model``, or a name that implies the provider."""

_SOME_COMMANDS = lazy_pattern(
    r"(?P<tool>\w+)\((?P<words>[\w./@%+=-]+(?: +[\w./@%+=-]+)*)(?P<more>:\*| \*)?\)", re.ASCII
)


def builtin_name(name: str) -> str | None:
    """Return the built-in tool that another program knows by this name, in any spelling; `None` if
    there is no such tool. For example, ``Bash`` and ``run_shell_command`` mean ``shell``.
    """
    return _BY_ALIAS.get(plain_key(name))


def commands_of(name: str) -> tuple[str, ...] | None:
    """Return the allowed command of a restricted shell tool, as words. ``Bash(git log:*)`` becomes
    ``("git", "log", "*")``; without the ``*`` no further words are allowed. Returns `None` for any
    other tool, and for a command that has more than plain words.
    """
    found = _SOME_COMMANDS.fullmatch(name)
    if found is None or builtin_name(found["tool"]) != "shell":
        return None
    words = found["words"].split()
    return (*words, "*") if found["more"] else tuple(words)


def full_model_name(name: str) -> str | None:
    """The model as ``provider:model`` if its name implies the provider, otherwise `None`.

    ``gpt-5`` is ``openai:gpt-5``, and ``sonnet`` is the newest Sonnet model of Anthropic.
    """
    if name in MODEL_ALIASES:
        return MODEL_ALIASES[name]
    found = re.fullmatch(_PROVIDERS, name)
    return f"{found.lastgroup}:{name}" if found else None


def plain_key(name: str) -> str:
    """The name in lower case without ``_``, ``-`` and spaces, for comparisons."""
    return re.sub(r"[\s_-]", "", name).lower()
