"""Reads everything that a week leaves behind: the plan, every table of the shop's books and every
table of Ekiden's store. Each row is a dict; columns with JSON have its values."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ekiden import Ekiden, SessionNotFound
from ekiden.client import Run
from ekiden.core.errors.server import RunNotFound
from ekiden.project.copying import verify_store
from ekiden.project.copying.whole_stores import snapshot_at
from ekiden.storage.copying import JSON_COLUMNS, TABLES

BOOKS = ("customers", "orders", "payments", "pickups", "attempts")
Row = Mapping[str, Any]


class NoWeek(Exception):
    """The folder has no finished week."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool that ended."""

    session: str
    tool: str
    key: str
    """Its idempotency key."""
    step: str
    arguments: Row
    output: Any
    is_refused: bool
    """Whether the tool did not run."""
    decided: Row | None
    """What a person decided because the effect of the call was unknown."""


@dataclass(kw_only=True)
class Records:
    """The plan, and both databases."""

    plan: Row
    books: Mapping[str, list[Row]]
    store: Mapping[str, list[Row]]
    faults: list[str]
    """What Ekiden's own verification finds. Without faults, the events are as they were written."""
    runs: dict[str, Run] = field(default_factory=dict)
    """What customers see of the planned runs."""

    @property
    def steps(self) -> list[Row]:
        """All steps of the plan, in order."""
        return [step for each in self.plan["conversations"] for step in each["steps"]]

    @property
    def last_steps(self) -> dict[str, Row]:
        """The last step of each run: a message begins a run, and other steps continue it."""
        found: dict[str, Row] = {}
        messages: dict[str, int] = defaultdict(int)
        for step in self.steps:
            messages[step["session"]] += step["do"] == "message"
            found[f"{step['session']}:{messages[step['session']]}"] = step
        return found

    @cached_property
    def customers(self) -> dict[str, str]:
        """The customer of each planned session."""
        return {
            step["session"]: each["customer"]
            for each in self.plan["conversations"]
            for step in each["steps"]
        }

    @cached_property
    def sessions(self) -> dict[str, Row]:
        """The rows of sessions, by id."""
        return {row["id"]: row for row in self.store["sessions"]}

    @cached_property
    def events(self) -> dict[str, list[Row]]:
        """The events of each session, in order; events of no session have the id ``""``."""
        names = {row["num"]: row["id"] for row in self.store["sessions"]}
        found: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(self.store["events"], key=lambda row: row["seq"]):
            found[names.get(row["session"], "")].append(row)
        return found

    def details(self, type: str) -> Iterator[tuple[str, Row, Row]]:
        """The session, the event and the details of each event of a type."""
        for session, events in self.events.items():
            for event in events:
                if event["type"] == type:
                    yield session, event, event["details"] or {}

    @cached_property
    def calls(self) -> list[Call]:
        """The calls of the tools that change the shop's books."""
        found = []
        for session, events in self.events.items():
            asked = {
                item["call_id"]: item
                for event in events
                for item in event["items"] or ()
                if item.get("type") == "function_call"
            }
            key = f"{session}:{self.sessions[session]['created_us']:x}" if session else ""
            for event in events:
                if event["type"] != "tool_call":
                    continue
                item = event["items"][-1]
                found.append(
                    Call(
                        session=session,
                        tool=event["details"]["tool"],
                        key=f"{key}:{event['step']}",
                        step=event["step"],
                        arguments=json.loads(asked[item["call_id"]]["arguments"]),
                        output=_parsed(item["output"]),
                        is_refused="not_run" in event["details"],
                        decided=event["details"].get("decided"),
                    )
                )
        return found

    def documents(self, *collections: str) -> dict[str, Any]:
        """The bodies of the documents in some collections, by key."""
        return {
            row["key"]: row["body"]
            for row in self.store["documents"]
            if row["collection"] in collections
        }

    @property
    def end_us(self) -> int:
        """The time of the last event."""
        return int(max(event["at_us"] for event in self.store["events"]))

    @cached_property
    def orders(self) -> dict[str, Row]:
        """The planned orders."""
        return {row["id"]: row for row in self.plan["orders"]}

    @cached_property
    def earlier_refunds(self) -> dict[str, int]:
        """The earlier refunds of each planned customer."""
        return {row["id"]: row["refunds"] for row in self.plan["customers"]}

    @cached_property
    def items(self) -> list[Row]:
        """The questions to people, in order."""
        found = self.documents("inbox.open", "inbox.done").values()
        return sorted(found, key=lambda item: item["created_at_us"])

    @cached_property
    def asks(self) -> list[tuple[str, Row]]:
        """The questions to agents, with the sessions that asked."""
        found = self.details("message")
        return [(session, details["asks"]) for session, _, details in found if "asks" in details]

    @cached_property
    def replies(self) -> dict[str, tuple[str, int]]:
        """The state of each answered question to an agent, and the time of the answer."""
        return {
            details["answer"]["id"]: (details["answer"]["state"], event["at_us"])
            for _, event, details in self.details("message")
            if "answer" in details
        }

    @cached_property
    def handoffs(self) -> dict[str, tuple[str, str, str]]:
        """The session, the target and the last status of each handoff, in order."""
        return {
            details["id"]: (session, details["to"], details["status"])
            for session, _, details in self.details("handoff")
        }

    @cached_property
    def chains(self) -> dict[str, list[str]]:
        """The agents of each session, in order, without those whose handoffs were rolled back."""
        found = {name: ["user", rows[0]["agent"]] for name, rows in self.events.items() if name}
        for session, target, status in self.handoffs.values():
            if status not in ("failed", "rolled_back"):
                found[session].append(target)
        return found

    def root(self, session: str) -> str:
        """The customer's session for which an agent's session works."""
        return str(self.sessions[session]["meta"].get("correlation_id", session))


