"""Compares the plan of a week with what is stored: the shop's books, and Ekiden's sessions, inbox,
handoffs and audit. It knows nothing of the driver, only the plan.

    python -m examples.shop.week.checker FOLDER

To add a check, write a function that yields problems, and list it in `CHECKS`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ekiden import Ekiden
from ekiden.core.errors.server import RunNotFound

LIMIT_CENTS = 10_000
_CARD = re.compile(r"\d{4} \d{4} \d{4} \d{4}")
_MOST_SHOWN = 10
Row = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Facts:
    """Everything that is compared."""

    plan: Row
    payments: Sequence[Row]
    pickups: Sequence[Row]
    attempts: Sequence[Row]
    sessions: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    chains: dict[str, list[str]] = field(default_factory=dict)
    last_items: dict[str, Row] = field(default_factory=dict)
    """The last item of each conversation."""
    items: list[Any] = field(default_factory=list)
    handoffs: list[Any] = field(default_factory=list)
    audit: list[Any] = field(default_factory=list)
    verification: Any = None
    asked: dict[str, list[str]] = field(default_factory=dict)
    """The states of the questions to the warehouse, by the session that asked."""

    @property
    def conversations(self) -> list[Row]:
        found: list[Row] = self.plan["conversations"]
        return found

    @property
    def steps(self) -> list[Row]:
        """All steps of the plan, in order."""
        return [step for each in self.conversations for step in each["steps"]]

    @property
    def last_steps(self) -> dict[str, Row]:
        """The last step of each run: a message begins a run, and other steps continue it."""
        found: dict[str, Row] = {}
        messages: Counter[str] = Counter()
        for step in self.steps:
            messages[step["session"]] += step["do"] == "message"
            found[f"{step['session']}:{messages[step['session']]}"] = step
        return found


def _store(folder: Path) -> str:
    """The store of the week. An SQLite store is in the folder, which may be a copy."""
    own = folder / "ekiden.db"
    return str(own) if own.exists() else (folder / "store.txt").read_text()


async def read(folder: Path) -> Facts:
    """Read the folder of a finished week."""
    with closing(sqlite3.connect(folder / "books.db")) as books:
        books.row_factory = sqlite3.Row
        payments, pickups, attempts = (
            [dict(row) for row in books.execute(f"select * from {name}")]
            for name in ("payments", "pickups", "attempts")
        )
    plan = json.loads((folder / "plan.json").read_text())
    facts = Facts(plan=plan, payments=payments, pickups=pickups, attempts=attempts)
    async with Ekiden.open(_store(folder)) as ekiden:
        facts.sessions = {each.session_id: each async for each in ekiden.sessions.list()}
        facts.items = [each async for each in ekiden.inbox.list(status="any", snoozed=True)]
        facts.handoffs = [each async for each in ekiden.handoffs.list()]
        facts.audit = [each async for each in ekiden.audit.list()]
        facts.verification = await ekiden.audit.verify(timeout_s=600)
        for run_id in facts.last_steps:
            session = run_id.rpartition(":")[0]
            if session in facts.sessions:
                with suppress(RunNotFound):
                    facts.runs[run_id] = await ekiden.runs.get(run_id)
                [*_, last] = (await ekiden.sessions.get(session)).items
                facts.last_items[session] = last
                facts.chains[session] = list((await ekiden.sessions.chain(session)).chain)
        for each in facts.sessions.values():
            if each.agent in ("refunds", "person:fraud_desk"):
                facts.asked[each.session_id] = await _warehouse(ekiden, each.session_id)
    return facts


async def _warehouse(ekiden: Ekiden, session: str) -> list[str]:
    """The states of the session's questions to the warehouse."""
    states: dict[str, str] = {}
    async for event in ekiden.sessions.events(session):
        details = event.details or {}
        if (details.get("asks") or {}).get("to") == "warehouse":
            states[details["asks"]["id"]] = "open"
        answer = details.get("answer") or {}
        if answer.get("id") in states:
            states[answer["id"]] = answer["state"]
    return list(states.values())


def sessions(facts: Facts) -> Iterator[str]:
    """No session is lost, stuck or unknown."""
    planned = {step["session"] for step in facts.steps}
    for name in sorted(planned - set(facts.sessions)):
        yield f"{name} is lost"
    for name, session in facts.sessions.items():
        if name not in planned and not name.startswith("ask_"):
            yield f"{name} is in no plan"
        if session.status == "ready" or session.owner is not None:
            yield f"{name} is stuck: {session.status}, owner {session.owner}"
        if session.status == "waiting" and not any(
            each.status == "open" and name in (each.session_id, each.correlation_id)
            for each in facts.items
        ):
            yield f"{name} waits for {list(session.waiting_for)}, and nobody was asked"


