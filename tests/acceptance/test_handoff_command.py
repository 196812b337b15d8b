"""`ekiden handoff …`, as processes that work on the same sessions."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden, Ran

SHOP = """
import asyncio, sys
from pathlib import Path
from ekiden import Agent, Team, handoff
from ekiden.handoff import keep_last, person

async def door(ctx):
    if "pass on" in ctx.text and not Path("alone").exists():
        return ctx.hand_off("sleeper", reason="he knows")
    return f"door heard: {ctx.text}"

async def sleep(ctx):
    print("arrived", file=sys.stderr, flush=True)
    await asyncio.Event().wait()

async def clerk(ctx):
    return f"the clerk sees {len(ctx.items)}: 您好 👋"

async def fall(ctx):
    raise ValueError("the shelf fell down")

clerk = Agent("clerk", run=clerk)
sleeper = Agent("sleeper", run=sleep, handoffs=[clerk])
door = Agent("door", run=door, handoffs=[
    handoff(clerk, input_filter=keep_last(1)),
    sleeper,
    Agent("closed", run=fall, available=False),
    Agent("broken", run=fall),
    handoff(person("support"), tool_name_override="ask_people"),
])
team = Team(door, Agent("stranger", run=fall))
"""
TEAM = ("--team", "shop:team")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shop, and with an idle session that the door has."""
    ekiden = Ekiden(tmp_path_factory.mktemp("shop"))
    ekiden.write("shop.py", SHOP)
    assert ekiden("run", "--session", "s", *TEAM, "hello").out == "door heard: hello\n"
    return ekiden.folder


@pytest.fixture
def shop(ekiden: Ekiden, stored: Path) -> Ekiden:
    """The command, in a copy of that folder."""
    shutil.copytree(stored, ekiden.folder, dirs_exist_ok=True)
    return ekiden


def hand(ekiden: Ekiden, to: str, *options: str, session: str = "s") -> Ran:
    """Hand the session over."""
    return ekiden("handoff", "start", session, "--to", to, *TEAM, "--json", *options)


def handoffs(ekiden: Ekiden, session: str = "s") -> list[tuple[str, str, str]]:
    """The handoffs of a session with their ends, in order."""
    listed = ekiden("handoff", "list", "--session", session, "--json").json
    return [(each["id"], each["status"], each.get("code", "")) for each in reversed(listed)]


