"""What must be true after a soak; every check gives what is wrong, in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ekiden.audit import verify_audit
from ekiden.core.conversation.model import is_message, text_of
from ekiden.inbox import Inbox
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import MessageFilter, SessionFilter, SessionRow, Store
from ekiden.storage.timers import TIMERS
from tests.faults.evidence import Record, check_log, read
from tests.faults.ledger import Ledger, Line
from tests.faults.soak_team import Order

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Documents that are not needed any more."""

    timers: int
    items: int
    messages: int


async def all_rows(store: Store) -> list[SessionRow]:
    """Every session there is."""
    rows: list[SessionRow] = []
    cursor: str | None = None
    while True:
        page = await store.list(SessionFilter(), limit=_PAGE, cursor=cursor)
        rows += page.sessions
        cursor = page.next_cursor
        if cursor is None:
            return rows


async def wrong_sessions(store: Store, orders: Mapping[str, Order]) -> list[str]:
    """Sessions that did not end right, and logs that cannot be."""
    problems: list[str] = []
    rows = await all_rows(store)
    missing = set(orders) - {row.id for row in rows}
    problems += [f"session {name} is lost" for name in sorted(missing)]
    for row in rows:
        record = await read(store, row.id)
        assert record is not None
        problems += _wrong_record(record, orders.get(row.id))
    return problems


def _wrong_record(record: Record, order: Order | None) -> Iterator[str]:
    row = record.row
    if (row.outcome, row.status, row.owner) != ("done", "idle", None):
        yield f"session {row.id} is {row.outcome}, {row.status}, with {row.owner}"
    if Cursor.from_json(row.cursor).questions.open:
        yield f"session {row.id} still waits for an answer"
    try:
        check_log(record, entry=record.events[0].agent or "")
    except AssertionError as exc:
        yield f"the log of session {row.id} cannot be: {exc}"
    if order is None:
        return
    said = [text_of(item) for event in record.events for item in event.items if is_message(item)]
    if said[-1] != order.answer:
        yield f"session {row.id} answered {said[-1]!r} and not {order.answer!r}"


async def wrong_audit(store: Store) -> list[str]:
    """Links of hash chains that are broken."""
    verification = await verify_audit(store)
    return [] if verification.ok else [f"the audit does not verify: {verification.first}"]


def wrong_effects(ledger: Ledger, orders: Iterable[Order]) -> Iterator[str]:
    """Effects that are missing, unexpected, or happened twice."""
    wanted = Counter(what for order in orders for what in order.effects)
    happened = Counter(ledger.effects())
    for what, times in (wanted - happened).items():
        yield f"{what} did not happen ({times} times)"
    for what, times in (happened - wanted).items():
        yield f"{what} happened {times} times too often"
    meant: dict[str, set[str]] = defaultdict(set)
    for line in ledger.lines("attempt"):
        meant[line["key"]].add(line["what"])
    for key, whats in meant.items():
        if len(whats) > 1:
            yield f"the key {key} stands for {sorted(whats)}"


def wrong_models(lines: Sequence[Line]) -> Iterator[str]:
    """Calls of models that were repeated with something else."""
    shown: dict[tuple[str, str], str] = {}
    for line in lines:
        step = (line["session"], line["step"])
        if shown.setdefault(step, line["digest"]) != line["digest"]:
            yield f"step {step} was repeated, and the model was shown something else"


def wrong_people(ledger: Ledger) -> Iterator[str]:
    """Items of the inbox whose answer was accepted from two people."""
    for item, times in Counter(line["item"] for line in ledger.lines("answered")).items():
        if times > 1:
            yield f"inbox item {item} was answered {times} times"


def wrong_claims(ledger: Ledger, owners: Mapping[tuple[str, int], str]) -> Iterator[str]:
    """Tools that ran for a process that never had the session."""
    for line in ledger.lines("owner"):
        place = (line["session"], line["epoch"])
        # A session may be created by its first owner, which is no change.
        if owners.get(place, line["owner"]) != line["owner"]:
            yield f"{line['owner']} ran a tool in {place}, which {owners[place]} had"


async def leftovers(store: Store) -> Leftovers:
    """Timers, questions to people and messages that are still there."""
    waits = MessageFilter(waited_for=True, states={"open"})
    return Leftovers(
        timers=len(await store.list_documents(TIMERS, limit=_PAGE)),
        items=len((await Inbox(store).list(limit=_PAGE)).items),
        messages=len(await store.find_messages(waits, limit=_PAGE)),
    )
