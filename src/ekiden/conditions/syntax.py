"""The tokens and the syntax tree of a condition, and messages for syntax errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, TypeAlias
from unicodedata import category, east_asian_width, normalize

from ekiden.conditions.values import MAX_NUMBER, Step
from ekiden.core.errors import ConditionError

Kind: TypeAlias = Literal["word", "number", "text", "sign", "bad", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a condition."""

    kind: Kind
    written: str
    start: int
    end: int
    value: Any = None
    """The value of a number or text. For a ``bad`` token, a suggestion what to write instead."""


_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SIGN = re.compile(r"==|!=|<=|>=|//|[<>+\-*/%()\[\],.]")
_WRONG: Final[Mapping[str, str]] = {
    "===": "write == to compare",
    "!==": "write != to compare",
    "<>": "write != for 'is not the same'",
    "=>": "write >= for 'at least'",
    "=<": "write <= for 'at most'",
    "=": "write == to compare",
    "&&": "write and",
    "||": "write or",
    "!": "write not",
    "**": "there are no powers; write x * x",
    "<<": "there are no bit operators; write < to compare",
    ">>": "there are no bit operators; write > to compare",
    "&": "there are no bit operators; write and",
    "|": "there are no bit operators; write or",
    "^": "there are no bit operators, and no powers; write x * x",
    "~": "there are no bit operators; write not",
    ":=": "a condition cannot set anything; write == to compare",
    "->": "write . to go into a structure: user.tier",
    "{": "there are no mappings in conditions; write a list: [1, 2]",
    "}": "there are no mappings in conditions; write a list: [1, 2]",
    ":": "a colon has no place in a condition",
    ";": "a condition is one expression; write and between its parts",
    "?": "there is no ? : in conditions; put and, or between parts",
    "#": "a condition has no comments; leave this out",
    "$": "write the name alone, without $",
    "@": "write the name alone, without @",
    "`": "put text into \" or '",
    "\\": "a backslash has its place in texts only",
    "“": "write \" or ' around text",
    "”": "write \" or ' around text",
    "„": "write \" or ' around text",
    "‘": "write \" or ' around text",
    "’": "write \" or ' around text",
    "«": "write \" or ' around text",
    "「": "write \" or ' around text",
    "『": "write \" or ' around text",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "×": "write *",
    "÷": "write /",
    "−": "write - (this is another sign that looks like it)",
    "–": "write - (this is another sign that looks like it)",
    "、": "write , between the items of a list",
    "。": "write . to go into a structure, and nothing at the end",
    "\ufeff": "there is an invisible character here; remove it",
    "\u200b": "there is an invisible character here; remove it",
}
_LONGEST_WRONG = 3
_ESCAPES: Final[Mapping[str, str]] = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t"}