@contextmanager
def asleep(ekiden: Ekiden, message: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs the session `busy`, and whose agent never ends what it does."""
    process = ekiden.start("run", "--session", "busy", *TEAM, message)
    assert process.stderr is not None
    try:
        assert any(line == "arrived\n" for line in process.stderr)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_handoff_start_moves_an_idle_session_and_the_target_answers(shop: Ekiden) -> None:
    ran = shop("handoff", "start", "s", "--to", "clerk", "--reason", "她问", "--by", "安娜", *TEAM)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "s.h1: door → clerk completed\nclerk: the clerk sees 1: 您好 👋\n"
    shown = shop("handoff", "show", "s.h1").out
    assert "by: person 安娜\n" in shown
    assert "reason: 她问\n" in shown
    assert "view: 2 items of 22 characters became 1 of 17: 1 kept, 1 dropped\n" in shown
    assert shop("chain", "s").out.splitlines()[0] == "s: user → door → clerk"


def test_a_refused_handoff_has_a_code_and_advice(shop: Ekiden) -> None:
    expected = {
        "klerk": (5, "AGENT_NOT_FOUND", "did you mean 'clerk'?"),
        "stranger": (1, "PERMISSION_DENIED", "add it to the `handoffs` of 'door'"),
        "closed": (1, "AGENT_UNAVAILABLE", "choose another agent"),
        "broken": (1, "TARGET_FAILED", "the shelf fell down"),
    }
    for to, (code, refusal, way_out) in expected.items():
        ran = hand(shop, to)
        assert (ran.code, ran.error["refusal"]) == (code, refusal)
        assert way_out in ran.error["message"]
        assert to == "klerk" or ran.json["agent"] == "door"
        assert len(ran.err.splitlines()) == 1
    assert [status for _, status, _ in handoffs(shop)] == ["failed"] * 3 + ["rolled_back"]
    assert shop("audit", "verify", "--json").json["ok"] is True


def test_a_running_session_is_handed_off_immediately(shop: Ekiden) -> None:
    with asleep(shop, "pass on") as process:
        # The sleeper never took over, so the handoff to it is still open.
        ran = hand(shop, "clerk", "--policy", "immediate", session="busy")
        assert (ran.code, ran.json["status"], ran.json["source"]) == (0, "completed", "sleeper")
        assert json.loads(ran.err.splitlines()[0])["waiting"]["session_id"] == "busy"
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "the clerk sees 3: 您好 👋\n")
    assert [status for _, status, _ in handoffs(shop, "busy")] == ["completed"] * 2


@pytest.mark.slow
def test_a_graceful_handoff_waits_for_the_step_and_times_out(shop: Ekiden) -> None:
    with asleep(shop, "@sleeper hello"):
        ran = hand(shop, "clerk", "--timeout", "0.3", session="busy")
        assert (ran.code, ran.json["status"]) == (1, "failed")
        assert (ran.error["code"], ran.error["refusal"]) == ("handoff.refused", "TIMEOUT")
        late = (ran.json["id"], "failed", "TIMEOUT")
        assert handoffs(shop, "busy") == [late]
        made = hand(shop, "clerk", "--policy", "immediate", session="busy")
        assert made.code == 0
    assert handoffs(shop, "busy") == [late, (made.json["id"], "completed", "")]


@pytest.mark.slow
def test_ctrl_c_prints_how_to_cancel_the_requested_handoff(shop: Ekiden) -> None:
    with asleep(shop, "@sleeper hello"):
        asking = shop.start("handoff", "start", "busy", "--to", "clerk", *TEAM)
        assert asking.stderr is not None
        assert asking.stderr.readline().startswith("session busy is being run by ")
        while not shop("handoff", "list", "--status", "initiated", "--json").json:
            assert asking.poll() is None
        asking.send_signal(signal.SIGINT)
        _, err = asking.communicate(timeout=60)
        assert asking.returncode == 130
        said, _, hint = err.strip().rpartition(": ")
        assert said == (
            "error[cli.interrupted]: stopped; the handoff request is still open, withdraw it with"
        )
        withdrawn = shop(*hint.split()[1:], *TEAM)
        assert (withdrawn.code, withdrawn.out.split()[-1]) == (0, "failed")
        assert shop("handoff", "list", "--status", "initiated").out == "no handoffs\n"


@pytest.mark.slow
def test_an_unconfirmed_handoff_is_cancelled_in_the_running_process(
    shop: Ekiden,
) -> None:
    with asleep(shop, "pass on") as process:
        shop.write("alone", "")
        ran = shop("handoff", "cancel", "busy.h1", "--reason", "he sleeps", *TEAM)
        assert (ran.code, ran.out) == (0, "busy.h1: door → sleeper rolled_back\n")
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "door heard: pass on\n")
    assert "error: he sleeps\n" in shop("handoff", "show", "busy.h1").out
    settled = shop("handoff", "cancel", "busy.h1", *TEAM)
    assert settled.code == 0


def test_a_person_answers_a_session_handed_off_to_people(shop: Ekiden) -> None:
    asked = shop("handoff", "start", "s", "--to", "person:support", *TEAM)
    assert (asked.code, asked.err) == (
        0,
        "the session waits for people: ekiden handoff answer s TEXT\n",
    )
    answered = shop("handoff", "answer", "s", "-", "--by", "bo", *TEAM, input="再见 👋\n".encode())
    assert (answered.code, answered.out) == (0, "再见 👋\n")
    assert shop("session", "show", "s").out.endswith("person:support: 再见 👋\n")
    again = shop("handoff", "answer", "s", "more", *TEAM, "--json")
    assert (again.code, again.error["code"]) == (1, "session.not_waiting")


@pytest.mark.slow
def test_a_person_returns_the_session_with_an_answer(shop: Ekiden) -> None:
    hand(shop, "person:support")
    ran = shop("handoff", "answer", "s", "tell her", "--back", "--by", "bo", *TEAM)
    assert (ran.code, ran.out) == (0, "door heard: hello\n")
    assert ran.err == "[s] user → door → person:support → door\n"
    assert [status for _, status, _ in handoffs(shop)] == ["completed"] * 2


@pytest.mark.slow
def test_handoffs_of_an_agent_are_listed_in_pages(shop: Ekiden) -> None:
    for to in ("closed", "clerk"):
        hand(shop, to)
    first = shop("handoff", "list", "--agent", "door", "--limit", "1", "--json")
    cursor = json.loads(first.err)["next_cursor"]
    second = shop(
        "handoff", "list", "--agent", "door", "--limit", "1", "--cursor", cursor, "--json"
    )
    assert [each["id"] for each in first.json + second.json] == ["s.h2", "s.h1"]
    assert second.err == ""
    header, row = shop("handoff", "list", "--agent", "closed", "--since", "1h").out.splitlines()
    assert header.split() == ["handoff", "time", "from", "to", "status", "by", "policy", "why"]
    assert row.split()[0] == "s.h1"


@pytest.mark.slow
def test_an_unknown_session_or_handoff_exits_with_5(shop: Ekiden) -> None:
    for command in (("start", "none", "--to", "clerk", *TEAM), ("show", "none.h1")):
        ran = shop("handoff", *command, "--json")
        assert ran.code == 5
        assert ran.error["code"].endswith("not_found")