def answers(facts: Facts) -> Iterator[str]:
    """Every customer got the right answer."""
    for run_id, step in facts.last_steps.items():
        run = facts.runs.get(run_id)
        if run is None:
            yield f"{run_id} is lost"
            continue
        text = run.output or ""
        if run.status != step["status"]:
            yield f"{run_id} is {run.status}, not {step['status']}"
        elif step["status"] == "failed" and run.error.code not in step["says"]:
            yield f"{run_id} failed with {run.error.code}, not {step['says']}"
        elif step["status"] == "done":
            missing = [part for part in step["says"] if part not in str(text)]
            if missing:
                yield f"{run_id} says {text!r}, without {missing}"
        if _CARD.search(str(text)):
            yield f"{run_id} shows a card number"


def last_words(facts: Facts) -> Iterator[str]:
    """No conversation ends with a message of the customer."""
    ends = {step["session"]: step for step in facts.steps}
    for session, step in ends.items():
        last = facts.last_items.get(session)
        if last is None or step["status"] != "done":
            continue
        shown = json.dumps(last, ensure_ascii=False)
        if last.get("role") != "assistant" or any(part not in shown for part in step["says"]):
            yield f"{session} ends with {shown}"


def chains(facts: Facts) -> Iterator[str]:
    """Every conversation took its planned way."""
    for each in facts.conversations:
        for session, wanted in each["chains"].items():
            if (found := facts.chains.get(session)) not in (None, wanted):
                yield f"{session} took the way {found}, not {wanted}"


def payments(facts: Facts) -> Iterator[str]:
    """Exactly the planned refunds are paid, each once."""
    planned = Counter(pay for step in facts.steps for pay in step["pays"].items())
    paid = Counter((each["order_id"], each["cents"]) for each in facts.payments)
    for (order, cents), times in (paid - planned).items():
        yield f"order {order}: {cents} cents are paid {times} times too often"
    for order, cents in planned - paid:
        yield f"order {order}: {cents} cents are not paid"
    for each in facts.attempts:
        if each["outcome"] == "violation":
            yield f"order {each['order_id']}: key {each['key']} was used for other arguments"
    noted = {each["key"] for each in facts.attempts if each["outcome"] == "paid"}
    for each in facts.payments:
        if each["key"] not in noted:
            yield f"order {each['order_id']}: a payment without an attempt"


def approvals(facts: Facts) -> Iterator[str]:
    """A large payment has one approval, by a person who saw its amount; a small one has none."""
    seen: dict[str, list[tuple[int, str, str | None]]] = defaultdict(list)
    for item in facts.items:
        if item.tool == "refund":
            told = json.loads(item.arguments)
            choice = item.answer.choice if item.answer else None
            seen[told["order_id"]].append((told["cents"], item.status, choice))
    for each in facts.payments:
        order, cents = each["order_id"], each["cents"]
        wanted = [(cents, "answered", "approve")] if cents > LIMIT_CENTS else []
        if seen[order] != wanted:
            yield f"order {order}: {cents} cents are paid, and people saw {seen[order]}"
    paid = {each["order_id"] for each in facts.payments}
    for order, found in seen.items():
        if order not in paid and any(choice == "approve" for *_, choice in found):
            yield f"order {order} is approved, but not paid"


def inbox(facts: Facts) -> Iterator[str]:
    """Every question was closed as planned, by the planned person; none is left over."""
    asked: dict[str, list[Any]] = defaultdict(list)
    for item in sorted(facts.items, key=lambda item: item.created_at_us):
        choice = item.answer.choice if item.answer else None
        asked[item.correlation_id].append((item.status, item.closed_by, choice))
    for session, wanted in _planned_questions(facts).items():
        if (found := asked.pop(session, [])) != wanted:
            yield f"{session} has the questions {found}, not {wanted}"
    for session, found in asked.items():
        yield f"{session} has the questions {found}, and nothing explains them"


def _planned_questions(facts: Facts) -> dict[str, list[Any]]:
    """How the questions of each session end."""
    planned: dict[str, list[Any]] = defaultdict(list)
    for step in facts.steps:
        ends = planned[step["session"]]
        if step["do"] == "answer":
            ends[-1] = ("answered", step["by"], step["choice"])
        elif step["do"] == "deadline":
            ends[-1] = ("expired", "nobody", None)
        if step["status"] == "waiting":
            ends.append(("open", "", None))
    return planned


