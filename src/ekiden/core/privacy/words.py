"""Sensitive words: e-mail addresses, keys and tokens.

As for numbers, the text is already normalized and every search is linear, without backtracking.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

# E-mail. The sign in the middle is looked for, and then both sides of it. Where a language is
# written without spaces, the words around an address touch it: they are told from it by script.

_CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_AT_SIGN = re.compile(r"(?:@|%40)(?=[^\W_])")
_LOCAL_BACKWARDS = re.compile(rf"[{_CJK}]{{1,16}}|(?:(?![{_CJK}])[\w.!#$&'*+?^`{{|}}~-]){{1,64}}")
_DOMAIN = re.compile(
    rf"""(?:(?![{_CJK}])[\w-]{{1,63}}+|[{_CJK}]{{1,32}}+)
    (?:\.(?:(?:(?![{_CJK}])[\w-]{{1,63}}+|[{_CJK}]{{1,32}}+)(?=\.[^\W_]))){{0,8}}
    \.(?: xn--[0-9a-z-]{{2,59}} | [A-Za-z]{{2,63}}(?![0-9A-Za-z_])
        | 中国|中國|公司|网络|網路|台湾|台灣|香港|在线|中文网|网址|广告|商城|集团|新加坡
        | [{_CJK}]{{2,3}} | (?:(?![{_CJK}A-Za-z])[^\W\d_]){{2,32}} )""",
    re.VERBOSE,
)
_FILES = frozenset({"png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "css", "js", "html"})
"""What follows the last dot in ``icon@2x.png``."""


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Where the addresses are in a folded text."""
    done = 0
    for sign in _AT_SIGN.finditer(text):
        domain = _DOMAIN.match(text, sign.end())
        if domain is None or domain.group().rpartition(".")[2].lower() in _FILES:
            continue
        before = text[max(sign.start() - 64, done) : sign.start()][::-1]
        local = _LOCAL_BACKWARDS.match(before)
        if local is None or not local.group().strip("."):
            continue
        start = sign.start() - len(local.group().rstrip("."))
        if text[start : sign.start()] == "git" and text.startswith(":", domain.end()):
            continue
        done = domain.end()
        yield start, done


# Keys and tokens: by what they begin with, and by what they are called.

_ALONE = r"(?<![0-9A-Za-z_-])"
_PREFIXED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (prefix, re.compile(f"{_ALONE}{pattern}"))
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
_PEM_BODY = re.compile(r"(?:[0-9A-Za-z+/=\s]|\\[nr])*+")
_LONGEST_PEM = 65_536


def find_keys(text: str) -> Iterator[tuple[int, int]]:
    """Where keys, tokens and passwords in addresses are in a folded text."""
    if _MAYBE_KEY.search(text) is None:
        return
    for prefix, pattern in _PREFIXED:
        if prefix in text:
            yield from (found.span() for found in pattern.finditer(text))
    for words, pattern in _NAMED:
        for end in word_ends(text, words):
            named = pattern.match(text, end)
            if named is not None:
                yield named.span("key")
    yield from (found.span("key") for found in _PASSWORD.finditer(text))
    if "-----BEGIN" in text:
        yield from _private_keys(text)


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Whole blocks; of one without an end, what looks like a key."""
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
    """Where one of `words`, given in lower case, ends: a whole word, or the last of `camelCase`."""
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
