"""The programs in `examples/`, run as their first lines say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from asyncio import to_thread
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from ekiden.testing.servers.openai import OpenAIServer
from tests.acceptance.conftest import Ekiden
from tests.support import forked
from tests.support.forked import ForkedPopen

EXAMPLES = Path(__file__).parents[2] / "examples"


Start: TypeAlias = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(ekiden: Ekiden) -> Iterator[Start]:
    """Starts an example in a folder of its own; none of them outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin(name: str) -> subprocess.Popen[str]:
        process = ForkedPopen(
            [sys.executable, str(EXAMPLES / name)],
            cwd=ekiden.folder,
            env={**ekiden.env, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def asked(process: subprocess.Popen[str]) -> list[str]:
    """What the example says is to be typed in another terminal, without the command itself."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().startswith("ekiden inbox answer"):
            return line.split()[1:]
    raise AssertionError(process.communicate())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "offer"),
    [
        ("approve", "Offer for 青木商店: 1020 (15 % off, granted by mira)\n"),
        ("reject", "Offer for 青木商店: 1200 (list price)\n"),
    ],
)
def test_the_operator_answers_from_another_terminal_and_pm_finishes(
    ekiden: Ekiden, start: Start, choice: str, offer: str
) -> None:
    process = start("offer.py")
    command = [choice if word == "approve" else word for word in asked(process)]
    answered = ekiden(*command, "--by", "mira")
    assert answered.code == 0, answered.err
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, offer, "")


def test_the_offer_resumes_after_its_program_was_killed(ekiden: Ekiden, start: Start) -> None:
    process = start("offer.py")
    command = asked(process)
    process.kill()
    process.communicate(timeout=60)
    assert ekiden(*command, "--by", "mira").code == 0
    out, err = start("offer.py").communicate(timeout=60)
    assert out == (
        "going on where it was left\nOffer for 青木商店: 1020 (15 % off, granted by mira)\n"
    )
    assert err == ""


def ask_the_desk(ekiden: Ekiden, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The travel desk, to its end."""
    return forked.run(
        [sys.executable, str(EXAMPLES / "travel_desk.py"), *arguments],
        cwd=ekiden.folder,
        env={**ekiden.env, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        (
            "Is it warm in Kyoto, and what are 100 euros in yen?",
            [
                "## Weather\n\nKyoto, today: cloudy, 12 to 21 °C.",
                "## Finance\n\n100.00 EUR are 16,304.35 JPY.",
            ],
        ),
        (
            "东京天气怎么样，100美元是多少日元？",
            [
                "## Weather\n\n东京（今天）：晴，14到22度。",
                "## Finance\n\n100.00 USD = 15,000.00 JPY。",
            ],
        ),
        (
            "京都の天気を教えて。それから大阪のホテルを探して",
            [
                "## Weather\n\n京都（今日）はくもり、12〜21度です。",
                "## Travel\n\n大阪のホテル：Dotonbori Stay, 8,900 yen。",
            ],
        ),
        (
            "Check the weather in Tokyo tomorrow, then find a hotel there. What is 3.5 * 4?",
            [
                "## Weather\n\nTokyo, tomorrow: cloudy, 13 to 19 °C.",
                "## Travel\n\nHotels in Tokyo: Sumida House, 14,000 yen, Hotel Kanda, 9,800 yen.",
                "## General\n\n3.5 * 4 = 14",
            ],
        ),
        ("Trains from Tokyo to Osaka?", ["Trains from Tokyo to Osaka: 07:30 - 09:57"]),
        ("What does KAZE cost?", ["KAZE: 1830.5"]),
        ("How many days between 2030-01-01 and 2030-03-01?", ["59"]),
    ],
)
def test_the_travel_desk_answers_without_a_model(
    ekiden: Ekiden, request_: str, parts: list[str]
) -> None:
    done = ask_the_desk(ekiden, request_)
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in parts), done.stdout
    assert done.stdout.count("## ") == (len(parts) if len(parts) > 1 else 0)


def test_the_travel_desk_reports_missing_details_and_invents_no_answer(ekiden: Ekiden) -> None:
    partly = ask_the_desk(ekiden, "What is the weather in Atlantis, and what is 12 * 7?")
    assert (partly.returncode, partly.stdout.partition("\n\n## Missing\n\n")[0]) == (
        0,
        "## General\n\n12 * 7 = 84",
    )
    assert "- What is the weather in Atlantis (Weather): say which city" in partly.stdout
    nothing = ask_the_desk(ekiden, "the weather in Atlantis")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no answer:" in nothing.stderr


def test_the_plan_of_the_travel_desk_is_shown(ekiden: Ekiden) -> None:
    (ekiden.folder / "travel_desk.py").write_bytes((EXAMPLES / "travel_desk.py").read_bytes())
    planned = ekiden("plan", "--team", "travel_desk:team", "--json", "京都天气，然后订酒店")
    assert planned.code == 0, planned.err
    assert [(task["agent"], task["depends_on"]) for task in planned.json["tasks"]] == [
        ("weather", []),
        ("travel", ["t1"]),
    ]


@pytest.mark.slow
async def test_the_travel_desk_works_with_a_model(ekiden: Ekiden) -> None:
    tasks = [
        {"id": "t1", "agent": "weather", "description": "Kyoto today"},
        {"id": "t2", "agent": "finance", "description": "100 EUR in JPY"},
    ]
    steps = [json.dumps({"tasks": tasks}), "a part", "a part", "Both parts."]
    async with OpenAIServer(steps) as server:
        ekiden.env.update(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="any")
        done = await to_thread(ask_the_desk, ekiden, "--model", "openai:test", "Kyoto and money?")
    assert (done.returncode, done.stdout) == (0, "Both parts.\n"), done.stderr


@pytest.fixture
def server(ekiden: Ekiden) -> Iterator[str]:
    """The served desk, behind a socket; gives its address."""
    command = [sys.executable, "-m", "ekiden.cli", "serve", "--port", "0", "--json"]
    command += ["--team", "served_desk:team", "--store", "served.db", "--log", "none"]
    path = os.pathsep.join([str(EXAMPLES), *sys.path])
    with ForkedPopen(
        [*command, "--token-file", "served.token"],
        cwd=ekiden.folder,
        env={**ekiden.env, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("choice", "end"),
    [
        ("approve", "done: Order 1042 is paid back.\n"),
        ("reject", "done: Order 1042 is not paid back.\n"),
    ],
)
def test_a_client_of_the_served_desk_is_asked_before_a_refund(
    ekiden: Ekiden, server: str, choice: str, end: str
) -> None:
    done = forked.run(
        [sys.executable, str(EXAMPLES / "served_desk.py"), "--server", server, "Refund 1042"],
        cwd=ekiden.folder,
        env={
            **ekiden.env,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "EKIDEN_API_KEY_FILE": "served.token",
        },
        input=f"{choice}\n",
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "   4 handoff reception\n" in done.stdout
    assert 'may desk run refund? {"order_id":"1042"} (approve/reject): ' in done.stdout
    assert done.stdout.endswith(end)
