"""`ekiden inbox …`, in this process."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from rich.cells import cell_len

from ekiden.cli.prompts import Question
from ekiden.cli.views import inbox as inbox_views
from ekiden.core.current_agent import AGENT_VARIABLE
from ekiden.core.questions import EscalationStep, InboxItem
from ekiden.inbox import Inbox, run_due
from ekiden.storage.base import Store
from ekiden.storage.sqlite import SqliteStore
from tests.unit.cli.commands.conftest import Desk

HOSTILE = "pay \x1b[2J\u202e\u200b now 付款"
HOUR_US = 3_600_000_000


def in_store(desk: Desk, work: Callable[[Store], Awaitable[Any]]) -> Any:
    """Do something with the store."""

    async def done() -> Any:
        async with SqliteStore(desk.folder / ".ekiden" / "ekiden.db") as store:
            return await work(store)

    return asyncio.run(done())


def post(desk: Desk, *items: InboxItem) -> None:
    """Ask people."""

    async def each(store: Store) -> None:
        for item in items:
            await Inbox(store).post(item)

    in_store(desk, each)


def question(name: str = "q1", **fields: Any) -> InboxItem:
    """With the options yes, no, and not now."""
    given: dict[str, Any] = {
        "id": name,
        "kind": "approval",
        "from_agent": "sales",
        "subject": "15 % for 山田 🎉?",
        "options": ("yes", "no", "not now"),
    }
    return InboxItem(**(given | fields))


def confirmation(name: str = "c1", **fields: Any) -> InboxItem:
    """About a refund of 5."""
    given: dict[str, Any] = {
        "kind": "confirmation",
        "tool": "refund",
        "options": ("yes", "no"),
        "arguments": '{"order": 1042, "amount": 5}',
    }
    return question(name, **(given | fields))


@pytest.fixture
def office(bare: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A folder with a store in which two questions wait."""
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    (bare.folder / ".ekiden").mkdir()
    post(bare, question(), confirmation(priority=4))
    return bare


def test_open_items_are_listed_with_aligned_columns(office: Desk) -> None:
    post(
        office, question("q2", role="経理", assignee="佐藤", subject="价格 ok?", deadline_us=10**16)
    )
    lines = office("inbox", "list").out.splitlines()
    assert lines[0].split() == ["item", "age", "kind", "from", "role", "subject", "deadline"]
    assert [line.split()[0] for line in lines[1:]] == ["c1", "q2", "q1"]
    at = cell_len(lines[0][: lines[0].index("subject")])
    for line, subject in zip(lines[1:], ("15 %", "价格", "15 %"), strict=True):
        assert cell_len(line[: line.index(subject)]) == at
    assert "confirmation (urgent)" in lines[1]
    assert "経理: 佐藤" in lines[2]
    assert lines[2].rstrip().endswith("d")


def test_an_empty_inbox_is_reported(office: Desk) -> None:
    assert office("inbox", "list", "--role", "CEO").out == "the inbox is empty\n"
    assert office("inbox", "list", "--role", "CEO", "--json").out == "[]\n"


def test_pages_continue_with_the_cursor(office: Desk) -> None:
    first = office("inbox", "list", "--limit", "1")
    cursor = first.err.removeprefix("more: --cursor ").strip()
    second = office("inbox", "list", "--limit", "1", "--cursor", cursor, "--json")
    assert [each["id"] for each in second.json] == ["q1"]
    assert json.loads(office("inbox", "list", "--limit", "1", "--json").err) == {
        "next_cursor": cursor
    }
    assert office("inbox", "list", "--cursor", "x").code == 2


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--kind", "confirmation"], ["c1"]),
        (["--priority", "normal"], ["q1"]),
        (["--agent", "nobody"], []),
        (["--text", "REFUND"], ["c1"]),
        (["--status", "any"], ["c1", "q1"]),
        (["--assignee", ""], ["c1", "q1"]),
        (["--session", "s"], []),
    ],
)
def test_filters_restrict_the_list(office: Desk, options: list[str], ids: list[str]) -> None:
    assert [each["id"] for each in office("inbox", "list", *options, "--json").json] == ids


def test_text_of_agents_is_quoted_and_escaped(office: Desk) -> None:
    hostile = question(
        "h1", subject=HOSTILE, body=f"line\nstatus: answered\n{HOSTILE}", context={"客户": HOSTILE},
        chain=(EscalationStep(role="经理", after_s=60),), deadline_us=10**16, default="no",
    )  # fmt: skip
    post(office, hostile, confirmation("h2", arguments='{"a": 1, "a": 2}', session_id="s"))
    shown = office("inbox", "show", "h1").out
    assert "\n  | status: answered\n" in shown
    assert "pay \\x1b[2J\\u202e\\u200b now 付款" in shown
    assert '  |   "客户": "pay' in shown
    assert "escalates to: 经理, first at " in shown
    assert ", then the answer is 'no'\n" in shown
    assert not {"\x1b", "\u202e", "\u200b"} & set(shown)
    assert '  | {"a": 1, "a": 2}\n' in office("inbox", "show", "h2").out
    listed = office("inbox", "list").out
    assert "\x1b" not in listed
    assert "\u202e" not in listed


