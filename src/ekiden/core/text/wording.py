"""Text helpers: lazy patterns, suggestions for misspelt names, and names in other programs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, cast


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, but the pattern is compiled at its first use. To compile all patterns of
    the runtime would take a tenth of its import time, and a run needs few of them."""
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """Called at the first use of a method, which is then stored for the next call."""
        if name.startswith("_"):  # `copy` and `pickle` ask for these before `_text` is set.
            raise AttributeError(name)
        method = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, method)
        return method


_MAX_MEMORY = 256 * 1024
"""Bytes for one compiled pattern. A process must have room for a thousand agents with ten each."""

_ADVICE = (
    (("(?=", "(?!", "(?<=", "(?<!"), "look-around is not supported; match the text itself"),
    (
        ("(?P=", "\\1", "\\2", "\\3", "\\4", "\\5", "\\6", "\\7", "\\8", "\\9"),
        "back-references are not supported; write the alternatives out: (aa|bb)",
    ),
    (("(?>", "++", "*+", "?+"), "atomic groups and possessive repeats are not supported"),
    (("(?#", "(?x"), "comments and the x flag are not supported; leave them out"),
    (("\\Z",), "write \\z for the end of the text"),
    (("\\u",), "write the character itself, or \\x{4e00}"),
    (("(?P",), "a named group is written (?P<name>…)"),
)


@lru_cache(maxsize=20_000)
def pattern_fault(pattern: str) -> str | None:
    """The reason why a pattern of `triggers` is refused, with advice, or `None` for a valid
    pattern.

    The patterns use RE2, so that matching takes linear time for every pattern.
    """
    import re2

    try:
        re2.compile(pattern, _options())
    except re2.error as exc:
        error = exc.args[0] if exc.args else exc
        return _advice(error.decode("utf-8", "replace") if isinstance(error, bytes) else str(error))
    return None


def matches_everything(pattern: str) -> bool:
    """Whether a valid pattern matches every text, even an empty one."""
    import re2

    return bool(re2.compile(pattern, _options()).search(""))


def _advice(error: str) -> str:
    if "too large" in error or "repetition size" in error:
        return (
            "it would take too much memory, as it repeats too much; count less: {2,20} instead "
            "of {2,2000}, and no counted repeat within another"
        )
    for signs, advice in _ADVICE:
        if any(sign in error for sign in signs):
            return advice
    return f"it does not compile ({error[:80]}); see RE2's syntax, and write \\ before ( [ * + ? ."


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    return options


_MAX_WORD = 80
"""Longer words get no suggestion: comparing them is slow."""
_CUTOFF = 0.72
_SEPARATORS = lazy_pattern(r"[\s_.-]+")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` closest to `word`, or `None` if none is close.

    Case and separators are ignored, so ``handoffDescription`` finds ``handoff_description``. A few
    letters may differ. Among equally close words, the first in the alphabet is returned::

        did_you_mean("tirage", ["billing", "triage"])  # "triage"
    """
    return next(iter(closest(word, known)), None)


def closest(word: str, known: Iterable[str], *, count: int = 1) -> list[str]:
    """Return at most `count` words of `known` that are similar to `word`, most similar first.
    `did_you_mean` defines the similarity."""
    if not word or len(word) > _MAX_WORD:
        return []
    of_folded: dict[str, str] = {}
    for name in sorted(known):
        of_folded.setdefault(_folded(name), name)
    folded = _folded(word)
    if folded in of_folded:
        return [of_folded[folded]]
    from difflib import get_close_matches

    return [of_folded[each] for each in get_close_matches(folded, of_folded, count, _CUTOFF)]


def suggestion(word: str, known: Iterable[str]) -> str:
    """A suggestion for the end of a message, such as ``; did you mean 'triage'?``. The suggestion
    is empty if no known word is similar."""
    found = did_you_mean(word, known)
    return "" if found is None else f"; did you mean {found!r}?"


def _folded(word: str) -> str:
    return _SEPARATORS.sub("", word).casefold()


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded as UTF-8. A text with a lone surrogate cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


RESERVED = frozenset({"auto", "user"})
"""Reserved names: ``@auto`` asks for routing, and ``user`` means the person."""

TAKEN = f"this name is taken by Ekiden itself ({', '.join(sorted(RESERVED))}); use another"

MAX_NAME = 100

_ASCII_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_FIRST_CATEGORIES = ("L", "N")
_CATEGORIES = ("L", "N", "M")
"""Unicode categories in names: letters, digits and combining marks."""


def name_fault(name: str) -> str | None:
    """The reason why a name in an agent file is invalid, with advice, or `None` for a valid name.

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
    """Whether the name has only allowed characters. The result is true for reserved names."""
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
"""The value of the key ``model`` in an agent file that means the model of the team."""

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
    there is no such tool.

    For example, ``Bash`` and ``run_shell_command`` mean ``shell``.
    """
    return _BY_ALIAS.get(plain_key(name))


def commands_of(name: str) -> tuple[str, ...] | None:
    """Return the allowed command of a restricted shell tool, as words.

    ``Bash(git log:*)`` becomes ``("git", "log", "*")``. A command without the ``*`` allows no
    further words. Returns `None` for any other tool, and for a command that has more than plain
    words.
    """
    found = _SOME_COMMANDS.fullmatch(name)
    if found is None or builtin_name(found["tool"]) != "shell":
        return None
    words = found["words"].split()
    return (*words, "*") if found["more"] else tuple(words)


def full_model_name(name: str) -> str | None:
    """The model as ``provider:model`` if its name implies the provider, otherwise `None`.

    For example, ``gpt-5`` means ``openai:gpt-5``, and ``sonnet`` means the newest Sonnet model of
    Anthropic.
    """
    if name in MODEL_ALIASES:
        return MODEL_ALIASES[name]
    found = re.fullmatch(_PROVIDERS, name)
    return f"{found.lastgroup}:{name}" if found else None


def plain_key(name: str) -> str:
    """The name in lower case without ``_``, ``-`` and spaces, for comparisons."""
    return re.sub(r"[\s_-]", "", name).lower()


def plain_line(text: str, max_chars: int) -> str:
    """`text` as one line without control and invisible characters, cut at `max_chars`."""
    # The rest of a long text is not cleaned; four times the length leaves room for white space that
    # is removed.
    text = text[: 4 * max_chars]
    if not (text.isascii() and text.isprintable()):
        text = "".join(each if unicodedata.category(each)[0] != "C" else " " for each in text)
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"