def pickups(facts: Facts) -> Iterator[str]:
    """A pick-up is confirmed once, or everything that was reserved for it is released."""
    planned = {order: state for step in facts.steps for order, state in step["pickups"].items()}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for each in facts.pickups:
        found[each["order_id"]][each["state"]] += 1
    for order, state in planned.items():
        states = found.pop(order, Counter())
        confirmed = states.pop("confirmed", 0)
        if confirmed != (state == "confirmed"):
            yield f"order {order}: {confirmed} pick-ups are confirmed, and it should be {state}"
        if set(states) - {"released"} or (state == "released" and not states):
            yield f"order {order}: a reservation is not released: {dict(states)}"
    for order, states in found.items():
        yield f"order {order}: a pick-up that nobody ordered: {dict(states)}"


def handoffs(facts: Facts) -> Iterator[str]:
    """Every handoff has ended, unless its session waits; a released pick-up was rolled back."""
    rolled_back = set()
    for each in facts.handoffs:
        session = facts.sessions.get(each.session_id)
        is_ended = each.status in ("completed", "failed", "rolled_back")
        if not is_ended and (session is None or session.status != "waiting"):
            yield f"{each.id} is {each.status}"
        if each.status == "rolled_back":
            rolled_back.add(each.session_id)
    for step in facts.steps:
        if "released" in step["pickups"].values() and step["session"] not in rolled_back:
            yield f"{step['session']}: no handoff was rolled back"


def warehouse(facts: Facts) -> Iterator[str]:
    """The warehouse answered every question, and was asked about every refund."""
    for session, states in facts.asked.items():
        if not states or set(states) != {"answered"}:
            yield f"{session}: the questions to the warehouse are {states}"


def audit(facts: Facts) -> Iterator[str]:
    """The chain of hashes is whole, and the records have all that happened."""
    verification = facts.verification
    if not verification.ok:
        yield f"the audit is broken: {verification.first}"
    records: Counter[tuple[str, Any]] = Counter()
    for each in facts.audit:
        records["inbox", each.facts.get("status")] += each.type == "inbox"
        records["handoff", each.move] += each.type == "handoff"
        records["refund", each.facts.get("approved")] += each.type == "tool_confirmation"
    items = Counter(item.status for item in facts.items)
    wanted = {
        ("inbox", "answered"): items["answered"],
        ("inbox", "expired"): items["expired"],
        ("handoff", "rolled_back"): sum(e.status == "rolled_back" for e in facts.handoffs),
        ("handoff", "completed"): sum(e.status == "completed" for e in facts.handoffs),
        ("refund", True): len(facts.payments),
    }
    for key, number in wanted.items():
        if records[key] != number:
            yield f"the audit has {records[key]} records of {key}, and there are {number}"


CHECKS: tuple[Callable[[Facts], Iterator[str]], ...] = (
    sessions,
    answers,
    last_words,
    chains,
    payments,
    approvals,
    inbox,
    pickups,
    handoffs,
    warehouse,
    audit,
)


def checked(facts: Facts) -> dict[str, list[str]]:
    """The problems that each check finds."""
    return {check.__name__: list(check(facts)) for check in CHECKS}


def figures(facts: Facts) -> dict[str, int]:
    """How much there was to compare."""
    outcomes = Counter(each["outcome"] for each in facts.attempts if each["kind"] == "payment")
    return {
        "conversations": len(facts.conversations),
        "sessions": len(facts.sessions),
        "runs": len(facts.runs),
        "events": sum(each.events for each in facts.sessions.values()),
        "payments": len(facts.payments),
        "cents_paid": sum(each["cents"] for each in facts.payments),
        "payments_repeated": outcomes["repeated"],
        "questions_to_people": len(facts.items),
        "questions_to_the_warehouse": sum(map(len, facts.asked.values())),
        "handoffs": len(facts.handoffs),
        "rollbacks": sum(each.status == "rolled_back" for each in facts.handoffs),
        "audit_records": len(facts.audit),
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m examples.shop.week.checker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    facts = asyncio.run(read(options.folder))
    found = checked(facts)
    if options.json:
        print(json.dumps({"figures": figures(facts), "checks": found}, ensure_ascii=False))
    else:
        for name, number in figures(facts).items():
            print(f"{name:28} {number:10,}")
        for name, problems in found.items():
            print(f"{name:28} {f'{len(problems)} problems' if problems else 'ok':>10}")
            for problem in problems[:_MOST_SHOWN]:
                print(f"    {problem}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
