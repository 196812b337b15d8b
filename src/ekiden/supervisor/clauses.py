"""A request in parts, cut where one wish may end and the next begin.

The cuts are guesses. Each says how sure it is: a `sentence` ends for certain, `then` says besides
that the order matters, and `and` (commas, "and", 和, と) may as well join two words of one wish.
Whoever uses the parts joins what belongs together again. Nothing in quotation marks or code is cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Link: TypeAlias = Literal["and", "sentence", "then"]

MAX_CHARS = 20_000
MAX_CLAUSES = 200
"""How much of a request is cut, and into how many parts; the rest belongs to the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The part ``text[start:end]`` of a request."""

    link: Link
    """How it is joined to the one before."""
    start: int
    end: int


_WHOLE = re.compile(
    r"\"[^\"\n]{0,500}\"|“[^”]{0,500}”|「[^」]{0,500}」|『[^』]{0,500}』|《[^》]{0,500}》"
    r"|`[^`\n]{0,500}`|\bhttps?://\S{1,500}"
)
"""What is never cut. Every repeat here and below has an end: else a request of nothing but
quotation marks or spaces would take time with the square of its length."""

_LATER = (
    r"and\s{1,9}then|and\s{1,9}after\s{1,9}that|after\s{1,9}that|and\s{1,9}afterwards?"
    r"|afterwards?|then|next|finally"
)
_LATER_CJK = "然后|然後|接着|接著|之后再|之後再|随后|隨後|最后|最後に|それから|そのあと|その後|次に"
_ALSO = r"and\s{1,9}also|and\s{1,9}please|and|also|plus|as\s{1,9}well\s{1,9}as"
_ALSO_CJK = "以及|还有|還有|另外|并且|並且|同时|同時に|而且|そして|あと|また|および"

_HAN_KANA = "\u3040-\u30ff\u3400-\u9fff"
_CUT = re.compile(
    rf"""
      (?P<then>
          (?:^|(?<=[\s,;:.!?，。；、！？]))(?:{_LATER})\b[,，]?\s*   # , then …
        | [,，、;；。.!?！？]?\s{{0,9}}(?:{_LATER_CJK})[,，、]?\s*     # ，然后…
        | [,，、]\s{{0,9}}再(?=[{_HAN_KANA}])                          # ，再…
      )
    | (?P<sentence>
          [。！？；]+\s*                                              # 。
        | [.!?…]{{1,9}}(?:\s+|$)                                       # "." but not in 3.5
        | ;\s*
        | \n\s*
      )
    | (?P<and>
          ,?\s{{1,9}}(?:{_ALSO})\s+
        | [,，、]?\s{{0,9}}(?:{_ALSO_CJK})[,，、]?\s*
        | ,\s+ | [，、]\s*
        | (?<=[{_HAN_KANA}])(?:和|跟|与|與)(?=[{_HAN_KANA}\w])
        | (?<=[\u30a0-\u30ff\u3400-\u9fff\w])と、?(?=[\u30a0-\u30ff\u3400-\u9fff\w])
        | \s&\s+
      )
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_ABBREVIATION = re.compile(r"(?:\b[A-Za-z]|\b(?:e\.g|i\.e|etc|vs|St|Mr|Mrs|Ms|Dr|No|approx))\.$")
_LONGEST_ABBREVIATION = 12
_STRONGER: dict[Link, int] = {"and": 0, "sentence": 1, "then": 2}


def clauses(text: str) -> list[Clause]:
    """The parts of `text`, in order; none is empty, and a text without any words has none."""
    whole = _WHOLE.sub(lambda found: "\ufffc" * len(found.group()), text[:MAX_CHARS])
    parts: list[Clause] = []
    link: Link = "sentence"
    start = 0
    for cut in _CUT.finditer(whole):
        kind: Link = "then" if cut["then"] is not None else "and" if cut["and"] else "sentence"
        before = whole[max(start, cut.start() - _LONGEST_ABBREVIATION) : cut.start() + 1]
        if kind == "sentence" and _ABBREVIATION.search(before):
            continue
        if len(parts) == MAX_CLAUSES - 1:
            break
        mark = 0 if kind != "sentence" else len(cut.group().rstrip())
        end = cut.start() + mark
        if whole[start : cut.start()].strip():
            parts.append(_trimmed(text, start, end, link))
            link = kind
        elif _STRONGER[kind] > _STRONGER[link]:
            link = kind
        start = cut.end()
    if text[start:].strip():
        parts.append(_trimmed(text, start, len(text), link))
    return parts


def _trimmed(text: str, start: int, end: int, link: Link) -> Clause:
    while text[start].isspace():
        start += 1
    while text[end - 1].isspace():
        end -= 1
    return Clause(link=link, start=start, end=end)
