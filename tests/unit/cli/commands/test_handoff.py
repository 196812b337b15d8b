"""`ekiden handoff …`, in this process."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from ekiden.core.events import Event
from ekiden.core.handoffs import Actor
from ekiden.handoff.requests import Asked, document_of
from ekiden.storage.base import Store
from ekiden.storage.sqlite import SqliteStore
from tests.unit.audit.written import BEGINNING, event, handoff, write
from tests.unit.cli.commands.conftest import Desk, Ran
from tests.unit.cli.commands.counter import TEAM

HOSTILE = "pay \x1b[2J\u202e\x7f\x9b now 付款"


@pytest.fixture
def counter(bare: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A folder whose store has the session `s`, which triage has."""
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert bare("run", "--session", "s", "--team", TEAM, "我要退款 👋").code == 0
    return bare


def start(desk: Desk, to: str, *options: str) -> Ran:
    return desk("handoff", "start", "s", "--to", to, "--team", TEAM, *options)


@pytest.mark.parametrize("name", ["", " ", "\n", "a\nb", "a" * 201])
def test_a_name_that_is_no_name_starts_nothing(counter: Desk, name: str) -> None:
    refused = start(counter, "billing", "--by", name)
    assert (refused.code, refused.out) == (2, "")
    assert "the name in --by" in refused.err
    assert counter("handoff", "list", "--json").json == []


def in_store(desk: Desk, work: Callable[[Store], Awaitable[Any]]) -> Any:
    """Do something with the store."""

    async def done() -> Any:
        async with SqliteStore(desk.folder / ".ekiden" / "ekiden.db") as store:
            return await work(store)

    return asyncio.run(done())


def put(desk: Desk, events: list[Event]) -> None:
    in_store(desk, lambda store: write(store, events))


def test_starting_a_handoff_prints_the_targets_answer(counter: Desk) -> None:
    done = start(counter, "billing", "--reason", "she asks for money")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "s.h1: triage → billing completed\nbilling: The refund is on its way. \\x1b[31m退款👋\n"
    )


def test_json_output_contains_the_whole_handoff(counter: Desk) -> None:
    done = start(counter, "billing", "--by", "安娜", "--json")
    record = done.json
    assert record.pop("completed_at") > 1e9
    assert record == {
        "id": "s.h1",
        "session_id": "s",
        "status": "completed",
        "source": "triage",
        "target": "billing",
        "error": None,
        "rollback_performed": False,
        "agent": "billing",
        "outcome": "done",
        "speaker": "billing",
        "output": "The refund is on its way. \x1b[31m退款👋",
        "standing": "idle",
    }
    [listed] = counter("handoff", "list", "--json").json
    assert listed["by"] == {"kind": "person", "name": "安娜"}


@pytest.mark.parametrize(
    ("to", "code", "refusal"),
    [
        ("陌生人", 1, "PERMISSION_DENIED"),
        ("closed", 1, "AGENT_UNAVAILABLE"),
        ("careful", 1, "CONDITIONS_NOT_MET"),
    ],
)
def test_a_refused_handoff_prints_its_reason_and_changes_nothing(
    counter: Desk, to: str, code: int, refusal: str
) -> None:
    plain = start(counter, to)
    assert (plain.code, plain.out) == (code, f"s.h1: triage → {to} failed\n")
    assert plain.err.startswith(f"error[handoff.refused]: {refusal}: ")
    told = start(counter, to, "--json")
    assert told.code == code
    assert told.error["code"] == "handoff.refused"
    assert (told.error["refusal"], told.error["handoff"]) == (refusal, "s.h2")
    assert (told.json["status"], told.json["agent"]) == ("failed", "triage")
    assert told.json["error"]["code"] == refusal


def test_an_unknown_agent_is_refused_with_the_nearest_name(counter: Desk) -> None:
    told = start(counter, "biling", "--json")
    assert (told.code, told.error["code"]) == (5, "agent.unknown")
    assert "did you mean 'billing'?" in told.error["message"]