def tokens_of(text: str) -> list[Token]:
    """All tokens of `text`, followed by a token of kind ``end``.

    Invalid text becomes a token of kind ``bad``. The parser reports an error when it reaches this
    token.
    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        token = _token_at(text, at)
        found.append(token)
        at = token.end
    found.append(Token("end", "", len(text), len(text)))
    return found


def _token_at(text: str, at: int) -> Token:
    character = text[at]
    if character in "\"'":
        return _text_at(text, at)
    if character.isidentifier():
        return _word_at(text, at)
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number_of(text, at, number.end())
    for length in range(_LONGEST_WRONG, 0, -1):
        wrong = text[at : at + length]
        sign = _SIGN.match(text, at)
        if sign is not None and len(sign.group()) >= length:
            return Token("sign", sign.group(), at, sign.end())
        if wrong in _WRONG:
            return Token("bad", wrong, at, at + length, _WRONG[wrong])
    return Token("bad", character, at, at + 1, _advice_on(character))


def _advice_on(character: str) -> str:
    plain = normalize("NFKC", character)
    if plain != character and plain.isascii() and plain.isprintable() and plain != " ":
        return f"write {plain} instead of {character}"
    if not character.isprintable():
        return f"the character U+{ord(character):04X} cannot be used here"
    return (
        f'{character} has no place here; a field of such a name is written payload["{character}"]'
    )


def _word_at(text: str, at: int) -> Token:
    end = at + 1
    while end < len(text) and f"a{text[end]}".isidentifier():
        end += 1
    word = text[at:end]
    plain = normalize("NFKC", word)
    if plain != word and plain.isascii():
        return Token("bad", word, at, end, f"write {plain} in letters of plain width")
    if word.startswith("__"):
        return Token("bad", word, at, end, "a name cannot begin with two underscores")
    if end < len(text) and text[end] in "\"'" and word.casefold() in _PREFIXES:
        advice = f"leave out {word} before the quote"
        return Token("bad", word, at, end, f"{advice}; {_PREFIXES[word.casefold()]}")
    return Token("word", word, at, end)


_RAW = "\\d and the like can be written in any text"
_PREFIXES: Final[Mapping[str, str]] = {
    **dict.fromkeys(["r", "u"], _RAW),
    **dict.fromkeys(["f", "fr", "rf", "t", "tr", "rt"], "text is not filled in"),
    **dict.fromkeys(["b", "br", "rb"], "there is only text"),
}


def _number_of(text: str, at: int, end: int) -> Token:
    written = text[at:end]
    if end < len(text) and (f"a{text[end]}".isidentifier() or text[end] == "."):
        advice = "this is not a number; write such as 12, 0.5 or 1e6, and text in quotes"
        return Token("bad", written, at, end, advice)
    whole = written.isdecimal()
    if whole and len(written) > 1 and written.startswith("0"):
        advice = "a number has no zeros before it; write text in quotes"
        return Token("bad", written, at, end, advice)
    value = int(written) if whole else float(written)
    if value > MAX_NUMBER if whole else not isfinite(value):
        return Token("bad", written, at, end, "the number is too large; write at most 2**63")
    return Token("number", written, at, end, value)


def _text_at(text: str, at: int) -> Token:
    """A quoted text. A backslash that escapes nothing is kept, because patterns have many."""
    quote = text[at]
    parts: list[str] = []
    end = at + 1
    while end < len(text) and text[end] != quote:
        if text[end] != "\\":
            parts.append(text[end])
            end += 1
            continue
        following = text[end + 1 : end + 2]
        parts.append(_ESCAPES.get(following, f"\\{following}"))
        end += 2
    if end >= len(text):
        advice = f"the text that begins here has no {quote} at its end"
        return Token("bad", quote, at, len(text), advice)
    return Token("text", text[at : end + 1], at, end + 1, "".join(parts))


_INDENT = "    "
_BEFORE = 48
_AFTER = 24
"""The number of characters of a long condition that are shown before and after the fault."""


def fault(text: str, position: int, problem: str) -> ConditionError:
    """Create the error for a fault at `position` of `text`. `problem` says how to correct the
    fault."""
    return ConditionError(problem, text=text, position=position, excerpt=_excerpt(text, position))


def _excerpt(text: str, position: int) -> str:
    """The line of the fault, and a line with a caret under the fault."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first, last = max(begin, position - _BEFORE), min(end, position + _AFTER)
    before = ("…" if first > begin else "") + _printable(text[first:position])
    after = _printable(text[position:last]) + ("…" if last < end else "")
    return f"{_INDENT}{before}{after}\n{_INDENT}{' ' * _width(before)}^"


def _printable(text: str) -> str:
    return "".join(
        each if each.isprintable() else " " if each.isspace() else "\ufffd" for each in text
    )


def _width(text: str) -> int:
    return sum(_columns(each) for each in text)


