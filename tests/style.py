"""The words of names, help, docstrings and pages: ``python -m tests.style``, part of `make check`.

It finds home-made names where the field has a word, sentences that are too long, "whoever",
"nobody" and "somebody" as subjects, and long commit titles. A message says what to write instead.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ekiden"

LONGEST = 35
"""Words of a sentence."""
LONGEST_TITLE = 72
FIRST_COMMIT = "20dbef30"
"""Titles of commits after this one are checked."""

HOME_MADE = {
    "around": ("runtime project", "options"),
    "asking": ("bus inbox runtime/questions", "queries, questions"),
    "beside": ("engine storage/memory", "side writes, background"),
    "chores": ("server", "background tasks"),
    "circumstances": ("", "RunOptions"),
    "covered": ("core", "masked"),
    "covering": ("", "masking"),
    "crowd": ("", "concurrency limit"),
    "desk": ("server project/service.py", "TenantService"),
    "doors": ("", "interfaces"),
    "entrance": ("server", "authentication"),
    "errand": ("", "handoff request runner"),
    "folding": ("", "replay; keyword normalization"),
    "gate": ("server collaboration", "authorization, checks"),
    "guests": ("", "session quota"),
    "onlooker": ("", "observer"),
    "onlookers": ("", "observers"),
    "parked": ("", "suspended"),
    "patience": ("hub cli client", "timeout, poll interval, retry"),
    "purse": ("", "shared budget"),
    "recollection": ("", "MemoryRecord"),
    "scrutiny": ("", "acceptance checks"),
    "seat": ("bus", "BusClient"),
    "slip": ("runtime", "tool error"),
    "slips": ("runtime", "tool errors"),
    "station": ("", "store worker"),
    "telling": ("server inbox", "access log, notifications"),
    "tidy": ("server", "expiry"),
    "visit": ("integrations/mcp_server", "tool call"),
    "weather": ("testing", "fault injection"),
    "withdrawing": ("", "cancel question"),
}
"""By word of a name: in which packages it must not be used (empty: in none), and what to say."""

PEOPLE = {
    "whoever": "name the person, process or agent",
    "nobody": 'say "no process", "no agent" or "not …"',
    "somebody": 'say "a person", "another process"',
}
"""Words that must not be the subject of a sentence in public text."""

PHRASES = {
    r"\bneeds? a yes\b": "needs approval",
    r"\bsays? yes\b": "approves, accepts",
    r"\bonlookers?\b": "observer",
    r"\bgoes on with\b": "continues, resumes",
    r"\bunder way\b": "in progress",
    r", too\b[.;]": "also",
}
"""Patterns that help texts must not have, and what to write instead."""

ALLOWED: frozenset[str] = frozenset(
    {
        "src/ekiden/integrations/temporal/names.py:Errand",  # the input of an activity
    }
)
"""Files and names that are exceptions: a path, or ``path:name``; each with its reason."""


def main() -> int:
    """Print every fault; 1 if there is one."""
    faults = sorted({*names(), *help_texts(), *docstrings(), *pages(), *titles()})
    for fault in faults:
        print(fault)
    return int(bool(faults))


_DEFINED = re.compile(
    r"^(?: {4})?(?:async def|def|class) +(\w+)"
    r"|^(?: {4})?([A-Za-z_]\w*)(?!.*, \w+: )(?:: [^=\n]+)?(?: = [^\n]*)?(?<!,)$",
    re.M,
)
# A parameter on its own line ends with a comma; several on a line are no field either.
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names() -> Iterator[str]:
    """Home-made words in the names of files, classes, functions, constants and fields."""
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(ROOT).as_posix()
        below = path.relative_to(SOURCE).as_posix()
        yield from _misnamed(place, below, 1, path.stem)
        text = path.read_text("utf-8")
        for found in _DEFINED.finditer(text):
            name = found[1] or found[2]
            line = text.count("\n", 0, found.start()) + 1
            yield from _misnamed(place, below, line, name)


def _misnamed(place: str, below: str, line: int, name: str) -> Iterator[str]:
    for part in {each.lower() for each in _PART.findall(name)} & HOME_MADE.keys():
        packages, instead = HOME_MADE[part]
        here = not packages or any(below.startswith(each) for each in packages.split())
        if here and not _is_allowed(place, name):
            yield f"{place}:{line}: the name {name!r} has {part!r}; say {instead}"


def _is_allowed(place: str, name: str) -> bool:
    return f"{place}:{name}" in ALLOWED or any(place.startswith(each) for each in ALLOWED)


def help_texts() -> Iterator[str]:
    """What `--help` prints: options, arguments, commands and their descriptions."""
    for path in sorted((SOURCE / "cli").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        place = path.relative_to(ROOT).as_posix()
        for line, text in _help(tree, is_command=path.parent.name == "commands"):
            yield from _faults(place, line, text)
            for pattern, instead in PHRASES.items():
                if found := re.search(pattern, text):
                    yield f"{place}:{line}: {found[0]!r} in a help text; write {instead!r}"


def _help(tree: ast.Module, *, is_command: bool) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "help":
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.value.lineno, node.value.value
        elif is_command and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = "" if node.name.startswith("_") else ast.get_docstring(node)
            yield node.body[0].lineno, text or ""


def docstrings() -> Iterator[str]:
    """The docstrings of what can be imported from `ekiden` and its packages."""
    exported: dict[Path, set[str]] = {}
    for init in [SOURCE / "__init__.pyi", *SOURCE.glob("*/__init__.py")]:
        for module, listed in _imports(init.read_text("utf-8")):
            for name in listed:
                if found := _definition(module, name):
                    exported.setdefault(found, set()).add(name)
    for path, public in sorted(exported.items()):
        place = path.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text("utf-8")).body:
            if getattr(node, "name", None) in public:
                for line, text in _documented(node):
                    yield from _faults(place, line, text)


_IMPORT = re.compile(r"^from (ekiden[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.M)


def _imports(text: str) -> Iterator[tuple[str, list[str]]]:
    for module, several, one in _IMPORT.findall(text):
        yield module, re.findall(r"(\w+)(?: as \w+)?(?:,|\s*$)", several or one, re.M)


def _definition(module: str, name: str, depth: int = 0) -> Path | None:
    """The file that defines the name; packages are followed to what they import."""
    path = ROOT / "src" / Path(*module.split("."))
    if (file := path.with_suffix(".py")).exists():
        return file
    if depth < 3 and (init := path / "__init__.py").exists():
        for below, listed in _imports(init.read_text("utf-8")):
            if name in listed:
                return _definition(below, name, depth + 1)
    return None


def _documented(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstring of a class or function, and those of its public members."""
    for each in getattr(node, "body", ()):
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
            if isinstance(each.value.value, str):
                yield each.lineno, each.value.value
        elif isinstance(node, ast.ClassDef) and not getattr(each, "name", "_").startswith("_"):
            yield from _documented(each)


