"""Checks of tables that repeat facts: queues, timers, steps, documents, memory and handoffs have
what the events, the plan and each other say, and nothing else."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ekiden.memory import space_of

from .records import Records, Row, is_abandoned_by_code, is_from_customer, same

_KEPT_S = 23 * 3600
"""Answered questions between agents, and requests to the server, are removed after a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to an agent or to the warehouse, as the events and the plan have it."""

    session: str
    asks: Row
    step: str
    payload: Any
    state: str
    answer: Any
    at_us: int
    """The time of the answer; 0 without one."""

    @property
    def id(self) -> str:
        """The id of its message."""
        return str(self.asks["id"])


def _questions(records: Records) -> Iterator[Question]:
    asked = defaultdict(list)
    for session, asks in records.asks:
        asked[session].append(asks)
    for session, found in asked.items():
        steps = _steps_of_questions(records, session)
        for (step, payload, answer), asks in zip(steps, found, strict=True):
            state, at_us = records.replies.get(asks["id"], ("open", 0))
            if "session" in asks:
                answer = _said(records, asks["session"])
            yield Question(
                session=session,
                asks=asks,
                step=step,
                payload=payload,
                state=state,
                answer=answer if at_us else None,
                at_us=at_us,
            )


def _steps_of_questions(records: Records, session: str) -> Iterator[tuple[str, Any, Any]]:
    """The steps in which a session asks, each with the question and the warehouse's answer."""
    for call in records.calls:
        if call.session == session and call.tool == "check_refund":
            order = records.orders[call.arguments["order_id"]]
            refunds = records.earlier_refunds[order["customer"]]
            facts = {"order_id": order["id"], "earlier_refunds": refunds}
            yield f"{call.step}.q1", facts, None
            yield f"{call.step}.q2", order["id"], {"is_back": bool(order["is_back"])}
    for step, details in _tasks(records, session):
        if details["phase"] == "started":
            yield f"{step}.try.1", None, None


def _tasks(records: Records, session: str) -> Iterator[tuple[str, Row]]:
    """What a supervisor did, with its steps. A number counts how often the run was resumed."""
    base = life = ""
    for event in records.events[session]:
        details = event["details"] or {}
        if details.get("for") == "plan":
            base, life = event["step"].removesuffix(".m1").split("plan")
        if event["type"] == "task":
            task = f"{base[:-1]}{life}"
            match details["phase"]:
                case "decomposed":
                    yield f"{base}plan{life}.m1", details
                case "completed":
                    yield f"{base}answer{life}.m1", details
                case "aggregating":
                    yield f"{task}.aggregating", details
                case _:
                    yield f"{task}.{int(details['task_id'][1:]) - 1}", details


def _said(records: Records, session: str) -> str:
    """The last text of a session."""
    texts = [
        part["text"]
        for event in records.events[session]
        for item in event["items"] or ()
        if item.get("role") == "assistant"
        for part in item["content"]
    ]
    return texts[-1] if texts else ""


def queues(records: Records) -> Iterator[str]:
    """The queues have the questions to agents, and nothing else."""
    stored = {row["key"] for row in records.store["messages"]}
    since_us = records.end_us - _KEPT_S * 1_000_000
    wanted = [
        (q.id, f"agent:{q.asks['to']}", q.asks["subject"], q.session, q.payload, q.state, q.answer)
        for q in _questions(records)
        if q.id in stored or q.state == "open" or q.at_us > since_us
    ]
    found = []
    for row in records.store["messages"]:
        body, answer = row["body"], _payload(row["answer"])
        shown = (body["subject"], row["session_id"], body["payload"], row["state"], answer)
        found.append((row["key"], row["queue"], *shown))
        root = records.root(row["session_id"])
        copied = (body["id"], f"agent:{body['to_agent']}", body["correlation_id"])
        if copied != (row["key"], row["queue"], root):
            yield f"{row['key']} in {row['queue']} for {root} has the message {body}"
    yield from same("messages in queues", wanted, found)


def _payload(answer: Row | None) -> Any:
    return answer and answer["payload"]


def waits(records: Records) -> Iterator[str]:
    """Sessions wait for the open questions, and each deadline has a timer."""
    wanted = [(q.session, q.id) for q in _questions(records) if q.state == "open"]
    wanted += [(i["session_id"], i["id"]) for i in records.items if i["status"] == "open"]
    deadlines = [
        (item["deadline_us"], "inbox", item["id"])
        for item in records.items
        if item["status"] == "open" and item["deadline_us"]
    ]
    found = []
    for name, row in records.sessions.items():
        for kind, id, *facts in row["cursor"].get("as", {}).values():
            found.append((name, id))
            if kind == "query":
                deadlines.append((facts[3], kind, id))
    yield from same("questions that sessions wait for", wanted, found)
    timers = [key.split("/") for key in records.documents("timers")]
    yield from same(
        "timers",
        [each for each in deadlines if each[0] > records.end_us],
        [(int(due), *about) for due, *about in timers if int(due) > records.end_us],
    )


