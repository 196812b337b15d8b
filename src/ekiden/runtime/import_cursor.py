"""Where an imported session stands, and where it stood before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ekiden.core.session_errors import SessionImportInvalid
from ekiden.handoff.request_documents import TRIED
from ekiden.runtime.cursor import Cursor, TriedHandoff
from ekiden.runtime.import_events import check_received
from ekiden.runtime.import_items import check_items
from ekiden.runtime.import_values import (
    amount,
    amounts,
    count,
    findings,
    mapping,
    read_by,
    text,
    text_or_none,
    texts,
    usage,
)
from ekiden.runtime.snapshot import REWOUND

OUTCOMES = (None, "", "done", "waiting", "refused", "failed", "out_of_budget")
_PHASES = ("think", "act", "answered", "end")
_NOT_TAKEN_OVER = ("as", "ho", "ph", "al", "pz", "py")
"""Open questions and handoffs, with how to undo them; what need not be confirmed; purses."""
_COUNTS = ("r", "t", "f", "c", "a", "m", "rb", "h", "e", "w", "hn", "gc")
_NAMES = ("ch", "pu", "sl", "pa")
_KINDS_OF_AMOUNTS = 3


def read_cursor(data: Any, events: int, steps: Mapping[str, Any]) -> tuple[Cursor, list[list[str]]]:
    """The cursor of a session with so many events, and its handoffs that were not confirmed: id,
    source and target of each."""
    place = "resume.cursor"
    given = mapping(data, place)
    opened = given.get("ho", [])
    if not isinstance(opened, list) or not all(isinstance(each, list) for each in opened):
        raise SessionImportInvalid(f"{place}.ho", "it is not a list of handoffs")
    opened = [each[:3] for each in opened]
    for each in opened:
        if len(each) != 3 or not all(isinstance(name, str) for name in each):
            raise SessionImportInvalid(f"{place}.ho", "it is not a list of handoffs")
    return _fields(given, place, events, steps), opened


def check_snapshot(data: Any, place: str, events: int, steps: Mapping[str, Any]) -> None:
    """What the session remembers of its past counts as little as what it says of now."""
    snapshot = mapping(data, place)
    cursor = mapping(snapshot.get("cursor"), f"{place}.cursor")
    _fields(cursor, f"{place}.cursor", events, steps)
    text(snapshot.get("agent"), f"{place}.agent")
    mapping(snapshot.get("variables"), f"{place}.variables")
    if snapshot.get("outcome") not in OUTCOMES:
        raise SessionImportInvalid(f"{place}.outcome", "there is no such outcome")
    if REWOUND in snapshot:
        check_snapshot(snapshot[REWOUND], f"{place}.{REWOUND}", events, steps)


def _fields(given: dict[str, Any], place: str, events: int, steps: Mapping[str, Any]) -> Cursor:
    """The cursor, each of whose fields is of its kind; what is not taken over is removed."""
    for name in _NOT_TAKEN_OVER:
        given.pop(name, None)
    if given:
        _check_spent(given, place)
        _check_signs(given, place)
    cursor: Cursor = read_by(Cursor.from_json, given, place)
    if cursor.phase not in _PHASES:
        raise SessionImportInvalid(f"{place}.p", "there is no such phase")
    if cursor.phase != "end" and len(cursor.chain) < 2:
        raise SessionImportInvalid(f"{place}.ch", "nobody has the run")
    if not (cursor.calls <= events and cursor.after <= events and cursor.first <= events + 1):
        raise SessionImportInvalid(place, "it speaks of events that there are not")
    base = text_or_none(given.get("b"), f"{place}.b")
    if base is not None:
        if base not in steps:
            raise SessionImportInvalid(f"{place}.b", "what it names is not among the steps")
        check_items(steps[base], f"resume.steps.{base}")
    return cursor


def _check_spent(given: dict[str, Any], place: str) -> None:
    """Counts, and what was spent or may be: nothing of it is negative or endless."""
    for name in _COUNTS:
        count(given.get(name, 0), f"{place}.{name}")
    for name in ("si", "sp"):
        amount(given.get(name, 0), f"{place}.{name}")
    for name in ("u", "ou"):
        usage(given.get(name, {}), f"{place}.{name}")
    amounts(given.get("bu", {}), f"{place}.bu")
    for name in ("lf", "gr"):
        for key, each in mapping(given.get(name, {}), f"{place}.{name}").items():
            count(each, f"{place}.{name}.{key}")
    for key, each in mapping(given.get("ba", {}), f"{place}.ba").items():
        if not isinstance(each, list) or len(each) != _KINDS_OF_AMOUNTS:
            raise SessionImportInvalid(f"{place}.ba.{key}", "it is not tokens, seconds and money")
        for number, spent in enumerate(each):
            amount(spent, f"{place}.ba.{key}[{number}]")


def _check_signs(given: dict[str, Any], place: str) -> None:
    """Names, texts, and what was handed over."""
    for name in _NAMES:
        texts(given.get(name, []), f"{place}.{name}")
    if given.get("to") is not None:
        texts(given["to"], f"{place}.to")
    tried = given.get(TRIED, [])
    if not isinstance(tried, list):
        raise SessionImportInvalid(f"{place}.{TRIED}", "it is not a list of handoffs")
    for number, each in enumerate(tried):
        if len(texts(each, f"{place}.{TRIED}[{number}]")) != len(fields(TriedHandoff)):
            raise SessionImportInvalid(f"{place}.{TRIED}[{number}]", "it is not a handoff")
    fired = given.get("fi", [])
    if not isinstance(fired, list):
        raise SessionImportInvalid(f"{place}.fi", "it is not a list of numbers")
    for number, each in enumerate(fired):
        count(each, f"{place}.fi[{number}]")
    if not isinstance(given.get("hd", ""), str):
        raise SessionImportInvalid(f"{place}.hd", "it is not a text")
    findings(given.get("gf", []), f"{place}.gf")
    if given.get("rc") is not None:
        check_received(given["rc"], f"{place}.rc")
    if given.get("ro") is not None:
        route = mapping(given["ro"], f"{place}.ro")
        text(route.get("cause"), f"{place}.ro.cause")
        if route.get("options") is not None:
            mapping(route["options"], f"{place}.ro.options")