def pages() -> Iterator[str]:
    """The prose of README and `docs/`."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if not path.name.endswith((".zh.md", "python.md")):
            for line, text in _prose(path.read_text("utf-8")):
                yield from _faults(path.relative_to(ROOT).as_posix(), line, text)


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items and table cells, with their lines; no code, no headings."""
    start, gathered, fence = 0, [], ""
    for number, line in enumerate([*text.split("\n"), ""], 1):
        bare = "" if line.startswith("    ") and not gathered else line.strip()
        if fence or bare.startswith(("```", "~~~")):
            fence = "" if fence and bare.startswith(fence) else fence or bare[:3]
            bare = ""
        if bare.startswith("|"):
            yield from ((number, cell) for cell in bare.strip("|").split(" | "))
            bare = ""
        ends = not bare or bare.startswith(("#", "<", "- ", "* ")) or re.match(r"\d+\. ", bare)
        if ends and gathered:
            yield start, " ".join(gathered)
            gathered = []
        if bare and not bare.startswith(("#", "<")):
            start = start if gathered else number
            gathered.append(bare)


def titles() -> Iterator[str]:
    """The titles of commits."""
    command = ["git", "log", "--format=%h %s", f"{FIRST_COMMIT}..HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        commit, _, title = line.partition(" ")
        if len(title) > LONGEST_TITLE:
            yield f"{commit}: the title has {len(title)} characters, {LONGEST_TITLE} are the most"


def _faults(place: str, line: int, text: str) -> Iterator[str]:
    for sentence in _sentences(text):
        words = [each for each in sentence.split() if not _LISTED.fullmatch(each)]
        start = " ".join(words[:5])
        if len(words) > LONGEST:
            yield f"{place}:{line}: {len(words)} words in a sentence, split it: {start} …"
        for word in _subjects(sentence):
            yield f"{place}:{line}: {word!r} is a subject; {PEOPLE[word]}: {start} …"


_CODE = re.compile(r"``[^`]+``|`[^`]+`|!?\[([^\]]*)\]\([^)]*\)|\*\*|https?://\S+")
_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z`*“(\"]|$)|\n\s*\n|::\n")


def _sentences(text: str) -> Iterable[str]:
    """The sentences of a text, in which code is an X."""
    shown = _CODE.sub(lambda found: found[1] or ("" if found[0] == "**" else "X"), text)
    paragraphs = [each for each in shown.split("\n\n") if not each.startswith("    ")]
    return [each for part in paragraphs for each in _END.split(part) if each.strip()]


_LISTED = re.compile(r"\W*X\W*")
"""A piece of code: lists of names are no long sentences."""
_SUBJECT = re.compile(
    r"(?:^|[,;:(] |\b(?:and|that|if|when|what|while|or|because|whom|so) )"
    r"(whoever|nobody|somebody)\b(?! else's|')",
    re.I,
)


def _subjects(sentence: str) -> Iterator[str]:
    for found in _SUBJECT.finditer(sentence):
        yield found[1].lower()


if __name__ == "__main__":
    sys.exit(main())
