"""Checks of what the plan says: answers, states of sessions, payments, pick-ups, and questions to
people."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from .records import (
    Call,
    Records,
    Row,
    is_abandoned_by_code,
    is_about_unknown_effect,
    is_from_customer,
    same,
)

LIMIT_CENTS = 10_000
"""Larger refunds need the approval of a person."""
PAYOUT_TOOLS = ("pay_postage", "pay_bonus", "pay_damage")
"""They pay without approval, and are interrupted by the deployment."""
SUSPICIOUS = 5
"""So many earlier refunds are a high risk."""
_CARD = re.compile(r"\d{4} \d{4} \d{4} \d{4}")


def answers(records: Records) -> Iterator[str]:
    """Every customer got the right answer."""
    for run_id, step in records.last_steps.items():
        run = records.runs.get(run_id)
        if run is None:
            yield f"{run_id} is lost"
            continue
        code = run.error.code if run.error else None
        text = str(run.output or code or "")
        if run.status != step["status"]:
            yield f"{run_id} is {run.status}, not {step['status']}: {text}"
        elif missing := [part for part in step["says"] if part not in text]:
            yield f"{run_id} says {text!r}, without {missing}"
        if _CARD.search(text):
            yield f"{run_id} shows a card number"


def messages(records: Records) -> Iterator[str]:
    """The customers' messages are stored, each once, and no conversation ends with one."""
    wanted = [(step["session"], step["text"]) for step in records.steps if step["do"] == "message"]
    found = []
    for session, events in records.events.items():
        items = [item for event in events for item in event["items"] or ()]
        if session in records.customers:
            found += [(session, each["content"]) for each in items if is_from_customer(each)]
        if items and is_from_customer(items[-1]) and records.sessions[session]["outcome"] == "done":
            yield f"{session} ends with {items[-1]}"
    yield from same("messages", wanted, found)


_OF_THE_TASK = ("task_id", "asked_by", "ask_depth")


def sessions(records: Records) -> Iterator[str]:
    """Each session is in the planned state, and belongs to the planned customer."""
    chains = {name: way for c in records.plan["conversations"] for name, way in c["chains"].items()}
    ends = {step["session"]: (step["status"], _conclusion(step)) for step in records.steps}
    runs = Counter(run_id.rpartition(":")[0] for run_id in records.last_steps)
    wanted: list[tuple[Any, ...]] = [
        (name, customer, chains[name], ends[name], runs[name], {})
        for name, customer in records.customers.items()
    ]
    for parent, asks in records.asks:
        if "session" in asks:
            root = records.root(parent)
            customer = records.customers.get(root)
            end = ("done", "answered") if asks["id"] in records.replies else ("waiting", None)
            meta = {
                "title": asks["subject"],
                "asked_in": parent,
                "answers": asks["id"],
                "correlation_id": root,
            }
            wanted.append((asks["session"], customer, ["user", asks["to"]], end, 1, meta))
    found = []
    for name, row in records.sessions.items():
        chain, cursor = records.chains[name], row["cursor"]
        is_known = row["conclusion"] in (None, "refused", "failed")
        end = (row["outcome"], row["conclusion"] if is_known else "answered")
        meta = {key: row["meta"][key] for key in row["meta"] if key not in _OF_THE_TASK}
        found.append((name, row["user_id"], chain, end, cursor["r"], meta))
        calls = _requests(cursor, "u") - _requests(cursor, "ou")
        shown = (row["agent"], cursor["ch"][-1], row["status"], row["seq"], calls)
        status = "waiting" if row["outcome"] == "waiting" else "idle"
        events = records.events[name]
        if shown != (chain[-1], chain[-1], status, len(events), _model_calls(events)):
            yield f"{name} is {shown}, and its events say something else"
    yield from same("sessions", wanted, found)


def _conclusion(step: Row) -> str | None:
    """What the plan says of the conclusion of a run with this last step."""
    if step["status"] == "waiting":
        return None
    if step["status"] == "failed":
        return "failed"
    return "refused" if step["choice"] == "reject" else "answered"


def _requests(cursor: Row, name: str) -> int:
    """The model calls that the session's last run has counted."""
    return int(cursor.get(name, {}).get("requests", 0))


def _model_calls(events: list[Row]) -> int:
    """The model calls since the last message of the customer."""
    count = 0
    for event in events:
        if any(map(is_from_customer, event["items"] or ())):
            count = 0
        count += event["type"] == "llm_call"
    return count