def test_a_failing_target_returns_the_session(counter: Desk) -> None:
    done = start(counter, "broken")
    assert (done.code, done.out) == (1, "s.h1: triage → broken rolled_back\n")
    assert done.err == "error[handoff.rolled_back]: TARGET_FAILED: ValueError: no paper\n"


def test_a_target_that_fails_later_keeps_the_session(counter: Desk) -> None:
    done = start(counter, "faulty")
    assert (done.code, done.out) == (1, "s.h1: triage → faulty completed\n")
    hint = f"ekiden session resume s --team {TEAM}"
    assert done.err == f"error[run.failed]: ValueError: no ink; continue with: {hint}\n"


def test_a_target_that_never_finishes_reaches_the_turn_limit(counter: Desk) -> None:
    done = start(counter, "eager", "--max-turns", "2", "--json")
    assert (done.code, done.json["status"]) == (3, "completed")
    assert done.error["code"] == "run.out_of_budget"


def test_the_run_can_be_left_to_workers(counter: Desk) -> None:
    done = start(counter, "billing", "--no-run")
    assert (done.code, done.out) == (0, "s.h1: triage → billing transferring\n")
    assert done.err == (
        "billing has the session but has not worked on it yet; "
        f"continue with: ekiden session resume s --team {TEAM}\n"
    )
    resumed = counter("session", "resume", "s", "--team", TEAM)
    assert resumed.out.startswith("The refund is on its way.")
    [listed] = counter("handoff", "list", "--json").json
    assert listed["status"] == "completed"


def test_an_unconfirmed_handoff_can_be_cancelled(counter: Desk) -> None:
    start(counter, "billing", "--no-run")
    cancel = ("handoff", "cancel", "s.h1", "--team", TEAM)
    done = counter(*cancel, "--reason", "a mistake")
    assert (done.code, done.out, done.err) == (0, "s.h1: triage → billing rolled_back\n", "")
    again = counter(*cancel, "--json")
    assert again.code == 0
    assert again.json["error"] == {"code": "CANCELLED", "message": "a mistake"}
    assert "agent: triage" in counter("session", "show", "s").out


def test_a_settled_handoff_cannot_be_cancelled(counter: Desk) -> None:
    start(counter, "billing")
    done = counter("handoff", "cancel", "s.h1", "--team", TEAM, "--json")
    assert (done.code, done.json["status"]) == (1, "completed")
    assert (done.error["code"], done.error["status"]) == ("handoff.settled", "completed")


def test_a_pending_request_is_listed_shown_and_withdrawn(counter: Desk) -> None:
    asked = Asked(
        id="hrq_1", to="billing", reason="急", by=Actor(kind="person", name="bo"), asked_us=10**15
    )
    in_store(counter, lambda store: store.write_documents([document_of("s", asked)]))
    header, row = counter("handoff", "list", "--status", "initiated").out.splitlines()
    assert header.split() == ["handoff", "time", "from", "to", "status", "by", "policy", "why"]
    assert row.split()[0] == "hrq_1"
    assert row.endswith("triage  billing  initiated  person bo  graceful  急")
    shown = counter("handoff", "show", "hrq_1").out
    assert "status: initiated\n" in shown
    assert "reason: 急\n" in shown
    assert "audit" not in shown
    done = counter("handoff", "cancel", "hrq_1", "--team", TEAM)
    assert (done.code, done.out) == (0, "hrq_1: triage → billing failed\n")
    [listed] = counter("handoff", "list", "--json").json
    assert (listed["id"], listed["request"], listed["status"]) == ("s.h1", "hrq_1", "failed")
    assert listed["reason"] == "急"


