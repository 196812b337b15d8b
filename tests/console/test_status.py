"""No page shows a wrong status: what was withdrawn, expired, stopped, refused or undone says so."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from ekiden import Agent, Approval, Capability, Team, function_tool, handoff
from ekiden.testing import ScriptedModel, call, fail, say, transfer
from tests.console.conftest import OpenConsole
from tests.console.graph_team import Play, graph_team
from tests.console.inbox_world import approval, confirmation, in_us, post, subjects
from tests.console.place import Console
from tests.console.session_team import session_team
from tests.console.session_world import entries, is_state


def picture(console: Console, name: str, folder: Path) -> None:
    """For people who want to see it: `EKIDEN_STATUS_PICTURES` names a folder for them."""
    wanted = os.environ.get("EKIDEN_STATUS_PICTURES")
    console.page.screenshot(
        path=Path(wanted or folder) / f"status-{name}.png", animations="disabled", full_page=True
    )


def question_of(console: Console, session: str) -> str:
    """The id of the question that a session waits for."""
    [item] = console.api("GET", f"/inbox?session={session}")["items"]
    return str(item["id"])


def span(console: Console, name: str, kind: str) -> Locator:
    """The row of the trace for a piece of work."""
    return console.page.locator(".span-row", has_text=re.compile(rf"{name}.*{kind}"))


@pytest.mark.parametrize(
    ("way", "state"),
    [("withdrawn", "With errors"), ("stopped", "Stopped"), ("broken off", "Finished")],
)
def test_a_refund_without_approval_is_nowhere_shown_as_done(
    open_console: OpenConsole, tmp_path: Path, way: str, state: str
) -> None:
    console = open_console(session_team())
    console.run("a refund", "s1", agent="desk")
    if way == "withdrawn":
        console.api("POST", f"/inbox/{question_of(console, 's1')}/cancel", {"reason": "not now"})
    elif way == "stopped":
        console.api("POST", "/runs/s1:1/cancel", {})
    else:
        console.run("never mind", "s1", agent="desk")
    console.open("sessions/s1")
    is_state(console, state)
    tool = console.page.locator(".entry.tool")
    expect(tool).to_contain_text("Interrupted" if way == "stopped" else "Not run")
    expect(tool).not_to_contain_text("Done")
    expect(console.page.locator(".entry.question")).to_contain_text("Withdrawn")
    picture(console, f"conversation-{way}", tmp_path)

    console.open("sessions/s1/trace")
    asked = span(console, "confirmation for operator", "question to people")
    expect(asked).to_contain_text(re.compile("○.*withdrawn", re.DOTALL))
    for row in console.page.locator(".span-row", has_text="refund").all():
        expect(row).not_to_contain_text("✓")
    picture(console, f"trace-{way}", tmp_path)


def test_an_expired_question_is_not_shown_as_answered(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console()
    over = {"deadline_us": in_us(minutes=-1), "created_at_us": in_us(minutes=-9)}
    post(
        tmp_path,
        approval("15 % discount?", options=("approve", "reject"), default="reject", **over),
        confirmation('{"amount": 5}', **over),
    )
    console.open("inbox?view=closed")
    expect(subjects(console)).to_have_count(2)
    lines = console.page.locator(".line")
    expect(lines.filter(has_text="15 %")).to_contain_text("Expired · reject (default)")
    expect(lines.filter(has_text="may till")).to_contain_text("Expired")
    expect(console.page.locator(".questions")).not_to_contain_text("Answered")
    expect(console.page.locator(".questions")).not_to_contain_text("nobody")
    lines.filter(has_text="15 %").locator("a").click()
    expect(console.page.locator("article")).to_contain_text("Default: reject")
    picture(console, "expired", tmp_path)


def test_each_outcome_of_a_session_has_a_label_of_its_own(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    no = {"type": "refusal", "refusal": "I must not."}
    refusal = {"type": "message", "role": "assistant", "content": [no]}
    play = Play(
        say("Here you are."),
        [refusal],
        transfer("travel", reason="a seat"),
        call("book", seat="seven"),
        say("The seat could not be booked."),
        transfer("desk", reason="orders"),
    )
    console = open_console(graph_team(play))
    console.run("hello", "finished")
    console.run("hello", "refused")
    console.run("hello", "faulty")
    console.api("POST", "/runs", {"input": "x", "session_id": "over", "max_turns": 1})
    console.open("sessions")
    rows = console.page.locator(".session-row")
    expect(rows.filter(has_text="finished")).to_contain_text("✓ Finished")
    expect(rows.filter(has_text="refused")).to_contain_text("✕ Refused")
    expect(rows.filter(has_text="faulty")).to_contain_text("✕ With errors")
    expect(rows.filter(has_text="over")).to_contain_text("✕ Out of budget")
    expect(console.page.locator(".session-row .badge", has_text="Idle")).to_have_count(0)
    picture(console, "sessions", tmp_path)
    console.page.get_by_label("Conclusion").select_option("With errors")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("faulty")
    console.open("sessions/finished/graph")
    expect(console.page.locator("main")).to_contain_text("✓ Finished")


def test_a_rolled_back_handoff_shows_its_error_and_its_audit_records(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    play = Play(
        transfer("travel", reason="a trip to Kyoto"),
        call("book", seat=7),
        fail(ConnectionError("the airline is down")),
        say("Nothing was booked."),
    )
    console = open_console(graph_team(play))
    console.run("a trip, please", "s1")
    console.open("sessions/s1")
    undone = entries(console).filter(has_text="the airline is down")
    expect(undone).to_have_class(re.compile("undone"))
    struck = "(node) => getComputedStyle(node).textDecorationLine"
    assert undone.locator("> p").first.evaluate(struck) == "line-through"
    assert undone.locator(".problem").evaluate(struck) == "none"
    expect(undone.locator(".problem")).to_contain_text("the airline is down")
    expect(console.page.locator(".entry.tool.undone")).not_to_contain_text("✓")
    picture(console, "undone", tmp_path)

    console.open("audit")
    expect(console.page.locator(".records")).to_contain_text("rolled back seat-7")
    expect(console.page.locator(".records")).not_to_contain_text("null")
    picture(console, "audit", tmp_path)


def test_a_refused_handoff_shows_a_reason_and_no_duration(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    model = ScriptedModel([transfer("sql", reason="a query"), say("I do it myself.")])
    sql: Agent[Any] = Agent("sql", model=model, capabilities=(Capability(name="csv"),))
    triage = Agent("triage", model=model, handoffs=[handoff(sql, capabilities=["sql"])])
    console = open_console(Team(triage, sql))
    console.run("how many?", "s1")
    console.open("sessions/s1/graph")
    console.page.locator(".arrow.bad").first.press("Enter")
    panel = console.page.locator("main")
    expect(panel).to_contain_text("✕ Refused")
    expect(panel).to_contain_text("agent 'sql' lacks sql")
    expect(console.role("region", "As a list")).to_contain_text("agent 'sql' lacks sql")
    expect(panel).not_to_contain_text("0.00 ms")
    picture(console, "refused", tmp_path)

    console.open("sessions/s1/trace")
    row = span(console, "triage → sql", "handoff")
    expect(row).to_contain_text("refused")
    expect(row).not_to_contain_text("0.00 ms")
    main = console.page.locator("main")
    expect(main.locator(".problems")).to_contain_text("agent 'sql' lacks sql")
    expect(main).not_to_contain_text("details are left out")
    picture(console, "trace-refused", tmp_path)


def test_the_bars_of_the_waterfall_are_proportional_to_duration(open_console: OpenConsole) -> None:
    console = open_console(session_team())
    console.run("a lookup", "s1")
    console.open("sessions/s1/trace")
    bar = console.page.locator(".bar.session").first
    expect(bar).to_be_visible()
    widths = "(node) => [node.offsetWidth, node.parentElement.offsetWidth]"
    own, lane = bar.evaluate(widths)
    assert own == pytest.approx(lane, rel=0.02)


def test_a_bulk_approval_shows_arguments_and_their_sum(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    console = open_console()
    given = [("1042", 129.9, "EUR"), ("1043", 20, "EUR"), ("1044", 5, "USD")]
    post(
        tmp_path,
        *(
            confirmation(
                f'{{"order": "{order}", "amount": {amount}, "currency": "{currency}"}}',
                subject=f"Refund {amount} {currency}",
            )
            for order, amount, currency in given
        ),
    )
    console.open("inbox")
    console.page.get_by_text("Select all 3").click()
    console.role("group", "For all selected questions").get_by_text("Approve").click()
    dialog = console.page.get_by_role("dialog")
    for order, amount, currency in given:
        one = dialog.locator("li", has_text=f"Refund {amount} {currency}")
        expect(one).to_contain_text(f"order{order}")
        expect(one).to_contain_text(f"amount{amount}")
    expect(dialog).to_contain_text("Sum of amount: 149.90 EUR + 5 USD")
    expect(dialog).not_to_contain_text("Sum of order")
    assert console.serious() == []
    picture(console, "several", tmp_path)


@function_tool(confirmation=Approval(title="Refund {amount} {currency}"))
def refund(amount: float, currency: str) -> str:
    """Pay money back."""
    return f"{amount} {currency} paid"


def test_the_title_of_an_approval_names_the_arguments(
    open_console: OpenConsole, tmp_path: Path
) -> None:
    model = ScriptedModel([call("refund", amount=129.9, currency="EUR"), say("Paid.")])
    console = open_console(Team(Agent("till", model=model, tools=[refund])))
    console.run("pay it back", "s1")
    console.open("inbox")
    expect(subjects(console)).to_have_text("Refund 129.9 EUR")
    picture(console, "title", tmp_path)