_DECISION = ("approved", "status", "by", "reason", "always")
_PERSON = r"\.ask\.[tc]\d+\.[0-9a-f]+$|\.p\d+$|\.xt?\d+$"
_STEPS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    (r"\.q\d+$|\.try\.\d+$", lambda r: (r["id"], r["who"], r["state"], _payload(r["answer"]))),
    (r"\.ask\.[tc]\d+$", lambda r: (r["of"], *map(r.get, _DECISION))),
    (_PERSON, lambda r: (r["id"], r["who"], r["state"], r["answer"])),
    (r"\.i\d+(r\d+)?$", lambda r: (r[0], json.loads(r[1]))),
    (r"\.0\.before$", lambda r: (r["outcome"], r["cursor"]["hd"], r["variables"])),
    (r"\.plan$", lambda r: [(t["task_id"], t["agent"], t["description"]) for t in r["tasks"]]),
    (r"\.result$", lambda r: (r[1]["task_id"], r[1]["agent"], r[1]["success"])),
    (r"\.plan\d*\.m1$", lambda r: _tasks_of(r[0]["content"][0]["text"])),
    (r"\.answer\d*\.m1$", lambda r: r[0]["content"][0]["text"]),
    (r"\.began$|\.aggregating$|\.sent\.\d+$", lambda r: None),
)
"""The facts in the results of steps, by the ends of their keys."""


def _tasks_of(text: str) -> list[tuple[str, str]]:
    """The agents and descriptions of the tasks in a model's plan."""
    return [(task["agent"], task["description"]) for task in json.loads(text)["tasks"]]


def steps(records: Records) -> Iterator[str]:
    """The stored results of steps say what the events and the questions say."""
    names = {row["num"]: row["id"] for row in records.store["sessions"]}
    found = []
    for row in records.store["steps"]:
        reads = [read for end, read in _STEPS if re.search(end, row["key"])]
        facts = reads[0](row["result"]) if reads else row["result"]
        # The step of a question to people is named after a hash of the arguments.
        key = "person" if re.search(_PERSON, row["key"]) else row["key"]
        found.append((names[row["session"]], key, facts))
    yield from same("steps", _wanted_steps(records), found)


def _wanted_steps(records: Records) -> Iterator[tuple[Any, ...]]:
    for question in _questions(records):
        if question.at_us:
            facts = (question.id, question.asks["to"], question.state, question.answer)
            yield question.session, question.step, facts
    for session, event, details in records.details("tool_confirmation"):
        of = [details["tool"], details["arguments_hash"]]
        yield session, event["step"], (of, *map(details.get, _DECISION))
    for call in records.calls:
        run, _, place = call.step.rpartition(".")
        if (
            place.startswith("c") and not call.is_refused
        ):  # Code stores what it calls before it calls it.
            yield call.session, f"{run}.i{place[1:]}", (call.tool, call.arguments)
    for item in records.items:
        if item["status"] != "open":
            facts = (item["id"], item["role"], item["status"], item["answer"])
            yield item["session_id"], "person", facts
        if is_abandoned_by_code(item):  # No event has this call.
            about = item["context"]
            run, _, place = about["idempotency_key"].rpartition(":")[2].rpartition(".")
            called = (about["tool"], json.loads(about["arguments"]))
            yield item["session_id"], f"{run}.i{place[1:]}", called
    for session in records.sessions:
        for key in {each.get("sent") for each in _model_calls(records, session)} - {None}:
            yield session, key, None
        yield from _begun_runs(records, session)
        yield from _planned_tasks(records, session)


def _model_calls(records: Records, session: str) -> Iterator[Row]:
    """The details of the model calls of a session."""
    for event in records.events[session]:
        if event["type"] == "llm_call":
            yield event["details"] or {}


def _begun_runs(records: Records, session: str) -> Iterator[tuple[Any, ...]]:
    """The state before each later run."""
    run, head = 0, ""
    for event in records.events[session]:
        if any(map(is_from_customer, event["items"] or ())):
            run += 1
            if run > 1:
                end = records.last_steps[f"{session}:{run - 1}"]["status"]
                facts = (end, head, records.sessions[session]["variables"])
                yield session, f"{run}.0.before", facts
        head = (event["details"] or {}).get("hash", head)


