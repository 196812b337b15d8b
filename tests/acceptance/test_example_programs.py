"""The programs of the page `docs/examples.md`, run as their first lines say; LangGraph's is run in
`tests/frameworks`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.acceptance.conftest import Ekiden
from tests.support import forked
from tests.support.forked import ForkedPopen
from tests.support.temporal import DevServer, client_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(ekiden: Ekiden, name: str, *arguments: str, typed: str = "") -> str:
    """What the program prints."""
    done = forked.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=ekiden.folder,
        env={**ekiden.env, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"},
        input=typed,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.mark.parametrize(
    ("choice", "end"),
    [
        ("approve", "30 euros for order 1042 are on their way.\nuser → triage → billing\n"),
        ("reject", "do not just repeat it.\nuser → triage → billing\n"),
    ],
)
def test_the_support_desk_asks_before_a_refund(ekiden: Ekiden, choice: str, end: str) -> None:
    printed = run(ekiden, "support_desk.py", typed=f"{choice}\n")
    assert printed.startswith('may billing run refund? {"order_id":"1042","euros":30}\n')
    assert printed.endswith(end)


def test_the_support_desk_without_a_terminal_prints_how_to_answer(ekiden: Ekiden) -> None:
    with pytest.raises(AssertionError, match=r"no terminal to ask at; answer with: ekiden inbox"):
        run(ekiden, "support_desk.py")


def test_the_research_team_merges_two_results(ekiden: Ekiden) -> None:
    for _ in range(2):  # The second time it only shows what is stored.
        printed = run(ekiden, "research_team.py").splitlines()
        assert sorted(printed[:2]) == [
            "figures: Sales grew by 12 % in a year.",
            "papers: Three studies report an efficiency of 3 to 4.",
        ]
        assert printed[-1] == "Heat pumps are efficient (3 to 4), and sales grow by 12 % a year."


def test_the_coding_agents_hand_off_until_the_test_passes(ekiden: Ekiden) -> None:
    printed = run(ekiden, "coding_agents.py").splitlines()
    assert printed[:3] == ["test: AssertionError", "test: passed", "leap.py passes its test."]


def test_the_travel_desk_rolls_back_the_seat(ekiden: Ekiden) -> None:
    assert run(ekiden, "booking.py").endswith("the hotel does not answer). You pay nothing.\n")
    booked, cancelled = (ekiden.folder / "bookings.txt").read_text().splitlines()
    assert booked.startswith("4B booked ")
    assert cancelled.startswith("4B cancelled ")


def test_the_negotiation_ends_in_a_handoff(ekiden: Ekiden) -> None:
    assert run(ekiden, "contract_negotiation.py").splitlines() == [
        "best bid: mill {'days': 3, 'price': 120}",
        "buyer proposes: {'task': '100 kg of flour', 'days': 3, 'price': 100}",
        "seller proposes: {'task': '100 kg of flour', 'days': 3, 'price': 110}",
        "phase: agreement",
        "phase: completion, the handoff is completed",
    ]


def test_the_phone_agent_hands_off_the_caller(ekiden: Ekiden) -> None:
    assert run(ekiden, "phone_agent.py").splitlines() == [
        "caller: Where is my order 1042?",
        "reception hands to orders",
        "orders calls lookup_order: order 1042 arrives tomorrow",
        "orders: It arrives tomorrow.",
        "stored: the session is with orders",
    ]


@pytest.mark.slow
def test_the_example_server_has_a_console_and_sessions(ekiden: Ekiden) -> None:
    with ForkedPopen(
        [sys.executable, str(EXAMPLES / "console_server.py"), "--port", "0", "--json"],
        cwd=ekiden.folder,
        env={**ekiden.env, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url, timeout=60) as client:
                start = client.get("/").text
                sessions = client.get("/api/v1/sessions").json()["items"]
                inbox = client.get("/api/v1/inbox").json()["items"]
        finally:
            process.terminate()
        assert process.wait(timeout=60) == 0
    assert "<script" in start
    assert {each["session_id"]: each["outcome"] for each in sessions} == {
        "delivery-1042": "done",
        "refund-1043": "waiting",
        "courier-1044": "done",
    }
    assert [item["subject"] for item in inbox] == ["may billing run refund?"]


@pytest.mark.slow
def test_workers_share_the_sessions_of_a_database(ekiden: Ekiden, postgres_url: str) -> None:
    printed = run(ekiden, "postgres_workers.py", postgres_url).splitlines()
    pictures = [f"done - picture {number}, painted by process" for number in range(8)]
    assert [line.rpartition(" ")[0] for line in printed] == pictures


@pytest.mark.slow
async def test_temporal_runs_a_session(ekiden: Ekiden, temporal_server: DevServer) -> None:
    await client_of(temporal_server)
    printed = await asyncio.to_thread(run, ekiden, "temporal_desk.py", temporal_server.address)
    assert printed == "done - order 1042 arrives tomorrow\n"
