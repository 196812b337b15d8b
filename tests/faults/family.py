"""What must be true of sessions that ask each other, whichever process was killed when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.events import Event
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import MessageFilter, Store
from tests.faults.aftermath import check_audit
from tests.faults.evidence import Record, Said, check_log, check_work, read
from tests.faults.family_life import open_items, relatives
from tests.faults.ledger import Ledger, timeless

_MOST = 10_000
_OF_ITS_TIME = ("created_at", "at_us", "base")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A session, and those that were opened because of it, named by who opened them when."""

    members: Mapping[str, Record]
    names: Mapping[str, str]
    """By the ids of sessions, messages and inbox items: what they are called here."""

    @property
    def logs(self) -> dict[str, Any]:
        """What happened in each, as it would in any unharmed run of the same scenario.

        Whether somebody came as far as suspending a session depends on who was quicker.
        """
        return {
            name: [self._told(said[1:]) for said in record.log if not _is_suspending(said)]
            for name, record in self.members.items()
        }

    def _told(self, data: Any) -> Any:
        match data:
            case str():
                session, slash, task = data.partition("/")
                return f"{self.names.get(session, session)}{slash}{task}"
            case dict():
                kept = {name: each for name, each in data.items() if name not in _OF_ITS_TIME}
                return {name: self._told(each) for name, each in kept.items()}
            case list() | tuple():
                return [self._told(each) for each in data]
        return data

    def name_of(self, key: str) -> str:
        """The key of a step with its session's name."""
        session, _, step = key.partition(":")
        return f"{self.names.get(session, session)}:{step}"


def _is_suspending(said: Said) -> bool:
    details = said[4]
    return isinstance(details, dict) and details.get("outcome") == "waiting"


async def read_family(store: Store, session_id: str) -> Family | None:
    """All that is stored of them; whatever it is, it is consistent."""
    first = await read(store, session_id)
    if first is None:
        return None
    members: dict[str, Record] = {}
    names: dict[str, str] = {}
    todo = [("S", session_id, first)]
    while todo:
        name, its_id, record = todo.pop(0)
        members[name], names[its_id] = record, name
        await check_audit(store, its_id)
        if record.events:
            check_log(record, entry=record.events[0].agent or "")
        for number, (what, details) in enumerate(_mentions(record.events), start=1):
            names.setdefault(details.get("id") or details["item"], f"{name}.{what}{number}")
            child = details.get("session")
            if child is not None:
                found = await read(store, child)
                assert found is not None, "who is asked has a session from the first moment on"
                todo.append((f"{name}.{number}", child, found))
    known = {row.id for row in await relatives(store, session_id)}
    assert known == {record.row.id for record in members.values()}, "all of them are on record"
    return Family(members=members, names=names)


def _mentions(events: Sequence[Event]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The messages and inbox items that the session put, in their order."""
    for event in events:
        details = event.details or {}
        for what in ("asks", "tells"):
            if what in details:
                yield what, details[what]
        if event.type == "inbox" and details.get("change") == "posted":
            yield "item", details


def check_family_work(
    before: Family | None, after: Family, ledger: Ledger, *, rescuer: int
) -> None:
    """The process that continued repeated nothing that was stored, and nothing twice."""
    for name, record in after.members.items():
        known = None if before is None else before.members.get(name)
        check_work(known, ledger, session=record.row.id, rescuer=rescuer)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyEnd:
    """What a scenario leaves behind without a kill."""

    logs: Mapping[str, Any]
    variables: Mapping[str, Any]
    shown: Mapping[str, str]
    """By session and step: a digest of what the model was shown."""
    attempts: Mapping[str, str]
    effects: Sequence[str]

    @classmethod
    def of(cls, family: Family, ledger: Ledger) -> FamilyEnd:
        """From one session's family, with a ledger of its own."""
        shown: dict[str, str] = {}
        for line in ledger.lines("model"):
            step = family.name_of(f"{line['session']}:{line['step']}")
            digest = shown.setdefault(step, line["digest"])
            assert digest == line["digest"], "a repeated call was shown otherwise"
        attempts: dict[str, str] = {}
        for line in ledger.lines("attempt"):
            key = family.name_of(timeless(line["key"]))
            assert attempts.setdefault(key, line["what"]) == line["what"], "one key, two effects"
        return cls(
            logs=family.logs,
            variables={name: each.row.variables for name, each in family.members.items()},
            shown=shown,
            attempts=attempts,
            effects=ledger.effects(),
        )


async def check_family_end(
    store: Store, session_id: str, ledger: Ledger, unharmed: FamilyEnd
) -> Family:
    """The sessions and the world are as without a kill, and no session waits any more."""
    family = await read_family(store, session_id)
    assert family is not None
    found = FamilyEnd.of(family, ledger)
    for name in ("effects", "attempts", "shown", "variables", "logs"):
        before, now = getattr(unharmed, name), getattr(found, name)
        assert now == before, f"{name} is\n{now}\nwhich was, unharmed,\n{before}"
    await check_no_session_waits(store, family)
    return family


async def check_no_session_waits(store: Store, family: Family) -> None:
    """Each session is at its end, each question was answered once, and nothing is left of it."""
    for name, record in family.members.items():
        row = record.row
        assert (row.outcome, row.status, row.owner) == ("done", "idle", None), name
        assert not Cursor.from_json(row.cursor).questions.open, name
        details = [event.details or {} for event in record.events]
        asked = [each["asks"]["id"] for each in details if "asks" in each]
        told = Counter(
            each["answer"]["id"] for each in details if "answer" in each and "item" not in each
        )
        assert told == Counter(asked), name
    sessions = {record.row.id for record in family.members.values()}
    waits = await store.find_messages(MessageFilter(waited_for=True, states={"open"}), limit=_MOST)
    assert [wait for wait in waits if wait.session_id in sessions] == []
    assert await open_items(store, family.members["S"].row.id) == []