def _columns(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1


_OPERATOR_WORDS = frozenset({"and", "or", "in"})
_NO_WORDS: Final[Mapping[str, str]] = {
    "is": "write == (and != for 'is not')",
    "if": "there is no if … else in conditions; put and, or between parts",
    "else": "there is no if … else in conditions; put and, or between parts",
    "for": "there are no loops in conditions; write in, contains(…), any_of(…) or all_of(…)",
    "lambda": "conditions cannot define functions",
    "await": "a condition cannot wait; leave this out",
    "async": "a condition cannot wait; leave this out",
    "yield": "a condition gives one value; leave this out",
    "import": "a condition cannot import anything",
    "eq": "write ==",
    "ne": "write !=",
    "lt": "write <",
    "gt": "write >",
    "xor": "write != between two parts in parentheses",
}
_ASKED_FIRST = frozenset({"if", "else", "for", "is", "lambda", "await", "async", "yield", "import"})
_SPELLED: Final[Mapping[str, str]] = {
    **{word: word for word in ("and", "or", "not", "in", "true", "false", "null")},
    "none": "null",
}


def unexpected(token: Token, before: Token) -> str:
    """The advice for a `token` that cannot follow `before`, where the expression could end."""
    if token.kind == "bad":
        return str(token.value)
    if token.kind == "word":
        return _unexpected_word(token.written)
    if token.kind == "number" and token.written.startswith("."):
        return f"write items[{token.written[1:]}] for the item of a list"
    if token.kind in ("number", "text"):
        return "an operator is missing before this, such as == or and"
    if token.written in (")", "]"):
        return f"there is no {'(' if token.written == ')' else '['} for this {token.written}"
    if token.written == ",":
        return "a comma separates the items of a list; put the list into [ ]"
    if token.written == "(":
        return "only functions can be called; an operator is missing before this"
    return f"only fields can be gone into, not into {before.written[:20]}"


def _unexpected_word(word: str) -> str:
    if word in _NO_WORDS:
        return _NO_WORDS[word]
    spelled = _SPELLED.get(word.casefold())
    if word == "not":
        return "write not in, or put and before not"
    if spelled in ("and", "or", "in") and spelled != word:
        return f"write {spelled}"
    return f"an operator is missing before {word[:80]}, such as == or and"


def value_expected(token: Token, before: Token | None) -> str | None:
    """The advice for a `token` after `before` with which no value can begin. `None` if a value can
    begin with this token."""
    if token.kind == "bad":
        return str(token.value)
    if token.kind == "end":
        after = "" if before is None else f" after {before.written[:20]}"
        return f"a value is missing{after}"
    if token.kind == "word":
        return _word_fault(token.written)
    if token.written == "+":
        return "leave out the + before a number"
    after = "" if before is None else f" between {before.written[:20]} and {token.written}"
    return f"a value is missing{after or f' before {token.written}'}"


def _word_fault(word: str) -> str | None:
    if word in _ASKED_FIRST:
        return _NO_WORDS[word]
    if word == "not":
        return "put parentheses around this: (not x)"
    if word in _OPERATOR_WORDS:
        return f"a value is missing before {word}"
    spelled = _SPELLED.get(word.casefold())
    if spelled is not None and spelled != word:
        return f"write {spelled}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    start: int
    end: int
    """The end in the text. Start and end exclude parentheses around the part."""
    depth: int = 1
    """The depth of the tree below and including this part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(_Part):
    """A literal, or a list of literals."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(_Part):
    """A field, such as ``user.tier`` or ``items[0]``."""

    steps: tuple[Step, ...]
    dotted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists(_Part):
    """A test whether a field exists."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode(_Part):
    """A list with at least one item that is not a literal."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minus(_Part):
    """A negated number."""

    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(_Part):
    """A calculation with two numbers."""

    symbol: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(_Part):
    """One comparison, or a chain of them such as ``0 < x < 10``."""

    operands: tuple[Node, ...]
    symbols: tuple[str, ...]
    """The operators. There is one operator fewer than operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic(_Part):
    """Two or more parts with ``and`` or ``or`` between them."""

    word: Literal["and", "or"]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(_Part):
    """A negation, written ``not``."""

    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall(_Part):
    """The call of a function."""

    function: str
    arguments: tuple[Node, ...]
    call: Callable[..., Any]
    predicate: bool
    needs_now: bool


Node: TypeAlias = (
    Constant
    | Name
    | Exists
    | ListNode
    | Minus
    | Arithmetic
    | Comparison
    | Logic
    | Not
    | FunctionCall
)


def children_of(node: Node) -> tuple[Node, ...]:
    """The direct parts of `node`, in the order of the text."""
    match node:
        case Constant() | Name() | Exists():
            return ()
        case ListNode(items=inner) | Logic(parts=inner) | FunctionCall(arguments=inner):
            return inner
        case Comparison(operands=inner):
            return inner
        case Minus(operand=operand) | Not(operand=operand):
            return (operand,)
        case Arithmetic(left=left, right=right):
            return (left, right)


def parts_of(root: Node) -> Iterator[Node]:
    """All nodes except constants, in the order of the text; a node comes before its parts."""
    if not isinstance(root, Constant):
        yield root
    for child in children_of(root):
        yield from parts_of(child)


def names_in(root: Node) -> frozenset[str]:
    """The dotted names of all fields that `root` may read."""
    found = set()
    for part in parts_of(root):
        if isinstance(part, Name):
            found.add(part.dotted)
        elif isinstance(part, Exists):
            found.add(part.name.dotted)
    return frozenset(found)