def test_a_handoff_to_people_waits_for_their_answer(counter: Desk) -> None:
    done = start(counter, "person:support", "--reason", "angry")
    assert (done.code, done.out) == (0, "s.h1: triage → person:support completed\n")
    assert done.err == "the session waits for people: ekiden handoff answer s TEXT\n"
    answered = counter("handoff", "answer", "s", "我们道歉。", "--by", "bo", "--team", TEAM)
    assert (answered.code, answered.out) == (0, "我们道歉。\n")
    assert answered.err == "[s] user → triage → person:support\n"
    again = counter("handoff", "answer", "s", "and again", "--team", TEAM, "--json")
    assert (again.code, again.error["code"]) == (1, "session.not_waiting")


def test_people_can_return_the_session_with_their_answer(counter: Desk) -> None:
    start(counter, "person:support")
    back = ("handoff", "answer", "s", "-", "--back", "--team", TEAM, "--json")
    done = counter(*back, input="付款。\n".encode())
    assert (done.code, done.json["output"], done.json["agent"]) == (0, "triage here", "triage")
    [last, _] = counter("handoff", "list", "--json").json
    assert (last["source"], last["target"]) == ("person:support", "triage")
    assert last["by"] == {"kind": "person", "name": "ada"}


def test_a_session_that_cannot_be_returned_keeps_waiting_for_people(counter: Desk) -> None:
    start(counter, "person:support")
    team = "tests.unit.cli.commands.counter:closed_desk"
    done = counter("handoff", "answer", "s", "yes", "--back", "--team", team)
    assert (done.code, done.out) == (4, "")
    assert "error[run.waiting]: the session waits for person:support; after the answer" in done.err
    assert "answer with: ekiden inbox answer inb_" in done.err
    assert "error[handoff.refused]: AGENT_UNAVAILABLE: " in done.err


def test_an_answer_must_be_one_text(counter: Desk) -> None:
    several = counter("handoff", "answer", "s", "two", "words", "--team", TEAM)
    assert (several.code, "put it in quotes, as 'two words'" in several.err) == (2, True)
    empty = counter("handoff", "answer", "s", " ", "--team", TEAM, "--json")
    assert (empty.code, empty.error["code"]) == (2, "cli.bad_input")
    nobody = counter("handoff", "answer", "s", "hello", "--team", TEAM, "--json")
    assert (nobody.code, nobody.error["code"]) == (1, "session.not_waiting")


@pytest.mark.parametrize("option", ["--to", "--reason", "--summary", "--context", "--by"])
def test_an_option_that_is_not_utf_8_is_refused(counter: Desk, option: str) -> None:
    options = {"--to": "billing", option: "\udcff"}
    words = [word for pair in options.items() for word in pair]
    done = counter("handoff", "start", "s", *words, "--team", TEAM, "--json")
    assert (done.code, done.error["code"]) == (2, "cli.bad_input")
    assert option in done.error["message"]
    assert counter("handoff", "list").out == "no handoffs\n"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_an_invalid_timeout_is_refused(counter: Desk, seconds: str) -> None:
    done = start(counter, "billing", "--timeout", seconds, "--json")
    assert (done.code, done.error["code"]) == (2, "cli.usage")


def test_a_user_without_a_name_is_recorded_without_one(
    counter: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    start(counter, "billing")
    [listed] = counter("handoff", "list", "--json").json
    assert listed["by"] == {"kind": "person"}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("start", "none", "--to", "billing", "--team", TEAM), "session.not_found"),
        (("answer", "none", "hello", "--team", TEAM), "session.not_found"),
        (("show", "s.h9"), "handoff.not_found"),
        (("show", "s/4"), "handoff.not_found"),
        (("cancel", "s.h9", "--team", TEAM), "handoff.not_found"),
    ],
)
def test_unknown_ids_exit_with_5(counter: Desk, command: tuple[str, ...], code: str) -> None:
    done = counter("handoff", *command, "--json")
    assert (done.code, done.error["code"]) == (5, code)


