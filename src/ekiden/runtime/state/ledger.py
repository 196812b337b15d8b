"""Ledgers of shared limits, with the spending and the reservations of model calls in progress.

A ledger has a main document with the limits, an earlier total of the spending (the base), and the
reservations (`held`). Further documents have the spending since the base. A shared budget has one
such document for each session, which is rewritten with each step. The ledger of a day, which all
runs of a store share, has one such document for each step. A document of a step is written once, so
any reader may add it to the base and remove it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import SessionError, StaleDocument
from ekiden.core.runs import LimitName, LimitScope, OutOfBudget
from ekiden.runtime.state.step_record import Recording
from ekiden.storage.base import Document, DocumentWrite, Store

HELD = "held"
SPENT = "s."
HOLDABLE: tuple[LimitName, ...] = ("tokens", "money")
"""The limits that a model call reserves before it starts."""
_DAILY: tuple[LimitName, ...] = (*HOLDABLE, "seconds")
_DAYS = "purse.day"
_MANY = 50
"""With this many spending documents, the ledger of a day is summed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimit:
    """A shared limit, as read from its ledger."""

    document: Document
    limits: Mapping[str, float | None]
    held: Mapping[str, Sequence[float]]
    """The reservations by model call: tokens, money, and the time of expiry."""
    spent: Mapping[str, float]
    scope: LimitScope = "run"

    def over(self) -> OutOfBudget | None:
        """The first limit that is reached; `None` if no limit is reached."""
        for name in _DAILY:
            limit = self.limits.get(name)
            if limit is not None and self.spent[name] >= limit:
                return OutOfBudget(name, limit, round(self.spent[name], 6), scope=self.scope)
        return None

    def has_room(self, key: str, wanted: Mapping[str, float]) -> bool:
        """Whether the call fits next to the calls in progress. Without other calls, it always fits.
        So one call may exceed a limit, but not many concurrent calls."""
        others = [hold for each, hold in self.held.items() if each != key]
        if not others:
            return True
        for place, name in enumerate(HOLDABLE):
            limit = self.limits.get(name)
            held = sum(hold[place] for hold in others)
            if limit is not None and self.spent[name] + held + wanted[name] > limit:
                return False
        return True

    async def without_dead(self, store: Store) -> SharedLimit:
        """A copy without the reservations of sessions that no process runs."""
        held = {}
        for key, hold in self.held.items():
            with suppress(SessionError):
                if (await store.get(key.rpartition(":")[0])).owner is not None:
                    held[key] = hold
        return replace(self, held=held)

    def with_hold(self, key: str, hold: Sequence[float] | None) -> DocumentWrite:
        """The write that stores or removes a reservation. The write fails with `StaleDocument` if
        the ledger has changed."""
        held: dict[str, Any] = {each: list(values) for each, values in self.held.items()}
        held.pop(key, None)
        if hold is not None:
            held[key] = list(hold)
        return DocumentWrite(
            collection=self.document.collection,
            key=self.document.key,
            body={**self.document.body, "held": held},
            expected_version=self.document.version,
        )


async def read_ledger(store: Store, collection: str, now_us: int) -> SharedLimit | None:
    """The ledger of a shared budget; `None` if the run that shared it has ended."""
    document = await store.get_document(collection, HELD)
    if document is None:
        return None
    # The spending is read after the document whose version a reservation is checked against. So a
    # later version, and with it later spending, is never missed.
    spent: dict[str, float] = dict(zip(HOLDABLE, document.body["base"], strict=True))
    for each in await _documents(store, collection, SPENT):
        for name, used in zip(HOLDABLE, each.body, strict=True):
            spent[name] += used
    return SharedLimit(
        document=document,
        limits=document.body["limits"],
        held=_current(document, now_us),
        spent=spent,
    )


async def read_day(run: Recording, now_us: int) -> SharedLimit:
    """The ledger of today, which all runs of the store share. `run.config.daily` must be set.

    `now_us` is the store's time, for reservations. The day is the date of the process's clock, as
    for events and their costs.
    """
    store, day = run.store, _day(run)
    while True:
        # Read before the steps. If another process sums up in between, this total is too low, and a
        # reservation fails. In the other order, it would be too high, and end a run too early.
        document = await store.get_document(_DAYS, f"{day}.{HELD}")
        if document is None:
            body = {"base": [0, 0.0, 0.0], "held": {}}
            key = f"{day}.{HELD}"
            document = Document(
                collection=_DAYS, key=key, body=body, version=0, updated_at_us=now_us
            )
        steps = await _documents(store, _DAYS, f"{day}.{SPENT}")
        total = [
            round(sum(column), 9)
            for column in zip(document.body["base"], *(each.body for each in steps), strict=True)
        ]
        if len(steps) < _MANY:
            break
        body = {**document.body, "base": total}
        sum_up = DocumentWrite(
            collection=_DAYS, key=document.key, body=body, expected_version=document.version
        )
        # If another process is faster, its sum is used.
        with suppress(StaleDocument):
            await store.write_documents([sum_up, *map(_removal, steps)])
    if not document.version:
        await _forget_before(store, _day(run, before=1))
    return SharedLimit(
        document=document,
        limits={name: getattr(run.config.daily, name) for name in _DAILY},
        held=_current(document, now_us),
        spent=dict(zip(_DAILY, total, strict=True)),
        scope="tenant",
    )


class DaySpending:
    """The spending of a run from the daily budget."""

    __slots__ = ("_charges", "_counted", "_stored", "ledger")

    def __init__(self, counted: tuple[float, float, float]) -> None:
        self.ledger: SharedLimit | None = None
        """The daily budget, read before the step."""
        self._charges = 0
        self._counted = self._stored = counted
        """Tokens, money and seconds of the run: counted, and already stored as spent."""

    def charge(self, run: Recording, counted: tuple[float, float, float]) -> DocumentWrite | None:
        """The write that stores the spending since the last charge; `None` if nothing was spent.

        `counted` are the tokens, money and seconds of the run so far.
        """
        self._counted = counted
        spent = [round(a - b, 9) for a, b in zip(counted, self._stored, strict=True)]
        if not any(spent):
            return None
        self._charges += 1  # The key differs from step to step of one claim.
        key = f"{_day(run)}.{SPENT}{run.session_id}.{run.claim.epoch}.{self._charges}"
        return DocumentWrite(collection=_DAYS, key=key, body=spent)

    def settle(self) -> None:
        """Take note that the last charge is stored."""
        self._stored = self._counted


def _day(run: Recording, *, before: int = 0) -> str:
    """Today in UTC, or the day this many days before."""
    from datetime import UTC, datetime, timedelta

    now = datetime.fromtimestamp(run.config.clock.now_us() / 1e6, UTC)
    return (now - timedelta(days=before)).date().isoformat()


def _current(document: Document, now_us: int) -> dict[str, Sequence[float]]:
    return {key: hold for key, hold in document.body["held"].items() if hold[2] > now_us}


async def _forget_before(store: Store, oldest: str) -> None:
    """Remove the documents of earlier days."""
    while found := [each for each in await store.list_documents(_DAYS) if each.key < oldest]:
        await store.write_documents(list(map(_removal, found)))


def _removal(document: Document) -> DocumentWrite:
    return DocumentWrite(collection=document.collection, key=document.key, body=None)


async def _documents(store: Store, collection: str, prefix: str) -> list[Document]:
    documents: list[Document] = []
    after = ""
    while found := await store.list_documents(collection, prefix=prefix, after=after):
        documents += found
        after = found[-1].key
    return documents
