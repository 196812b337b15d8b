"""The parser of conditions.

The grammar is a small part of Python's expressions, without dangerous parts that would have to be
forbidden. Python's own parser is not used. It changes with every release, warns about texts such as
``"\\d"``, gives positions in bytes and rejects a field named ``from``. Deep nesting can crash it.
The grammar::

    or:          and ("or" and)*
    and:         not ("and" not)*
    not:         "not" not | comparison
    comparison:  sum (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") sum)*
    sum:         product (("+" | "-") product)*
    product:     sign (("*" | "/" | "//" | "%") sign)*
    sign:        "-" sign | operand
    operand:     literal | name | function "(" list ")" | "[" list "]" | "(" or ")" | "(" list ")"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import dumps
from typing import Any, Final, Literal

from ekiden.conditions.functions import FUNCTIONS, matcher
from ekiden.conditions.syntax import (
    Arithmetic,
    Comparison,
    Constant,
    Exists,
    FunctionCall,
    ListNode,
    Logic,
    Minus,
    Name,
    Node,
    Not,
    Token,
    fault,
    tokens_of,
    unexpected,
    value_expected,
)
from ekiden.conditions.values import COMPARISONS, NUMBERS, Step, kind_of
from ekiden.core.errors import ConditionError
from ekiden.core.text.wording import suggestion

MAX_CHARS: Final = 2_000
MAX_NESTING: Final = 20
"""Maximum nesting of brackets, ``not`` and ``-``. Each level needs about fifteen nested calls of
the parser."""
MAX_DEPTH: Final = 60
"""Maximum depth of the tree; ``a + b + c`` has three levels."""
MAX_PARTS: Final = 500

_LITERALS: Final[Mapping[str, Any]] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_ORDERINGS = frozenset({"<", "<=", ">", ">="})


def parse(text: str) -> Node:
    """Return the syntax tree of `text`. Raises `ConditionError` with the position and a
    suggestion."""
    if len(text) > MAX_CHARS:
        raise fault(
            text[:MAX_CHARS],
            MAX_CHARS,
            f"it has {len(text)} characters, the maximum is {MAX_CHARS}; "
            "compute a part of it in code and give it as a fact",
        )
    if not text.strip():
        raise ConditionError(
            "it is empty; write a condition such as confidence < 0.5", text=text, position=0
        )
    return _Parser(text).parse()


class _Parser:
    __slots__ = ("_at", "_nesting", "_parts", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._nesting = 0
        self._parts = 0

    def parse(self) -> Node:
        found = self._or()
        if self._next.kind != "end":
            raise self._unexpected()
        return found

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    @property
    def _last(self) -> Token:
        return self._tokens[self._at - 1]

    def _take(self) -> Token:
        self._at += 1
        return self._last

    def _is(self, *written: str) -> bool:
        return self._next.kind in ("sign", "word") and self._next.written in written

    def _fault(self, position: int, problem: str) -> ConditionError:
        return fault(self._text, position, problem)

    def _unexpected(self) -> ConditionError:
        return self._fault(self._next.start, unexpected(self._next, self._last))

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            if self._next.kind == "end":
                raise self._fault(self._next.start, f"a {sign} is missing at the end")
            raise self._unexpected()
        self._take()

    def _made(self, kind: Callable[..., Any], start: int, *inside: Node, **fields: Any) -> Any:
        """A node from `start` to the last taken token."""
        self._parts += 1
        depth = 1 + max((each.depth for each in inside), default=0)
        if depth > MAX_DEPTH:
            raise self._too_deep(start, MAX_DEPTH)
        if self._parts > MAX_PARTS:
            raise self._fault(start, f"it has too many parts; the maximum is {MAX_PARTS}")
        return kind(start=start, end=self._last.end, depth=depth, **fields)

    def _too_deep(self, position: int, most: int) -> ConditionError:
        return self._fault(
            position,
            f"it is nested too deeply, the maximum is {most} levels; "
            "compute a part of it in code and give it as a fact",
        )

    def _deeper(self, read: Callable[[], Node]) -> Node:
        """The result of `read`, one level deeper. The limit also bounds Python's call stack."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._too_deep(self._next.start, MAX_NESTING)
        found = read()
        self._nesting -= 1
        return found

    def _or(self) -> Node:
        return self._logic("or", self._and)

    def _and(self) -> Node:
        return self._logic("and", self._not)

    def _logic(self, word: Literal["and", "or"], read: Callable[[], Node]) -> Node:
        start = self._next.start
        parts = [read()]
        while self._is(word):
            self._take()
            parts.append(read())
        if len(parts) == 1:
            return parts[0]
        made: Node = self._made(Logic, start, *parts, word=word, parts=tuple(parts))
        return made

    def _not(self) -> Node:
        if not self._is("not"):
            return self._comparison()
        start = self._take().start
        operand = self._deeper(self._not)
        made: Node = self._made(Not, start, operand, operand=operand)
        return made

    def _comparison(self) -> Node:
        start = self._next.start
        operands = [self._sum()]
        symbols: list[str] = []
        while symbol := self._take_comparison():
            places = [operands[-1].start, self._next.start]
            operands.append(self._sum())
            symbols.append(symbol)
            self._check_comparison(symbol, operands[-2:], places)
        if not symbols:
            return operands[0]
        made: Node = self._made(
            Comparison, start, *operands, operands=tuple(operands), symbols=tuple(symbols)
        )
        return made

    def _take_comparison(self) -> str | None:
        """Take the operator of a comparison, if it is next."""
        token = self._next
        if token.kind not in ("sign", "word"):
            return None
        if token.written in COMPARISONS:
            return self._take().written
        following = self._tokens[self._at + 1] if token.written == "not" else token
        if following.written != "in":
            return None
        self._at += 2
        return "not in"

    def _check_comparison(self, symbol: str, operands: list[Node], places: list[int]) -> None:
        """Refuse a literal of a kind that the comparison never accepts."""
        for operand, place in zip(operands, places, strict=True):
            if isinstance(operand, Constant) and symbol in _ORDERINGS:
                kind = kind_of(operand.value)
                if kind not in ("number", "text"):
                    raise self._fault(place, f"{symbol} compares numbers or texts, not {kind}")
        whole = operands[1]
        if isinstance(whole, Constant) and symbol in ("in", "not in"):
            kind = kind_of(whole.value)
            if kind not in ("list", "text"):
                raise self._fault(places[1], f"{symbol} looks into a list or a text, not {kind}")

    def _sum(self) -> Node:
        return self._calculation(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._calculation(("*", "/", "//", "%"), self._sign)

    def _calculation(self, symbols: tuple[str, ...], read: Callable[[], Node]) -> Node:
        start = self._next.start
        left = read()
        while self._is(*symbols):
            symbol = self._take().written
            place = self._next.start
            right = read()
            self._check_number(symbol, left, start)
            self._check_number(symbol, right, place)
            left = self._made(Arithmetic, start, left, right, symbol=symbol, left=left, right=right)
        return left

    def _check_number(self, symbol: str, operand: Node, place: int) -> None:
        if isinstance(operand, Constant) and type(operand.value) not in NUMBERS:
            kind = kind_of(operand.value)
            raise self._fault(place, f"{symbol} calculates with numbers only, not {kind}")

    def _sign(self) -> Node:
        if not self._is("-"):
            return self._operand()
        start = self._take().start
        operand = self._deeper(self._sign)
        self._check_number("-", operand, operand.start)
        if isinstance(operand, Constant):
            return self._constant(start, -operand.value)
        made: Node = self._made(Minus, start, operand, operand=operand)
        return made

    def _constant(self, start: int, value: Any) -> Constant:
        made: Constant = self._made(Constant, start, value=value)
        return made

    def _operand(self) -> Node:
        token = self._next
        if token.kind in ("number", "text"):
            self._take()
            return self._constant(token.start, token.value)
        if token.kind == "word" and token.written in _LITERALS:
            self._take()
            return self._constant(token.start, _LITERALS[token.written])
        if self._is("(", "["):
            return self._bracketed()
        problem = value_expected(token, self._last if self._at else None)
        if problem is not None:
            raise self._fault(token.start, problem)
        if self._tokens[self._at + 1].written == "(":
            return self._call()
        return self._name()

    def _bracketed(self) -> Node:
        opening = self._take()
        if opening.written == "[":
            return self._list(opening.start, self._items("]"))
        if self._is(")"):
            raise self._fault(
                opening.start, "there is nothing between ( and ); an empty list is written []"
            )
        inner = self._deeper(self._or)
        if not self._is(","):
            self._expect(")")
            return inner
        self._take()
        return self._list(opening.start, [inner, *self._items(")")])

    def _list(self, start: int, items: list[Node]) -> Node:
        if all(isinstance(item, Constant) for item in items):
            return self._constant(start, tuple(getattr(item, "value", None) for item in items))
        made: Node = self._made(ListNode, start, *items, items=tuple(items))
        return made

    def _items(self, closing: str) -> list[Node]:
        """The parts up to the closing bracket, separated by commas."""
        items: list[Node] = []
        while not self._is(closing):
            items.append(self._deeper(self._or))
            if not self._is(","):
                break
            self._take()
        self._expect(closing)
        return items

    def _name(self) -> Name:
        first = self._take()
        steps: list[Step] = [first.written]
        dotted = first.written
        while self._is(".", "["):
            step = self._key() if self._take().written == "." else self._index()
            plain = isinstance(step, str) and step.isidentifier()
            written = dumps(step, ensure_ascii=False)
            dotted += f".{step}" if plain else f"[{written}]"
            steps.append(step)
        if self._is("(") and isinstance(steps[-1], str):
            raise self._method(steps[-1], first.start)
        made: Name = self._made(Name, first.start, steps=tuple(steps), dotted=dotted)
        return made

    def _key(self) -> Step:
        if self._next.kind == "bad":
            raise self._unexpected()
        if self._next.kind != "word":
            raise self._fault(self._next.start, "a name is missing after the dot")
        return self._take().written

    def _index(self) -> Step:
        minus = self._is("-")
        if minus:
            self._take()
        token = self._next
        if token.kind == "bad":
            raise self._unexpected()
        if type(token.value) is not int and (minus or token.kind != "text"):
            raise self._fault(
                token.start, 'write a whole number or a text between [ and ]: items[0], x["a b"]'
            )
        self._take()
        self._expect("]")
        step: Step = -token.value if minus else token.value
        return step

    def _method(self, called: str, start: int) -> ConditionError:
        advice = f"write {called}(…)" if called in FUNCTIONS else "only functions can be called"
        return self._fault(start, f"{called} is not called with a dot; {advice}")

    def _call(self) -> Node:
        name = self._take()
        function = FUNCTIONS.get(name.written)
        if function is None:
            known = ", ".join(sorted(FUNCTIONS))
            raise self._fault(
                name.start,
                f"there is no function {name.written[:80]!r}; "
                f"there are: {known}{suggestion(name.written, FUNCTIONS)}",
            )
        self._take()
        given = self._items(")")
        most = len(given) if function.most is None else function.most
        if not function.least <= len(given) <= most:
            raise self._fault(
                name.start,
                f"{name.written} is written {function.signature}; here it gets {len(given)} values",
            )
        if name.written == "exists":
            return self._exists(name.start, given[0])
        call, arguments = function.call, given
        if name.written == "matches":
            call, arguments = self._pattern(given[1]), given[:1]
        made: Node = self._made(
            FunctionCall,
            name.start,
            *arguments,
            function=name.written,
            arguments=tuple(arguments),
            call=call,
            predicate=function.predicate,
            needs_now=function.needs_now,
        )
        return made

    def _exists(self, start: int, given: Node) -> Node:
        if not isinstance(given, Name):
            raise self._fault(given.start, "exists needs a field: exists(user.tier)")
        made: Node = self._made(Exists, start, given, name=given)
        return made

    def _pattern(self, given: Node) -> Callable[..., Any]:
        if not isinstance(given, Constant) or not isinstance(given.value, str):
            raise self._fault(given.start, "the pattern of matches must be a text in quotes")
        try:
            return matcher(given.value)
        except ValueError as exc:
            raise self._fault(given.start, f"the pattern cannot be used: {exc}") from None
