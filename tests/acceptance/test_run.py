"""`ekiden run` and `ekiden session resume`."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence

import pytest

from tests.acceptance.conftest import Ekiden

ORDER = "Where is my order 1042?"
ANSWER = "Order 1042 is shipped with Yamato, expected 2026-11-18.\n"

SLOW_TEAM = """
import asyncio, sys
from pathlib import Path
from ekiden import Agent

async def pass_on(ctx):
    return ctx.hand_off("clerk", reason="he knows")

async def answer(ctx):
    if not Path("open").exists():
        print("arrived", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    return "we are open"

clerk = Agent("clerk", run=answer)
team = Agent("door", run=pass_on, handoffs=[clerk])
"""

BROKEN_TEAM = """
from ekiden import Agent

async def answer(ctx):
    raise ValueError("the shelf fell down")

team = Agent("clerk", run=answer)
"""

OBJECT_TEAM = """
from dataclasses import dataclass
from datetime import date
from ekiden import Agent

@dataclass
class Parcel:
    due: date
    marks: set

async def answer(ctx):
    return Parcel(date(2026, 11, 18), {b"x"})

team = Agent("clerk", run=answer)
"""


def test_a_request_is_handed_off_and_answered(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--session", "s1", ORDER)
    assert (ran.code, ran.out) == (0, ANSWER)
    assert ran.err == "[s1] user → triage → orders\n"
    assert (ekiden.folder / ".ekiden" / "ekiden.db").exists()


@pytest.mark.slow
def test_a_new_session_can_have_a_priority(ekiden: Ekiden) -> None:
    assert ekiden("run", "--session", "s1", "--priority", "high", ORDER).code == 0
    assert ekiden("session", "show", "--json", "s1").json["priority"] == 3
    assert "priority: high" in ekiden("session", "show", "s1").out
    refused = ekiden("run", "--session", "s2", "--priority", "soon", ORDER)
    assert refused.code == 2
    assert "urgent" in refused.err


def test_json_output_has_the_documented_fields(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--json", "--session", "s1", ORDER)
    assert ran.code == 0
    assert ran.err == ""
    assert ran.json == {
        "session_id": "s1",
        "agent": "orders",
        "output": ANSWER.rstrip(),
        "outcome": "done",
        "conclusion": "succeeded",
        "chain": ["user", "triage", "orders"],
        "handoffs": ["s1.h1"],
        "usage": {},
    }


@pytest.mark.slow
def test_the_agent_that_holds_the_session_gets_the_next_message(ekiden: Ekiden) -> None:
    first = ekiden("run", "--json", "My parcel is late").json
    again = ekiden("run", "--json", "--session", first["session_id"], "1043").json
    assert again["chain"] == ["user", "orders"]
    assert again["output"].startswith("Order 1043 is packing")


def test_chinese_and_emoji_are_preserved(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--session", "s1", "我的订单1043在哪里？📦")
    assert ran.out == "订单 1043 正在打包，Sagawa 承运，预计 2026-11-20。\n"
    shown = ekiden("session", "show", "s1", LANG="C", LC_ALL="C")
    assert "user: 我的订单1043在哪里？📦\n" in shown.out


@pytest.mark.slow
def test_the_text_can_be_read_from_standard_input(ekiden: Ekiden) -> None:
    ran = ekiden("run", "-", "--json", input=f"{ORDER}\n".encode())
    assert ran.json["output"] == ANSWER.rstrip()


@pytest.mark.slow
def test_a_text_may_begin_with_a_dash(ekiden: Ekiden) -> None:
    assert ekiden("run", "--", "-1042-").out == ANSWER


@pytest.mark.parametrize("arguments", [["-"], [b"caf\xe9"]])
def test_undecodable_input_is_refused(ekiden: Ekiden, arguments: list[str | bytes]) -> None:
    ran = ekiden("run", *arguments, input=b"caf\xe9")
    assert ran.code == 2
    assert ran.err.startswith("error[cli.bad_input]: ")
    assert "is not UTF-8; convert it first" in ran.err
    assert not (ekiden.folder / ".ekiden").exists()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_refused(ekiden: Ekiden, text: str) -> None:
    assert ekiden("run", text).code == 2
    assert ekiden("run", "-", input=text.encode()).code == 2


@pytest.mark.slow
def test_an_invalid_session_id_is_refused(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--session", "../etc", "hi")
    assert (ran.code, "is not a valid id" in ran.err) == (2, True)


def test_a_stream_prints_events(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--stream", "--session", "s1", ORDER)
    assert ran.out == ANSWER
    assert "handoff: triage → orders: a question about an order\n" in ran.err
    assert 'orders: lookup_order(order_id="1042")\n' in ran.err


@pytest.mark.slow
def test_a_stream_of_json_ends_with_the_result(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--stream", "--json", ORDER)
    *events, last = [json.loads(line) for line in ran.out.splitlines()]
    assert {each["event"]["event_type"] for each in events} >= {"message", "handoff", "tool_call"}
    assert last["result"]["outcome"] == "done"


def test_a_run_that_exceeds_max_turns_is_stored_and_resumed(ekiden: Ekiden) -> None:
    stopped = ekiden("run", "--session", "s1", "--max-turns", "1", ORDER)
    assert stopped.code == 3
    assert stopped.out == ""
    assert "error[run.out_of_budget]: " in stopped.err
    assert stopped.err.endswith("continue with: ekiden session resume s1\n")
    resumed = ekiden("session", "resume", "s1", "--max-turns", "5")
    assert (resumed.code, resumed.out) == (0, ANSWER)


@pytest.mark.slow
def test_a_finished_session_cannot_be_resumed(ekiden: Ekiden) -> None:
    ekiden("run", "--session", "s1", ORDER)
    ran = ekiden("session", "resume", "s1")
    assert (ran.code, "nothing to resume" in ran.err) == (2, True)


def test_a_team_defined_in_the_folder_is_found(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", SLOW_TEAM)
    ekiden.write("open", "")
    ran = ekiden("run", "--json", "--team", "shop:team", "hello")
    assert (ran.code, ran.json["output"]) == (0, "we are open")


@pytest.mark.slow
def test_a_failing_team_exits_with_1_and_its_failure_is_stored(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", BROKEN_TEAM)
    ran = ekiden("run", "--json", "--session", "s1", "--team", "shop:team", "hello")
    assert ran.code == 1
    assert ran.json["outcome"] == "failed"
    assert ran.error["message"].startswith("ValueError: the shelf fell down; continue with: ")
    assert "--team shop:team" in ran.error["message"]
    assert "!: ValueError: the shelf fell down" in ekiden("session", "show", "s1").out


def test_a_missing_team_exits_with_2(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--team", "nowhere:team", "hello")
    assert (ran.code, "no module 'nowhere'" in ran.err) == (2, True)


@pytest.mark.slow
def test_a_session_of_another_team_exits_with_5(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", BROKEN_TEAM)
    ekiden("run", "--session", "s1", ORDER)
    ran = ekiden("run", "--json", "--session", "s1", "--team", "shop:team", "hello")
    assert (ran.code, ran.error["code"]) == (5, "agent.unknown")


def test_ctrl_c_keeps_the_session_and_prints_how_to_resume(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", SLOW_TEAM)
    process = ekiden.start("run", "--session", "s1", "--team", "shop:team", "hello")
    assert process.stderr is not None
    assert process.stderr.readline() == "arrived\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    hint = "ekiden session resume s1 --team shop:team"
    assert err == f"error[cli.interrupted]: stopped; the session is kept, continue with: {hint}\n"
    ekiden.write("open", "")
    resumed = ekiden(*hint.split()[1:], "--json", "--no-wait")
    assert (resumed.code, resumed.json["output"]) == (0, "we are open")
    assert resumed.json["chain"] == ["user", "door", "clerk"]


@pytest.mark.slow
def test_an_answer_that_is_an_object_is_printed_as_json(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", OBJECT_TEAM)
    ran = ekiden("run", "--json", "--team", "shop:team", "hello")
    assert ran.code == 0
    assert ran.json["output"] == {"due": "2026-11-18", "marks": ["x"]}
    assert ekiden("run", "--team", "shop:team", "hello").out == (
        '{"due":"2026-11-18","marks":["x"]}\n'
    )


@pytest.mark.slow
def test_an_empty_session_id_is_a_usage_error(ekiden: Ekiden) -> None:
    ran = ekiden("run", "--json", "--session", "", "hello")
    assert (ran.code, ran.error["code"]) == (2, "cli.usage")
    assert not list(ekiden.folder.iterdir())


@pytest.mark.slow
def test_a_failing_team_factory_exits_with_2(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", "def team():\n    raise KeyError('SHOP_KEY')\n")
    ran = ekiden("run", "--json", "--team", "shop:team", "hello")
    assert (ran.code, ran.error["code"]) == (2, "user.error")
    assert ran.error["message"] == "shop:team() fails: KeyError: 'SHOP_KEY'"


@pytest.mark.parametrize("command", [("session", "resume", "s1"), ("run", "--session", "s1", "?")])
def test_the_session_of_a_killed_process_is_taken_over_immediately(
    ekiden: Ekiden, command: Sequence[str]
) -> None:
    ekiden.write("shop.py", SLOW_TEAM)
    dead = ekiden.start("run", "--session", "s1", "--team", "shop:team", "hello")
    assert dead.stderr is not None
    assert dead.stderr.readline() == "arrived\n"
    dead.kill()
    dead.communicate(timeout=60)
    ekiden.write("open", "")
    ran = ekiden(*command, "--team", "shop:team", "--no-wait")
    assert (ran.code, ran.out) == (0, "we are open\n")
    assert "waiting" not in ran.err


@pytest.mark.slow
def test_run_reports_that_it_waits_for_a_session_held_by_a_stopped_process(ekiden: Ekiden) -> None:
    ekiden.write("shop.py", SLOW_TEAM)
    holder = ekiden.start("run", "--session", "s1", "--team", "shop:team", "hello")
    assert holder.stderr is not None
    assert holder.stderr.readline() == "arrived\n"
    holder.send_signal(signal.SIGSTOP)
    for command in (["session", "resume", "s1"], ["run", "--session", "s1", "hello"]):
        process = ekiden.start(*command, "--team", "shop:team")
        assert process.stderr is not None
        remark = process.stderr.readline()
        assert remark.startswith("waiting for session s1, held by ")
        assert "at most 30 s" in remark
        process.kill()
        process.communicate(timeout=60)
    holder.kill()
    holder.communicate(timeout=60)
