"""Finds sensitive text: cards, identity numbers, telephones, e-mail addresses, keys, tokens."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

_compiled = cache(re.compile)
"""Compiles patterns at first use: few texts need them, and compiling all would delay every
start."""

# E-mail addresses, keys and tokens.
#
# The text is already normalized, and every search takes linear time, without backtracking.


# E-mail. The search finds the @ sign first, then both sides of it. In a language without spaces the
# words around an address touch it; they are separated from it by script.

_CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_AT_SIGN = re.compile(r"(?:@|%40)(?=[^\W_])")
_LOCAL_BACKWARDS = rf"[{_CJK}]{{1,16}}|(?:(?![{_CJK}])[\w.!#$&'*+?^`{{|}}~-]){{1,64}}"
_DOMAIN = rf"""(?:(?![{_CJK}])[\w-]{{1,63}}+|[{_CJK}]{{1,32}}+)
    (?:\.(?:(?:(?![{_CJK}])[\w-]{{1,63}}+|[{_CJK}]{{1,32}}+)(?=\.[^\W_]))){{0,8}}
    \.(?: xn--[0-9a-z-]{{2,59}} | [A-Za-z]{{2,63}}(?![0-9A-Za-z_])
        | 中国|中國|公司|网络|網路|台湾|台灣|香港|在线|中文网|网址|广告|商城|集团|新加坡
        | [{_CJK}]{{2,3}} | (?:(?![{_CJK}A-Za-z])[^\W\d_]){{2,32}} )"""
_FILES = frozenset({"png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "css", "js", "html"})
"""File extensions: ``icon@2x.png`` is not an address."""


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """The positions of e-mail addresses in a normalized text."""
    done = 0
    for sign in _AT_SIGN.finditer(text):
        domain = _compiled(_DOMAIN, re.VERBOSE).match(text, sign.end())
        if domain is None or domain.group().rpartition(".")[2].lower() in _FILES:
            continue
        before = text[max(sign.start() - 64, done) : sign.start()][::-1]
        local = _compiled(_LOCAL_BACKWARDS).match(before)
        if local is None or not local.group().strip("."):
            continue
        start = sign.start() - len(local.group().rstrip("."))
        # `git@host:path` is the address of a repository.
        if text[start : sign.start()] == "git" and text.startswith(":", domain.end()):
            continue
        done = domain.end()
        yield start, done


# Keys and tokens: recognised by their prefix, or by the word before them.

_ALONE = r"(?<![0-9A-Za-z_-])"
_PREFIXED: tuple[tuple[str, str], ...] = tuple(
    (prefix, f"{_ALONE}{pattern}")
    for prefix, pattern in (
        ("sk-", r"sk-(?=[A-Za-z_-]*+[0-9])(?=[0-9_-]*+[A-Za-z])[0-9A-Za-z_-]{16,}+"),
        ("k_", r"[srp]k_(?:live|test)_[0-9A-Za-z]{10,}+"),
        ("ek_", r"ek_[0-9a-z]{8}_[0-9A-Za-z]{20,}+"),
        ("A", r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("LTAI", r"LTAI[0-9A-Za-z]{12,24}(?![0-9A-Za-z])"),
        ("AKID", r"AKID[0-9A-Za-z]{13,40}(?![0-9A-Za-z])"),
        ("gh", r"gh[opsru]_[0-9A-Za-z]{20,}+"),
        ("github_pat_", r"github_pat_[0-9A-Za-z_]{20,}+"),
        ("glpat-", r"glpat-[0-9A-Za-z_-]{20,}+"),
        ("xox", r"xox[abeoprs]-[0-9A-Za-z-]{10,}+"),
        ("xapp-", r"xapp-[0-9A-Za-z-]{10,}+"),
        ("AIza", r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
        ("ya29.", r"ya29\.[0-9A-Za-z_-]{20,}+"),
        ("hf_", r"hf_[0-9A-Za-z]{30,}+"),
        ("npm_", r"npm_[0-9A-Za-z]{36}(?![0-9A-Za-z])"),
        ("eyJ", r"eyJ[0-9A-Za-z_-]{8,}+\.eyJ[0-9A-Za-z_-]{8,}+\.[0-9A-Za-z_-]*+"),
    )
)
_TOKEN = (
    r"(?P<key>(?=[^0-9\s]{0,255}[0-9])(?=[^A-Za-z\s]{0,255}[A-Za-z])"
    r"[0-9A-Za-z_.~+/-]{16,}+={0,2})"
)
_NAMED: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (("bearer",), re.compile(rf"[ \t]{{1,3}}{_TOKEN}")),
    (
        ("authorization",),
        re.compile(r"""[\s"'\\:=]{1,6}(?i:basic)[ ]{1,3}(?P<key>[0-9A-Za-z+/]{12,}+={0,2})"""),
    ),
    (
        ("api", "secret", "access", "client"),
        re.compile(
            r"(?i:(?:[_ -]?access)?[_ -]?key|[_ -]?token|[_ -]?secret)"
            rf"""[\s"'\\:=]{{1,6}}{_TOKEN}"""
        ),
    ),
)
_PASSWORD = re.compile(r"://[^\s/:@\"']{0,64}:(?![\[<{*$]|[A-Z_]+@)(?P<key>[^\s/@\"']{1,256})@")
_MAYBE_KEY = re.compile(r"[0-9A-Za-z_.~+/-]{12}|://|-----BEGIN")
_PEM_BEGIN = re.compile(r"-----BEGIN [0-9A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [0-9A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
# Possessive is only the repeat of one character: that of a group is wrong before Python 3.11.5.
_PEM_BODY = re.compile(r"(?:[0-9A-Za-z+/=\s]++|\\[nr])*")
_LONGEST_PEM = 65_536


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """The positions of keys, tokens, and passwords in addresses, in a normalized text."""
    if _MAYBE_KEY.search(text) is None:
        return
    for prefix, pattern in _PREFIXED:
        if prefix in text:
            yield from (found.span() for found in _compiled(pattern).finditer(text))
    for words, after in _NAMED:
        for end in word_ends(text, words):
            named = after.match(text, end)
            if named is not None:
                yield named.span("key")
    yield from (found.span("key") for found in _PASSWORD.finditer(text))
    if "-----BEGIN" in text:
        yield from _private_keys(text)


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """The positions of PEM blocks. A block without an end reaches as far as it looks like a key."""
    ends = [found.end() for found in _PEM_END.finditer(text)]
    done = 0
    for begin in _PEM_BEGIN.finditer(text):
        if begin.start() < done:
            continue
        next_end = bisect_left(ends, begin.end())
        if next_end < len(ends) and ends[next_end] - begin.start() <= _LONGEST_PEM:
            done = ends[next_end]
        else:
            body = _PEM_BODY.match(text, begin.end())
            done = begin.end() if body is None else body.end()
        yield begin.start(), done


def word_ends(text: str, words: Iterable[str]) -> Iterator[int]:
    """The positions in the text where one of `words` ends. `words` are in lower case, and match at
    the start of a word or of a part of a ``camelCase`` name."""
    # `lower` makes two characters of this one, so that later positions would be wrong.
    lower = text.replace("\u0130", "I").lower()
    for word in words:
        at = lower.find(word)
        while at >= 0:
            if _begins_word(text, at):
                yield at + len(word)
            at = lower.find(word, at + len(word))


def _begins_word(text: str, at: int) -> bool:
    before = text[max(at - 2, 0) : at]
    if not (before[-1:].isascii() and before[-1:].isalpha()):
        return True
    return len(before) == 2 and before.isascii() and before.islower() and text[at].isupper()


# Personal numbers: cards, identity numbers, telephones.
#
# Every pattern is tried at one position and has a bounded length, so the search takes linear time.
# The text is already normalized: digits of every script are ``0-9``, dashes are ``-``, spaces are
# plain. Only ASCII letters and digits can be part of a number, so a Chinese character beside a
# number does not hide it.


NumberKind: TypeAlias = Literal["card", "ssn", "cn_id", "tw_id", "phone"]
NumberSpan: TypeAlias = tuple[NumberKind, int, int]

NUMBER_KINDS: frozenset[str] = frozenset({"card", "ssn", "cn_id", "tw_id", "phone"})

_CONTEXT = 48
"""How many characters before a number are context for its kind."""

_LONG = re.compile(r"[0-9](?:[ ./()+\-]{0,3}[0-9]){6}")
_START = re.compile(
    r"""[0-9+(](?<![0-9A-Za-z].)
    (?: (?<=[0-9]) | (?<=\+)(?=[ ]?\(?[1-9]) | (?<=\()(?=[+0-9]) )
    (?=(?:[ ./()+\-]{0,3}[0-9]){6})""",
    re.VERBOSE | re.DOTALL,
)
"""A position where a number of seven digits or more may begin."""


def find_numbers(text: str, kinds: Collection[str]) -> Iterator[NumberSpan]:
    """The positions of numbers of these `kinds` in a normalized text. Spans of different kinds may
    overlap."""
    if _LONG.search(text) is None:
        return
    if "tw_id" in kinds:
        for found in _TW_ID.finditer(text):
            if _tw_checksum(found.group().upper()):
                yield "tw_id", *found.span()
    wanted = [kind for kind in _AT if kind in kinds]
    done = dict.fromkeys(wanted, 0)
    for start in _START.finditer(text) if wanted else ():
        at = start.start()
        if text[at] not in _CARD_STARTS and _OTHERS.match(text, at) is None:
            continue
        for kind in wanted:
            end = _AT[kind](text, at) if at >= done[kind] else None
            if end is not None:
                done[kind] = end
                yield kind, at, end
    if "phone" in kinds:
        yield from (("phone", *span) for span in _named(text, _PHONE_WORDS, _AFTER_PHONE))
    if "ssn" in kinds:
        yield from (("ssn", *span) for span in _named(text, _SSN_WORDS, _AFTER_SSN))


def _named(text: str, words: Sequence[str], after: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """The positions of numbers that follow one of `words`."""
    for end in word_ends(text, words):
        found = after.match(text, end)
        if found is not None:
            yield found.span("number")


# Payment cards: a known issuer, a length that this issuer uses, and a valid Luhn check digit.

_CARD = re.compile(r"(?<![0-9][-.])(?<![0-9A-Fa-f]{4}-)[2-69][0-9]*+(?:[ -][0-9]{2,}+){0,6}")
_ISSUERS = re.compile(
    r"""(?P<visa>4)
    | (?P<sixteen>5[1-5]|22[3-9]|2[3-6]|27[01]|2720|222[1-9]|220[0-4]|35(?:2[89]|[3-8])|9792)
    | (?P<amex>3[47])
    | (?P<diners>30[0-5]|36|38|39)
    | (?P<union>62|60|64[4-9]|65)
    | (?P<maestro>5018|5020|5038|56|57|58|6304|67)""",
    re.VERBOSE,
)
_CARD_LENGTHS = {
    "visa": (19, 16, 13),
    "sixteen": (16,),
    "amex": (15,),
    "diners": (16, 14),
    "union": (19, 18, 17, 16),
    "maestro": (19, 18, 17, 16, 15, 14, 13),
}
_DOUBLED = dict(zip("0123456789", (0, 2, 4, 6, 8, 1, 3, 5, 7, 9), strict=True))
_SHORTEST_CARD, _LONGEST_CARD = 13, 19
_CARD_STARTS = frozenset("234569")


def _card(text: str, at: int) -> int | None:
    found = _CARD.match(text, at, at + 2 * _LONGEST_CARD)
    if found is None or found.end() - at < _SHORTEST_CARD:
        return None
    groups = found.group().replace("-", " ").split(" ")
    issuer = _ISSUERS.match("".join(groups))
    if issuer is None or issuer.lastgroup is None:
        return None
    lengths = _CARD_LENGTHS[issuer.lastgroup]
    digits, end, best = "", at - 1, None
    for group in groups:
        digits += group
        end += 1 + len(group)
        if len(digits) in lengths and _stands_alone(text, end) and _luhn(digits):
            best = end
    return None if best is None or _is_other(text, at, text[at:best]) else best


def _is_other(text: str, at: int, number: str) -> bool:
    """Whether digits that look like a rare kind of card are probably an article or order number."""
    if not number.isdigit() or len(number) in _USUAL_LENGTHS:
        return False
    weighted = sum(map(int, number[::2])) + 3 * sum(map(int, number[1::2]))
    return (len(number) == _EAN_LENGTH and weighted % 10 == 0) or _is_order(text, at)


_USUAL_LENGTHS = (14, 15, 16)
_EAN_LENGTH = 13


def _stands_alone(text: str, end: int) -> bool:
    return _GOES_ON.match(text, end) is None


_GOES_ON = re.compile(r"[0-9A-Za-z]|[-.][0-9]")


def _luhn(digits: str) -> bool:
    if len(set(digits)) == 1:
        return False
    doubled = sum(_DOUBLED[digit] for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


# Identity numbers.

_SSN_PARTS = r"(?!000|666|9)[0-9]{3}%s(?!00)[0-9]{2}%s(?!0000)[0-9]{4}(?![0-9A-Za-z]|[-.][0-9])"
_SSN = re.compile(r"(?<![0-9A-Za-z][-.])" + _SSN_PARTS % ("-", "-"))
_SSN_WORDS = ("ssn", "social", "社会安全", "社會安全", "社安")
_AFTER_SSN = re.compile(
    r"""(?i:[ _]security)?[\s"'\\:=_#]{0,4}(?i:number|num|no|号码|号|號碼|號|is|是)?"""
    r"""[\s"'\\:=.#]{0,4}(?:is|是)?[ :]{0,2}"""
    rf"(?P<number>{_SSN_PARTS % ('[ .-]?', '[ .-]?')})"
)

_CN_ID = re.compile(
    r"""(?<![0-9][-.])(?:1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[1-3]|91)[0-9]{4}[ -]?
    (?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[ -]?[0-9]{3}[0-9Xx]
    (?![0-9A-Za-z]|[-.][0-9])""",
    re.VERBOSE,
)
_CN_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)

_TW_ID = re.compile(r"[A-Za-z][1289][0-9]{8}(?![0-9A-Za-z])(?<![0-9A-Za-z].{10})", re.DOTALL)
_TW_LETTERS = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
"""The letters in the order of their codes, which begin at 10."""


def _ssn(text: str, at: int) -> int | None:
    found = _SSN.match(text, at)
    return None if found is None else found.end()


def _cn_id(text: str, at: int) -> int | None:
    found = _CN_ID.match(text, at)
    if found is None:
        return None
    number = found.group().replace(" ", "").replace("-", "").upper()
    total = sum(weight * int(digit) for weight, digit in zip(_CN_WEIGHTS, number, strict=False))
    return found.end() if "10X98765432"[total % 11] == number[-1] else None


def _tw_checksum(number: str) -> bool:
    tens, ones = divmod(10 + _TW_LETTERS.index(number[0]), 10)
    weighted = sum(
        int(digit) * weight for digit, weight in zip(number[1:9], range(8, 0, -1), strict=True)
    )
    return (tens + 9 * ones + weighted + int(number[9])) % 10 == 0


# Telephones.

_EXTENSION = r"(?:[ ]?(?:x|ext\.?|转|轉|分機|分机|\#)[ ]?[0-9]{1,6})?"
_PHONE = re.compile(
    rf"""(?<![0-9A-Za-z][-.])(?<![A-Za-z0-9/]\+)
    (?: # China, mobile: 138 1234 5678, also after +86, 0086, 86 and (86)
        (?:(?:\(\+?86\)|(?:\+|00)?86)[ -]?)? 1[3-9][0-9]
        (?: [0-9]{{8}} | [ .-][0-9]{{4}}[ .-]?[0-9]{{4}} | [0-9][ -][0-9]{{4}}[ -][0-9]{{3}}
          | [0-9]{{4}}[ .-][0-9]{{4}} | [ -][0-9]{{3}}[ -][0-9]{{5}} | [ -][0-9]{{8}} )
      | # Taiwan, mobile
        (?:(?:\(\+?886\)|(?:\+|00)?886)[ -]?(?:\(0\)|0)?|0)
            9[0-9]{{2}}[ -]?[0-9]{{3}}[ -]?[0-9]{{3}}
      | # Japan, mobile
        0[5789]0(?: [0-9]{{8}} | [ -][0-9]{{4}}[ -][0-9]{{4}} )
      | # Hong Kong and Macau, with their code
        (?:(?:\+|00)85[23][ -]?|85[23][ -]|\(85[23]\)[ ]?) [2-9][0-9]{{3}}[ -]?[0-9]{{4}}
      | # North America
        (?:1[ .-]?)?(?:\([2-9][0-9]{{2}}\)[ ]?|[2-9][0-9]{{2}}[.-])[2-9][0-9]{{2}}[ .-][0-9]{{4}}
      | (?:1[ ])?[2-9][0-9]{{2}}[ ][2-9][0-9]{{2}}[ -][0-9]{{4}}
      | \+1(?:[ ./()-]{{0,2}}[0-9]){{10}}
      | # Landlines that begin with a zero
        0[1-9][0-9]{{0,2}}-(?: [0-9]{{7,8}} | [0-9]{{3,4}}[ -][0-9]{{3,4}} )
      | 0[1-9][0-9]{{2}}-[0-9]{{2}}-[0-9]{{4}}
      | \(0[1-9][0-9]{{0,2}}\)[ -]?(?: [0-9]{{7,8}} | [0-9]{{2,4}}[ -][0-9]{{3,4}} )
      | 0[1-9][0-9]{{0,2}}[ ](?: [0-9]{{7,8}} | (?!19|20)[0-9]{{3,4}}[ ][0-9]{{4}} )
      | # everything else that says its country
        (?:\+(?!1)(?=[ (]{{0,2}}[1-9])|00(?=86|886|852|853|81))
            (?:[ ./()-]{{0,2}}[0-9]){{8,15}}
    )
    {_EXTENSION} (?![0-9A-Za-z]|[.][0-9])""",
    re.VERBOSE,
)
_OTHERS = re.compile(f"{_PHONE.pattern}|{_SSN.pattern}|{_CN_ID.pattern}", re.VERBOSE)
"""A cheap first test, which fails at most positions."""

_PHONE_WORDS = (
    "phone", "telephone", "cellphone", "tel", "mobile", "cell", "fax", "whatsapp",
    "电话", "電話", "手机", "手機", "携帯", "联系方式", "聯絡方式", "传真", "傳真", "座机", "固话",
)  # fmt: skip
_AFTER_PHONE = re.compile(
    r"""(?:[\s"'\\:=._\#*-]{0,4}(?i:number|num|no|nr|is|号码|号|號碼|號|番号|是|为|為|は)?){2}
    [\s"'\\:=.*-]{0,3}
    (?P<number> (?![12][0-9]{3}-[0-9]{2}-[0-9]{2}(?![0-9]))
        [+(]?[0-9](?:[ ./()-]{0,2}[0-9]){6,14} ) (?![0-9A-Za-z]|[.:,][0-9])""",
    re.VERBOSE,
)
_OTHER_NUMBER = re.compile(
    r"""(?: 订单|訂單|单号|單號|编号|編號|流水|运单|
        (?<![A-Za-z])(?i:order|invoice|tracking|ticket|sku|reference|ref|transaction|shipment) )
    [\s"'\\:=_\#.-]{0,3}(?i:numbers?|num|no|nr|id|号码|号|號碼|號)?
    [\s"'\\:=\#.-]{0,4}(?:是|为|為|is[ ])?\Z""",
    re.VERBOSE,
)
_GROUPED_NUMBER = re.compile(r"\+[0-9]+\.[0-9]{1,2}\Z")


def _phone(text: str, at: int) -> int | None:
    found = _PHONE.match(text, at)
    if found is None:
        return None
    number = found.group()
    if sum(map(str.isdigit, number)) < 9 or _GROUPED_NUMBER.match(number):
        return None
    return None if number.isdigit() and _is_order(text, at) else found.end()


def _is_order(text: str, at: int) -> bool:
    """Whether the words before a number call it an order, an invoice or the like."""
    return _OTHER_NUMBER.search(text, max(at - _CONTEXT, 0), at) is not None


_AT: dict[NumberKind, Callable[[str, int], int | None]] = {
    "card": _card,
    "ssn": _ssn,
    "cn_id": _cn_id,
    "phone": _phone,
}
"""By kind, a function that returns the end of a number that begins at a position, or `None`."""