def test_handoffs_of_an_agent_are_listed_in_pages(counter: Desk) -> None:
    for to in ("closed", "careful", "closed", "closed"):
        start(counter, to)
    first = counter("handoff", "list", "--agent", "closed", "--limit", "2", "--json")
    cursor = json.loads(first.err)["next_cursor"]
    rest = counter(
        "handoff", "list", "--agent", "closed", "--limit", "2", "--cursor", cursor, "--json"
    )
    assert [each["id"] for each in first.json + rest.json] == ["s.h4", "s.h3", "s.h1"]
    assert rest.err == ""
    assert counter("handoff", "list", "--agent", "closed", "--limit", "1").err.startswith(
        "more: --cursor "
    )
    assert len(counter("handoff", "list", "--agent", "triage", "--json").json) == 4
    wrong = counter("handoff", "list", "--agent", "closed", "--cursor", "x", "--json")
    assert (wrong.code, wrong.error["code"]) == (2, "request.invalid")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to", "billing"), ["s.h2"]),
        (("--from", "triage"), ["s.h2", "s.h1"]),
        (("--agent", "closed"), ["s.h1"]),
        (("--status", "failed"), ["s.h1"]),
        (("--session", "s"), ["s.h2", "s.h1"]),
        (("--session", "t"), []),
        (("--task", "s", "--correlation", "s"), ["s.h2", "s.h1"]),
        (("--policy", "immediate"), ["s.h2"]),
        (("--by", "ada"), ["s.h2", "s.h1"]),
        (("--by", "model"), []),
        (("--since", "1h"), ["s.h2", "s.h1"]),
        (("--until", "1h"), []),
    ],
)
def test_options_filter_the_list(
    counter: Desk, options: tuple[str, ...], expected: list[str]
) -> None:
    start(counter, "closed")
    start(counter, "billing", "--policy", "immediate")
    assert [each["id"] for each in counter("handoff", "list", *options, "--json").json] == expected


def test_an_invalid_time_is_refused(counter: Desk) -> None:
    done = counter("handoff", "list", "--since", "yesterday-ish", "--json")
    assert (done.code, done.error["code"]) == (2, "cli.usage")


def test_a_handoff_is_shown_completely_with_its_filter_view(counter: Desk) -> None:
    start(counter, "billing", "--reason", "急着退款")
    pairs, _, table = counter("handoff", "show", "s.h1").out.partition("\n\n")
    lines = pairs.splitlines()
    assert lines[:7] == [
        "handoff: s.h1",
        "session: s",
        "task: s",
        "correlation: s",
        "from: triage",
        "to: billing",
        "status: completed",
    ]
    assert [line.split()[-1] for line in lines[7:11]] == [*BEGINNING, "completed"]
    assert "by: person ada" in lines
    assert "reason: 急着退款" in lines
    assert "view: 2 items of 17 characters became 1 of 11: 1 kept, 1 dropped" in lines
    header, *rows = [line.split(maxsplit=5) for line in table.splitlines()]
    assert header == ["before", "fate", "after", "chars", "now", "item"]
    assert rows[0] == ["1", "dropped", "6", "0", "user:", "我要退款 👋"]
    assert rows[1] == ["2", "kept", "1", "11", "11", "assistant: triage here"]
    record = counter("handoff", "show", "s.h1", "--json").json
    assert record["view"]["counts"]["dropped"] == 1
    assert record["words"] == {"reason": "急着退款"}
    assert [each.partition("/")[0] for each in record["audit"]] == ["s"] * 4


def test_a_handoff_without_a_filter_shows_no_view(counter: Desk) -> None:
    start(counter, "broken")
    shown = counter("handoff", "show", "s.h1").out
    assert "code: TARGET_FAILED\nerror: ValueError: no paper\n" in shown
    assert "view: broken saw everything\n" in shown
    assert "current agent: triage\n" in shown