def test_an_answer_is_accepted_once_and_recorded(office: Desk) -> None:
    done = office("inbox", "answer", "q1", "Y", "--text", "但只到月底", "--by", "安娜")
    assert (done.code, done.out) == (0, "q1 answered: yes\n")
    again = office("inbox", "answer", "q1", "no", "--json")
    assert (again.code, again.error["code"]) == (1, "inbox.closed")
    assert "by 安娜 at 2" in again.error["message"]
    shown = office("inbox", "show", "q1").out
    assert "status: answered by 安娜 at " in shown
    assert "from terminal → yes\n" in shown
    assert "answer:\n  | 但只到月底\n" in shown
    listed = office("inbox", "list", "--status", "closed").out
    assert "answered by 安娜: yes" in listed


def test_an_option_can_be_given_by_a_unique_prefix(office: Desk) -> None:
    unclear = office("inbox", "answer", "q1", "n", "--json")
    assert (unclear.code, unclear.error["code"]) == (2, "inbox.answer_invalid")
    assert "'yes', 'no', 'not now'" in unclear.error["message"]
    assert office("inbox", "answer", "q1", "NO", "--json").json["answer"]["choice"] == "no"
    post(office, question("q2"))
    assert office("inbox", "answer", "q2", "not", "--json").json["answer"]["choice"] == "not now"
    assert office("inbox", "answer", "c1", "--json").code == 2


def test_an_item_without_options_takes_text(office: Desk) -> None:
    post(office, question("w1", options=()), question("w2", options=()))
    assert office("inbox", "answer", "w1", "八折").out == "w1 answered: 八折\n"
    assert office("inbox", "answer", "w2", "--text", "九折").out == "w2 answered: 九折\n"
    assert office("inbox", "answer", "w2", "a", "--text", "b").code == 2
    post(office, question("w3", options=(), notice=True))
    assert office("inbox", "answer", "w3").out == "w3 answered\n"


def test_ids_can_be_shortened_to_a_unique_prefix(office: Desk) -> None:
    post(office, question("q1b"))
    assert office("inbox", "show", "q1").out.startswith("item: q1\n")
    unclear = office("inbox", "show", "q", "--json")
    assert (unclear.code, unclear.error["code"]) == (2, "cli.usage")
    assert "q1, q1b" in unclear.error["message"]
    for name in ("zz", "", "\udc80"):
        assert office("inbox", "show", name, "--json").code in (2, 5)
    assert office("inbox", "show", "zz", "--json").error["code"] == "inbox.not_found"


def test_edited_arguments_need_yes_without_a_terminal(office: Desk) -> None:
    edited = '{"order": 1042, "amount": 3}'
    refused = office("inbox", "answer", "c1", "yes", "--arguments", edited, "--json")
    assert refused.code == 2
    assert '-  "amount": 5\n+  "amount": 3' in refused.error["message"]
    assert office("inbox", "show", "c1", "--json").json["status"] == "open"
    done = office("inbox", "answer", "c1", "yes", "--arguments", edited, "--yes", "--always")
    assert done.code == 0
    shown = office("inbox", "show", "c1").out
    assert "with other arguments:\n" in shown
    assert "(always: call)" in shown


@pytest.mark.parametrize(("typed", "status"), [("y\n", "answered"), ("\n", "open"), (None, "open")])
def test_at_a_terminal_edited_arguments_are_shown_as_a_difference(
    office: Desk, monkeypatch: pytest.MonkeyPatch, typed: str | None, status: str
) -> None:
    asked: list[str] = []

    async def ask(question: Question) -> str | None:
        asked.append(str(question))
        return typed

    class Attended:
        """Both ends of a terminal."""

        stdin = stderr = type("Stream", (), {"isatty": staticmethod(lambda: True)})

    monkeypatch.setattr(inbox_views, "ask_on_terminal", ask)
    monkeypatch.setattr(inbox_views, "sys", Attended)
    edited = '{"order": 1042, "amount": 3, "note": "\u202e"}'
    office("inbox", "answer", "c1", "yes", "--arguments", edited)
    assert '  | -  "amount": 5\n' in asked[0]
    assert '"note": "\\u202e"' in asked[0]
    assert office("inbox", "show", "c1", "--json").json["status"] == status


def test_equal_or_invalid_arguments_are_not_asked_about(office: Desk) -> None:
    broken = office("inbox", "answer", "c1", "yes", "--arguments", "{", "--yes", "--json")
    assert (broken.code, broken.error["code"]) == (2, "inbox.answer_invalid")
    none = office("inbox", "answer", "q1", "yes", "--arguments", "{}", "--json")
    assert "no arguments" in none.error["message"]
    same = '{"amount":5,"order":1042}'
    done = office("inbox", "answer", "c1", "yes", "--arguments", same, "--json").json
    assert done["answer"]["arguments"] is None