def is_about_unknown_effect(item: Row) -> bool:
    """Whether a question to people is about a call whose effect is unknown."""
    return (item["context"] or {}).get("code") == "run.call_changed"


def is_abandoned_by_code(item: Row) -> bool:
    """Whether the question is about a call of code that a person gave up, so that the code made
    another one."""
    is_code = is_about_unknown_effect(item) and item["from_agent"] == "payouts"
    return is_code and item["answer"]["choice"] == "abandon"


def is_from_customer(item: Row) -> bool:
    """Whether the customer wrote it; the desk repeats rejected answers in the same role."""
    return item.get("role") == "user" and not str(item["content"]).startswith("Your last answer")


def same(what: str, wanted: Iterable[Any], found: Iterable[Any]) -> Iterator[str]:
    """A problem for each entry that one list has more often than the other."""
    first, second = (Counter(map(_text, entries)) for entries in (wanted, found))
    for entry in (first - second).elements():
        yield f"{what}: {entry} is missing"
    for entry in (second - first).elements():
        yield f"{what}: {entry} is there, and nothing explains it"


def _text(entry: Any) -> str:
    return json.dumps(entry, ensure_ascii=False, sort_keys=True)


def _parsed(output: Any) -> Any:
    with suppress(ValueError, TypeError):
        return json.loads(output)
    return output


async def read(folder: Path) -> Records:
    """Read the folder of a finished week. Raises `NoWeek`."""
    for name in ("plan.json", "books.db", "store.txt"):
        if not (folder / name).is_file():
            raise NoWeek(f"{folder} has no finished week: {name} is missing")
    plan = json.loads((folder / "plan.json").read_text())
    store, faults = await _store(_address(folder))
    records = Records(plan=plan, books=_books(folder / "books.db"), store=store, faults=faults)
    async with Ekiden.open(_address(folder)) as ekiden:
        for run_id in records.last_steps:
            with suppress(RunNotFound, SessionNotFound):
                records.runs[run_id] = await ekiden.runs.get(run_id)
    return records


def _address(folder: Path) -> str:
    """The store of the week. An SQLite store is in the folder, which may be a copy."""
    own = folder / "ekiden.db"
    return str(own) if own.exists() else (folder / "store.txt").read_text()


def _books(file: Path) -> dict[str, list[Row]]:
    with closing(sqlite3.connect(file)) as books:
        books.row_factory = sqlite3.Row
        return {
            name: [dict(row) for row in books.execute(f"select * from {name}")] for name in BOOKS
        }


async def _store(address: str) -> tuple[dict[str, list[Row]], list[str]]:
    """All tables, and what is wrong with them by themselves."""
    [verified] = await verify_store(address)
    faults = [*verified.faults, *map(str, verified.audit.links)]
    store: dict[str, list[Row]] = {}
    async with snapshot_at(address) as source:
        facts = await source.facts()
        faults += [f"{facts[name]} {name}" for name in ("leases", "taken") if facts[name]]
        for table, columns in TABLES.items():
            pages = [rows async for rows in source.pages(table)]
            store[table] = list(_rows(columns, (row for rows in pages for row in rows)))
    return store, faults


def _rows(columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    for row in rows:
        yield {
            name: json.loads(value) if name in JSON_COLUMNS and value is not None else value
            for name, value in zip(columns, row, strict=True)
        }
