"""Messages and collaborations by command, at a server whose agents take part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Capability, Team
from ekiden.cli.main import main
from ekiden.runtime import CodeContext
from tests.support.server_thread import server_in_thread


async def work(ctx: CodeContext[Any]) -> str:
    return f"done: {ctx.text}"


def office() -> Team:
    skill = Capability(name="refunds", proficiency=0.8)
    billing = Agent("billing", run=work, capabilities=(skill,))
    cook = Agent("cook", run=work, capabilities=(Capability(name="cooking"),))
    return Team(Agent("triage", run=work, handoffs=[billing, cook]))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("office")
    with server_in_thread(folder, store=str(folder / "s.db"), team=office()) as address:
        yield address


@pytest.fixture
def told(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    capsys.readouterr()

    def run(*words: str) -> Any:
        assert main([*words, "--json", "--server", url]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def until(told: Callable[..., Any], collaboration: str, is_so: Callable[[Any], bool]) -> Any:
    for _ in range(600):
        found = told("collaboration", "show", collaboration)
        if is_so(found):
            return found
    raise AssertionError(collaboration)


def test_a_call_for_bids_is_bid_for_awarded_and_executed(told: Callable[..., Any]) -> None:
    called = told("collaboration", "call", "refunds", "--as", "triage", "--task", "Refund 7")
    found = until(told, called["id"], lambda each: len(each["declined"]) + len(each["bids"]) == 2)
    assert [(bid["agent"], bid["score"]) for bid in found["bids"]] == [("billing", 0.8)]
    assert found["declined"] == ["cook"]
    told("collaboration", "award", called["id"], "--as", "triage", "--bidder", "billing")
    done = until(told, called["id"], lambda each: each["outcome"] is not None)
    assert (done["phase"], done["outcome"]["status"]) == ("completion", "completed")
    assert called["id"] in [each["id"] for each in told("collaboration", "list")]


def test_people_can_make_moves_for_an_agent(told: Callable[..., Any]) -> None:
    offer = told("collaboration", "propose", "billing", '{"days": 2}', "--as", "triage")
    assert offer["terms"]["body"] == {"days": 2}
    other = told(
        "collaboration", "counter", offer["id"], '{"days": 5}', "--as", "billing", "--version", "1"
    )
    assert (other["terms"]["version"], other["terms"]["body"]) == (2, {"days": 5})
    gone = told("collaboration", "cancel", offer["id"], "--as", "triage", "--reason", "no")
    assert gone["outcome"]["reason"] == "no"


def test_messages_are_sent_to_agents_with_and_without_an_answer(
    told: Callable[..., Any], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = told("message", "send", "billing", "Is 1042 paid?", "--subject", "paid")
    assert sent["state"] == "answered"
    assert sent["answer"].startswith("done: ")
    assert told("message", "show", sent["message"]["id"]) == sent
    assert sent["message"]["id"] in [
        each["message"]["id"] for each in told("message", "list", "--agent", "billing")
    ]
    assert main(["message", "send", "billing", "hi", "--server", url]) == 0
    assert capsys.readouterr().out.startswith("done: ")
    assert main(["message", "send", "ghost", "hi", "--server", url]) == 5


def test_invalid_input_is_refused_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["collaboration", "request", "orders", "x", "--as", "triage", "--store", "s.db"]
    assert main([*words, "--context", "[1]"]) == 2
    assert "--context must be a JSON object" in capsys.readouterr().err
    assert not (tmp_path / "s.db").exists()
    assert main(["message", "send", "orders", "hi", "--wait", "0", "--store", "s.db"]) == 4
    assert "no answer yet" in capsys.readouterr().err