def test_identical_inbox_items_are_answered_together(office: Desk) -> None:
    post(office, *(question(f"same{n}") for n in range(3)))
    done = office("inbox", "answer", "same1", "yes", "--identical")
    assert done.out == "answered 4 identical items\n"
    assert [each["id"] for each in office("inbox", "list", "--json").json] == ["c1"]
    post(office, question("again"))
    result = office("inbox", "answer", "again", "no", "--identical", "--json").json
    assert result == {"answered": ["again"], "closed": 0}


def test_items_are_assigned_snoozed_and_cancelled(office: Desk) -> None:
    assert office("inbox", "assign", "q1", "佐藤").out == "q1 assigned to 佐藤\n"
    assert office("inbox", "assign", "q1", "--nobody").out == "q1 assigned to nobody\n"
    assert office("inbox", "assign", "q1").code == 2
    assert office("inbox", "assign", "q1", "佐藤", "--nobody").code == 2
    hidden = office("inbox", "snooze", "q1", "2h")
    assert hidden.out.startswith("q1 hidden until 2")
    assert [each["id"] for each in office("inbox", "list", "--json").json] == ["c1"]
    assert "hidden until: " in office("inbox", "show", "q1").out
    assert office("inbox", "snooze", "q1", "soon").code == 2
    gone = office("inbox", "cancel", "q1", "--reason", "他打电话了", "--json").json
    assert (gone["status"], gone["closed_by"], gone["reason"]) == ("cancelled", "ada", "他打电话了")
    assert "cancelled by ada" in office("inbox", "list", "--status", "any").out


def test_a_process_started_by_an_agents_tool_cannot_answer(
    office: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AGENT_VARIABLE, "sales")
    refused = office("inbox", "answer", "q1", "yes", "--json")
    assert (refused.code, refused.error["code"]) == (1, "inbox.forbidden")
    assert office("inbox", "list", "--json").json[1]["status"] == "open"


def test_a_user_without_a_name_must_give_one(office: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("uid")

    monkeypatch.setattr(getpass, "getuser", nameless)
    refused = office("inbox", "answer", "q1", "yes", "--json")
    assert (refused.code, refused.error["code"]) == (2, "cli.usage")
    assert office("inbox", "answer", "q1", "yes", "--by", "nobody").code == 2
    assert office("inbox", "answer", "q1", "yes", "--by", "\udc80").code == 2


def test_a_store_in_memory_has_no_shared_inbox(office: Desk) -> None:
    assert office("inbox", "list", "--store", "memory:").code == 2
    assert office("inbox", "list", "--store", "none.db").code == 7


def test_watch_once_lists_every_change(office: Desk) -> None:
    office("inbox", "assign", "q1", "佐藤")
    office("inbox", "snooze", "q1", "2h")
    office("inbox", "answer", "q1", "yes")
    lines = office("inbox", "watch", "--once").out.splitlines()
    told = [line.split("  ", 1)[1] for line in lines]
    assert told[0] == "q1  new  approval  sales → operator:  15 % for 山田 🎉?"
    assert (
        told[2] == "q1  assigned  approval  sales → operator:  15 % for 山田 🎉?  to 佐藤  by ada"
    )
    assert "snoozed" in told[3]
    assert " until 2" in told[3]
    assert told[4].endswith("→ yes  by ada")
    assert office("inbox", "watch", "--once", "--role", "CEO").out == ""


def test_watch_once_as_json_prints_the_pushed_notifications(office: Desk) -> None:
    office("inbox", "cancel", "q1")
    ran = office("inbox", "watch", "--once", "--json")
    first, second, third = map(json.loads, ran.out.splitlines())
    assert (first["type"], second["type"]) == ("inbox.new_item", "inbox.new_item")
    assert set(first["data"]) == {"id", "from", "subject", "payload", "priority", "created_at"}
    assert (third["type"], third["data"]["by"]) == ("inbox.cancelled", "ada")
    after = json.loads(ran.err)["after"]
    assert after == third["event_id"]
    assert office("inbox", "watch", "--once", "--json", "--after", after).out == ""


def test_timers_run_while_the_inbox_is_watched(office: Desk) -> None:
    async def overdue(store: Store) -> None:
        now_us = await store.now_us()
        await Inbox(store).post(question("due", deadline_us=now_us + HOUR_US, default="no"))
        await run_due(store, now_us=now_us + HOUR_US)

    in_store(office, overdue)
    last = office("inbox", "watch", "--once").out.splitlines()[-1]
    assert last.endswith("→ no  by nobody")
    assert "status: expired at" in office("inbox", "show", "due").out


def test_answering_a_conversation_needs_text(office: Desk) -> None:
    post(office, question("h1", kind="handoff", options=("answer", "give back")))
    empty = office("inbox", "answer", "h1", "ans", "--json")
    assert empty.code == 2
    assert "give it with --text" in empty.error["message"]
    assert office("inbox", "answer", "h1", "give").out == "h1 answered: give back\n"