def variables(records: Records) -> Iterator[str]:
    """The risk of a refund is what the fraud agent said."""
    wanted = {
        call.session: {"risk": _risk(records, call.session)}
        for call in records.calls
        if call.tool == "check_refund"
    }
    for name, row in records.sessions.items():
        if row["variables"] != wanted.get(name, {}):
            yield f"{name} has the variables {row['variables']}, not {wanted.get(name, {})}"


def _risk(records: Records, session: str) -> str:
    customer = records.customers[records.root(session)]
    return "high" if records.earlier_refunds[customer] >= SUSPICIOUS else "low"


def orders(records: Records) -> Iterator[str]:
    """The shop's customers and orders are the planned ones."""
    prices = {price["order"]: price["cents"] for price in records.plan["prices"]}
    orders = [
        {**row, "cents": prices.get(row["id"], row["cents"])} for row in records.plan["orders"]
    ]
    yield from same("customers", records.plan["customers"], records.books["customers"])
    yield from same("orders", orders, records.books["orders"])


def payments(records: Records) -> Iterator[str]:
    """Exactly the planned refunds are paid, each once: the plan, the sessions, the ledger and its
    attempts say the same."""
    paying = _calls_of(records, "refund", *PAYOUT_TOOLS)
    paid = [each for each in paying if isinstance(each.output, dict)]
    yield from same(
        "payments of the plan and of the sessions",
        [(step["session"], *pay) for step in records.steps for pay in step["pays"].items()],
        [
            (records.root(each.session), each.output["order_id"], each.output["paid_cents"])
            for each in paid
        ],
    )
    yield from same(
        "payments of the sessions and of the ledger",
        [(each.key, *each.output.values()) for each in paid],
        [tuple(row.values()) for row in records.books["payments"]],
    )
    yield from _replayed(records, "payments", "payment")


def pickups(records: Records) -> Iterator[str]:
    """A pick-up is confirmed once, or everything that was reserved for it is released."""
    confirmed = {e.arguments["key"] for e in records.calls if e.tool == "confirm_pickup"}
    reserved = [each for each in records.calls if each.tool == "reserve_pickup"]
    yield from same(
        "pick-ups of the sessions and of the books",
        [
            (each.key, each.arguments["order_id"], _state(each.key in confirmed))
            for each in reserved
        ],
        [(row["key"], row["order_id"], row["state"]) for row in records.books["pickups"]],
    )
    attempts = records.books["attempts"]
    yield from same(
        "reservations of the sessions and of the attempts",
        {each.key for each in reserved},
        {row["key"] for row in attempts if (row["kind"], row["outcome"]) == ("pickup", "reserved")},
    )
    planned = [pick for step in records.steps for pick in step["pickups"].items()]
    for order, state in planned:
        states = Counter(
            row["state"] for row in records.books["pickups"] if row["order_id"] == order
        )
        if states["confirmed"] != (state == "confirmed") or not states:
            yield f"order {order} has the pick-ups {dict(states)}, and it should be {state}"
    ordered = {order for order, _ in planned}
    yield from same("pick-ups", [], {row["order_id"] for row in records.books["pickups"]} - ordered)
    yield from _replayed(records, "pickups", "pickup")


def _state(is_confirmed: bool) -> str:
    return "confirmed" if is_confirmed else "released"


_PICKUP_STATES = ("reserved", "confirmed", "released")


def _replayed(records: Records, table: str, kind: str) -> Iterator[str]:
    """The table is what its attempts make of it, and no attempt is missing."""
    attempts = sorted(records.books["attempts"], key=lambda row: row["number"])
    if [row["number"] for row in attempts] != list(range(1, len(attempts) + 1)):
        yield "an attempt is missing"
    made: dict[str, tuple[Any, ...]] = {}
    for row in attempts:
        if row["kind"] != kind:
            continue
        key, order, before = row["key"], row["order_id"], made.get(row["key"])
        if kind == "payment":
            wanted = "paid" if before is None else "repeated"
            made.setdefault(key, (key, order, row["cents"], row["at"]))
            is_right = (row["outcome"], row["cents"]) == (wanted, made[key][2])
        else:
            is_right = row["cents"] == 0 and row["outcome"] in _PICKUP_STATES
            if before is None or before[2] != "released":
                made[key] = (key, order, row["outcome"], row["at"])
        if not is_right or (before or made[key])[1] != order:
            yield f"attempt {row['number']} is {dict(row)}, after {before}"
    yield from same(
        f"{table} and their attempts", made.values(), map(_values, records.books[table])
    )


def _values(row: Row) -> tuple[Any, ...]:
    return tuple(row.values())