def test_a_condition_is_shown_with_the_values_of_its_parts(counter: Desk) -> None:
    start(counter, "careful")
    shown = counter("handoff", "show", "s.h1").out
    assert "policy: conditional\n" in shown
    assert "condition: error_count > 3 and user.tier == 'x' → false\n" in shown
    assert "  error_count > 3 → false\n" in shown
    assert "  error_count → 0\n" in shown
    assert "view" not in shown


def test_the_trigger_and_the_compensations_are_shown(bare: Desk) -> None:
    evaluation = {
        "text": "confidence <\n 0.5",
        "value": True,
        "trace": [
            {"text": "confidence", "value": 0.3, "start": 0, "end": 10},
            {"text": "x", "value": None, "start": 0, "end": 1, "note": "missing: x"},
        ],
        "left_out": 3,
    }
    why = {"type": "condition", "evaluation": evaluation, "also": ["sales"]}
    by = {"kind": "trigger", "name": "confidence < 0.5"}
    undoing = {"moves": [], "compensation": "refund"}
    tried = handoff("s", 4, "transferring", **undoing)
    tried.error = "no paper"
    put(
        bare,
        [
            event("s", 1),
            handoff("s", 2, *BEGINNING, by=by, trigger=why),
            handoff("s", 3, "transferring", **{**undoing, "compensation": "mail"}),
            tried,
            handoff("s", 5, "rolled_back", code="TARGET_FAILED", not_compensated=["refund"]),
        ],
    )
    shown = bare("handoff", "show", "s.h1").out
    assert "by: trigger confidence < 0.5\n" in shown
    assert (
        "trigger: type: condition\n"
        '  also: ["sales"]\n'
        "  confidence < 0.5 → true\n"
        "  confidence → 0.3\n"
        "  x → null (missing: x)\n"
        "  … and 3 more parts\n"
    ) in shown
    assert "undone: mail\nnot undone: refund\nfailed attempts: 1\n" in shown


def test_handoffs_waiting_for_approval_are_listed_by_status(bare: Desk) -> None:
    put(bare, [event("s", 1), handoff("s", 2, "initiated", "validating")])
    put(bare, [event("t", 1), handoff("t", 2, *BEGINNING, id="t.h1")])
    [listed] = bare("handoff", "list", "--status", "validating", "--json").json
    assert (listed["id"], listed["status"]) == ("s.h1", "validating")


def test_text_of_agents_and_models_cannot_move_the_cursor(bare: Desk) -> None:
    names = {"from": HOSTILE, "to": "付\u202e款"}
    told = handoff("s", 1, "initiated", "validating", "failed", reason=HOSTILE, **names)
    put(bare, [told])
    for command in (("list",), ("show", "s.h1"), ("list", "--json"), ("show", "s.h1", "--json")):
        out = bare("handoff", *command).out
        assert not set("\x1b\u202e\x7f\x9b") & set(out)
    [listed] = bare("handoff", "list", "--json").json
    assert listed["source"] == HOSTILE


def test_columns_are_aligned_for_names_of_any_width(bare: Desk) -> None:
    steps = [*BEGINNING[:2], "failed"]
    for name, to in (("s", "翻译员👋"), ("t", "abc")):
        put(bare, [handoff(name, 1, *steps, id=f"{name}.h1", to=to)])
    lines = bare("handoff", "list").out.splitlines()
    at = {
        cell_len(line[: line.index(word)])
        for line, word in zip(lines, ("status", "failed", "failed"), strict=True)
    }
    assert len(at) == 1


def test_listing_without_a_store_exits_with_7(bare: Desk, tmp_path: Path) -> None:
    done = bare("handoff", "list", "--store", str(tmp_path / "none.db"), "--json")
    assert done.code == 7


def test_an_invalid_handoff_id_is_refused(counter: Desk) -> None:
    done = counter("handoff", "show", HOSTILE, "--json")
    assert (done.code, done.error["code"]) == (2, "request.invalid")