def _planned_tasks(records: Records, session: str) -> Iterator[tuple[Any, ...]]:
    for step, details in _tasks(records, session):
        match details["phase"]:
            case "decomposed":
                tasks = [(t["task_id"], t["agent"], t["description"]) for t in details["tasks"]]
                yield session, f"{step.rpartition('plan')[0]}plan", tasks
                yield session, step, [task[1:] for task in tasks]
            case "started":
                yield session, f"{step}.began", None
            case "finished":
                facts = tuple(map(details.get, ("task_id", "agent", "success")))
                yield session, f"{step}.result", facts
            case "aggregating":
                yield session, step, None
            case "completed":
                yield session, step, _said(records, session)


_KEYS = {"shop": ["read", "run"], "anna": ["answer", "read"], "ben": ["answer", "read"]}
_COLLECTIONS = {
    *("api_keys", "api_key_uses", "idempotency", "bus.presence", "inbox.open", "inbox.done"),
    *("inbox.order", "timers", "housekeeping", "ekiden.store", "workers", "workers.beats"),
    "versions",
}


def documents(records: Records) -> Iterator[str]:
    """The other documents are those of the shop's API keys, processes and requests."""
    keys = records.documents("api_keys").values()
    yield from same(
        "API keys",
        [(name, scopes, None) for name, scopes in _KEYS.items()],
        [(each["name"], each["scopes"], each["revoked_at_us"]) for each in keys],
    )
    used = set(records.documents("api_key_uses")) - set(records.documents("api_keys"))
    yield from same("uses of API keys", [], used)
    served = [each["agent"] for each in records.documents("bus.presence").values()]
    yield from same("processes on the bus", ["warehouse"], served)
    requests = map(_run_of, records.documents("idempotency").values())
    begun = {run for run in requests if run}
    yield from same("requests for runs", [], begun - set(records.last_steps))
    messages = [step for step in records.steps if step["do"] == "message"]
    since = records.plan["end"] - _KEPT_S
    kept = {
        run
        for run, step in zip(records.last_steps, messages, strict=True)
        if step["at"] > since and step["status"] != "failed"
    }
    yield from same("recent requests for runs", kept, begun & kept)
    used = {
        call["made_by"].partition("/")[2]
        for session in records.sessions
        for call in _model_calls(records, session)
        if "made_by" in call
    }
    stored = records.documents("versions")
    yield from same("parts of requests", used, [key for key in stored if "/" not in key])
    noted = {key.partition("/")[0] for key in stored if "/" in key}
    yield from same("sessions that use parts of requests", used, noted)
    unknown = {row["collection"] for row in records.store["documents"]} - _COLLECTIONS
    yield from same("collections of documents", [], unknown)


def _run_of(request: Row) -> Any:
    """The run that a request began, if it did."""
    return request.get("run_id") or dict(request.get("headers") or ()).get("x-ekiden-run")


def memory(records: Records) -> Iterator[str]:
    """What customers want to be remembered is remembered, for them alone."""
    wanted = [
        (_space(each["customer"]), "style", {"tags": ["style"]}, each["steps"][0]["text"])
        for each in records.plan["conversations"]
        if each["kind"] == "preference" and each["steps"]
    ]
    spaces = {row["num"]: row["name"] for row in records.store["search_spaces"]}
    found = [
        (spaces[row["space"]], row["key"], row["body"]["meta"], _remembered(row))
        for row in records.store["search_entries"]
    ]
    yield from same("memories", wanted, found)
    names = [row["name"] for row in records.store["search_spaces"]]
    yield from same("spaces of memories", {each[0] for each in wanted}, names)


def _space(customer: str) -> str:
    return space_of("user", app="shop", user=customer)


def _remembered(row: Row) -> Any:
    return row["text"][row["body"]["head"] :]


def handoffs(records: Records) -> Iterator[str]:
    """Every handoff has ended, unless its session waits; a released pick-up was rolled back."""
    rolled_back = set()
    for id, (session, _, status) in records.handoffs.items():
        is_open = records.sessions[session]["status"] == "waiting"
        if status not in ("completed", "failed", "rolled_back") and not is_open:
            yield f"{id} is {status}"
        if status == "rolled_back":
            rolled_back.add(session)
    for step in records.steps:
        if "released" in step["pickups"].values() and step["session"] not in rolled_back:
            yield f"{step['session']}: no handoff was rolled back"