def _calls_of(records: Records, *tools: str) -> list[Call]:
    return [each for each in records.calls if each.tool in tools]


def approvals(records: Records) -> Iterator[str]:
    """A large payment has the approval of a person who saw its amount, and a small one needs
    none. What was approved last is paid."""
    wanted, found = [], []
    for call in _calls_of(records, "refund"):
        is_approved = isinstance(call.output, dict)
        run, _, place = call.step.rpartition(".")
        wanted.append((call.session, f"{run}.ask.{place}", is_approved))
        if is_approved and call.arguments["cents"] > LIMIT_CENTS:
            found.append((call.session, call.arguments))
    decided = [
        (session, event["step"], details["approved"])
        for session, event, details in records.details("tool_confirmation")
    ]
    yield from same("decisions about refunds", wanted, decided)
    last = {
        (item["session_id"], json.loads(item["arguments"])["order_id"]): item
        for item in records.items
        if item["tool"] == "refund"
    }
    approved = [
        (session, json.loads(item["arguments"]))
        for (session, _), item in last.items()
        if item["answer"] and item["answer"]["choice"] == "approve"
    ]
    yield from same("approved amounts and large payments", approved, found)


def inbox(records: Records) -> Iterator[str]:
    """Every question to people was asked and closed as planned, by the planned person."""
    items = records.items
    found = [
        (
            records.root(item["session_id"]),
            item["status"],
            item["closed_by"],
            item["answer"] and item["answer"]["choice"],
            _shown(item),
        )
        for item in items
    ]
    yield from same("questions to people", _planned_questions(records), found)
    keys = records.documents("inbox.open", "inbox.done")
    yield from same("names of questions", keys, [item["id"] for item in items])
    order = records.documents("inbox.order")
    yield from same("order of the inbox", items, order.values())
    for key, item in order.items():
        if not (key.startswith("1" if item["status"] == "open" else "2") and item["id"] in key):
            yield f"{item['id']} is {item['status']}, and listed as {key}"
    posted, closed = [], []
    for session, _, details in records.details("inbox"):
        if "change" not in details and "status" in details:
            closed.append((session, details["item"], details["status"], details["by"]))
        elif session:
            posted.append((session, *map(details.get, ("item", "role", "subject", "tool"))))
    yield from same(
        "questions of the sessions and of the inbox",
        posted,
        [(i["session_id"], i["id"], i["role"], i["subject"], i["tool"]) for i in items],
    )
    yield from same(
        "answers of the sessions and of the inbox",
        closed,
        [
            (i["session_id"], i["id"], i["status"], i["closed_by"])
            for i in items
            if i["status"] != "open"
        ],
    )


def _shown(item: Row) -> Any:
    """What people see of the call that a question is about."""
    if is_about_unknown_effect(item):
        about = item["context"]
        arguments = json.loads(about["arguments"])
        return {"tool": about["tool"], "arguments": arguments, "options": item["options"]}
    return item["arguments"] and json.loads(item["arguments"])


def unknown_effects(records: Records) -> Iterator[str]:
    """Each interrupted payment is made once, as a person decided: with its key, or, if it was given
    up, not with its key; code then makes another call."""
    ledger = {row["key"]: row["order_id"] for row in records.books["payments"]}
    wanted: list[tuple[Any, ...]] = []
    for item in filter(is_about_unknown_effect, records.items):
        key, order = item["context"]["idempotency_key"], _shown(item)["arguments"]["order_id"]
        choice = item["answer"]["choice"]
        decided = {"choice": choice, "by": item["closed_by"]}
        if choice == "abandon" and key in ledger:
            yield f"{key} was given up, and is paid"
        if is_abandoned_by_code(item):
            wanted.append((f"{key}r1", order, None))
        else:
            wanted.append((key, None if choice == "abandon" else order, decided))
    calls = _calls_of(records, *PAYOUT_TOOLS)
    found = [(each.key, ledger.get(each.key), each.decided) for each in calls]
    yield from same("decisions and payments", wanted, found)


def _planned_questions(records: Records) -> Iterator[tuple[Any, ...]]:
    planned: dict[str, list[list[Any]]] = defaultdict(list)
    for step in records.steps:
        questions = planned[step["session"]]
        if step["do"] in ("answer", "settle"):
            questions[-1][1:4] = ("answered", step["by"], step["choice"])
        elif step["do"] == "deadline":
            questions[-1][1:4] = ("expired", "nobody", None)
        if step["status"] == "waiting":
            questions.append([step["session"], "open", "", None, step["asks"]])
    for questions in planned.values():
        yield from map(tuple, questions)
