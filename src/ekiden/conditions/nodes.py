"""The syntax tree of a condition; each node has its place in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.conditions.values import Step


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
    """Whether a field exists."""

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
    """The operators; one less than operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic(_Part):
    """Two or more parts with ``and`` or ``or`` between them."""

    word: Literal["and", "or"]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(_Part):
    """``not``."""

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
