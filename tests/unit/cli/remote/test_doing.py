"""Commands that do something at a server."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.cli.main import main
from ekiden.client import Client
from tests.support.relay_team import relay_team
from tests.support.server_thread import server_in_thread


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("doing")
    with server_in_thread(folder, store=str(folder / "s.db"), team=relay_team()) as url:
        yield url


class Told:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ekiden(
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[..., Told]:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()

    def run(*words: str) -> Told:
        code = main([*words, "--server", url])
        return Told(code, *capsys.readouterr())

    return run


def test_a_waiting_run_names_its_question_and_how_to_answer(
    ekiden: Callable[..., Told], url: str
) -> None:
    told = ekiden("run", "refund please", "--session", "w1")
    assert told.code == 4
    (item,) = ekiden("inbox", "list", "--session", "w1", "--json").json
    assert f"ekiden inbox answer {item['id']}" in told.err
    assert f"--server {url}" in told.err
    assert f"ekiden session resume w1 --server {url}" in told.err
    assert ekiden("inbox", "assign", item["id"], "ann", "--json").json["assignee"] == "ann"
    told = ekiden("inbox", "snooze", item["id"], "2s")
    assert "hidden until" in told.out, told.err
    told = ekiden("inbox", "answer", item["id"], item["options"][0])
    assert told.out == f"{item['id']} answered: {item['options'][0]}\n"
    again = ekiden("inbox", "answer", item["id"], item["options"][0])
    assert again.code == 1
    assert "error[inbox.closed]" in again.err
    assert ekiden("inbox", "show", "nope").code == 5


def test_ids_can_be_shortened_to_a_unique_prefix(
    ekiden: Callable[..., Told],
) -> None:
    ekiden("run", "refund please", "--session", "w2")
    ekiden("run", "refund please", "--session", "w3")
    (item,) = ekiden("inbox", "list", "--session", "w2", "--json").json
    assert ekiden("inbox", "show", item["id"][:-1], "--json").json["id"] == item["id"]
    assert ekiden("inbox", "show", "inb").code == 2
    told = ekiden("inbox", "answer", item["id"], item["options"][-1], "--identical", "--json")
    assert item["id"] in told.json["answered"]
    assert ekiden("inbox", "cancel", item["id"]).code == 1


def test_edited_arguments_must_be_confirmed(ekiden: Callable[..., Told]) -> None:
    ekiden("run", "refund please", "--session", "w4")
    (item,) = ekiden("inbox", "list", "--session", "w4", "--json").json
    words = ("inbox", "answer", item["id"], item["options"][0], "--arguments", '{"order":"7"}')
    assert ekiden(*words).code == 2
    assert ekiden(*words, "--yes", "--json").json["answer"]["arguments"] == '{"order":"7"}'


def test_a_waiting_command_sees_the_run_continue_after_the_answer(
    ekiden: Callable[..., Told], url: str
) -> None:
    def answer() -> None:
        with Client(url) as client, client.events.subscribe(inbox=True, after="") as live:
            for each in live:
                event = getattr(each, "event", None)
                if event is not None and event.session_id == "w5":
                    item = client.inbox.get(event.details["item"])
                    client.inbox.answer(item.id, item.options[0])
                    return

    person = threading.Thread(target=answer)
    person.start()
    told = ekiden("run", "refund please", "--session", "w5", "--wait")
    person.join(60)
    assert told.code == 0
    assert "1042 is paid back" in told.out  # Answered at once, it may never be seen to wait.


def test_waiting_for_an_answer_ends_at_the_timeout(ekiden: Callable[..., Told]) -> None:
    told = ekiden("run", "refund please", "--session", "w6", "--wait-timeout", "0.05", "--json")
    assert told.code == 4
    assert told.json["waiting_for"][0]["session_id"] == "w6"
    assert "no answer within 0.05 s" in told.err
    assert ekiden("session", "resume", "w6").code in (2, 4)


def test_a_finished_run_cannot_be_resumed(ekiden: Callable[..., Told]) -> None:
    assert ekiden("run", "hi", "--session", "r1").code == 0
    told = ekiden("session", "resume", "r1", "--json")
    assert told.code == 2
    assert "nothing to resume" in told.err


def test_invalid_input_is_reported_as_in_a_local_run(ekiden: Callable[..., Told]) -> None:
    assert ekiden("run", "").code == 2
    assert ekiden("run", "hi", "--session", "").code == 2
    assert ekiden("run", "two", "words").code == 2
    assert ekiden("run", "@nobody hi").code == 5
    assert ekiden("run", "@desk ").code == 2
    ekiden("run", "hi", "--session", "of-ann", "--user", "ann")
    assert "not of 'bob'" in ekiden("run", "hi", "--session", "of-ann", "--user", "bob").err
    assert ekiden("run", "hi", "--session", "of-ann", "--user", "ann").code == 0


def test_sessions_can_be_managed_at_a_server(ekiden: Callable[..., Told], tmp_path: Path) -> None:
    ekiden("run", "hi", "--session", "s1")
    assert ekiden("session", "fork", "s1", "--id", "s2", "--at", "1").code == 0
    assert ekiden("session", "fork", "s1", "--at", "1", "--before", "2").code == 2
    assert "s2 goes on" not in ekiden("session", "fork", "s1", "--id", "s3", "--json").out
    assert "rewound s1 to event 2" in ekiden("session", "rewind", "s1", "--to", "2").out
    assert ekiden("session", "rewind", "s1", "--to", "1", "--json").json["to_seq"] == 1
    file = tmp_path / "s2.json"
    assert ekiden("session", "export", "s2", "-o", str(file)).code == 0
    assert ekiden("session", "export", "s2", "-o", str(file)).code == 2
    told = ekiden("session", "import", str(file), "--id", "s4")
    assert "imported s4" in told.out
    assert ekiden("session", "import", str(file), "--id", "s5", "--json").json["events"] == 1
    assert ekiden("session", "import", str(file), "--user", "").code == 2
    assert ekiden("session", "delete", "s4", "--yes").out == "s4 is deleted\n"
    assert ekiden("session", "delete", "s5", "--yes", "--json").json["deleted"]
    assert ekiden("session", "delete", "s5", "--yes").code == 5
    assert "would be removed" in ekiden("session", "prune", "--keep", "0", "--dry-run").out


def test_state_can_be_changed_at_a_server(ekiden: Callable[..., Told]) -> None:
    ekiden("run", "hi", "--session", "v1")
    version = ekiden("state", "set", "v1", "a=1", "b=x", "--json").json["version"]
    assert ekiden("state", "set", "v1", "a=2", "--expect", str(version - 1)).code != 0
    assert "v1 has version" in ekiden("state", "delete", "--yes", "v1", "a").out
    assert ekiden("state", "set", "--user", "u", "x=1").out == "x has version 1\n"
    assert ekiden("state", "set", "--user", "u", "x=1", "y=2", "--expect", "1").code == 2
    assert ekiden("state", "set", "v1", "a=1", "--by", "me").code == 2
    assert ekiden("state", "set", "v1").code == 2
    assert ekiden("state", "show", "--user", "u", "--at", "1").code == 2


def test_memories_can_be_changed_at_a_server(ekiden: Callable[..., Told], tmp_path: Path) -> None:
    whose = ("--user", "mia")
    assert ekiden("memory", "store", "x", "--key", "k", "--metadata", '{"a":1}', *whose).code == 0
    assert ekiden("memory", "store", "x", "--metadata", "[]", *whose).code == 2
    assert ekiden("memory", "store", "x", "--json", *whose).json["stored"]
    assert ekiden("memory", "list").code == 2
    assert ekiden("memory", "list", "--app", "other", *whose).code == 2
    assert ekiden("memory", "list", "--shared", *whose).code == 2
    assert ekiden("memory", "list", "--shared").out == "there are no memories\n"
    assert ekiden("memory", "search", "zebra", *whose).out == "no memory matches\n"
    assert ekiden("memory", "export", "-o", str(tmp_path / "m.jsonl"), *whose).code == 0
    assert ekiden("memory", "export", "-o", str(tmp_path / "m.jsonl"), *whose).code == 2
    assert ekiden("memory", "forget", "k", "--yes", *whose).out == "k is forgotten\n"
    assert ekiden("memory", "forget", "k", "--yes", "--json", *whose).code == 5
    assert "would forget 1 memories" in ekiden("memory", "clear", *whose).err
    assert ekiden("memory", "clear", "--yes", "--json", *whose).json == {"forgotten": 1}


def test_handoffs_can_be_started_and_cancelled_at_a_server(ekiden: Callable[..., Told]) -> None:
    ekiden("run", "hi", "--session", "h1")
    told = ekiden("handoff", "start", "h1", "--to", "triage", "--reason", "again", "--json")
    assert told.json["session_id"] == "h1"
    assert ekiden("handoff", "start", "h1", "--to", "nobody").code == 5
    assert ekiden("handoff", "start", "h1", "--to", "desk", "--by", "me").code == 2
    told = ekiden("handoff", "cancel", "h1.h1", "--json")
    assert told.code == 1
    assert "handoff.settled" in told.err
    assert ekiden("handoff", "cancel", "nope").code == 5
    told = ekiden("handoff", "answer", "h1", "words", "--max-turns", "1")
    assert told.code != 0
    assert "does not wait for a person" in told.err


def test_the_audit_can_be_exported_and_verified_at_a_server(
    ekiden: Callable[..., Told], tmp_path: Path
) -> None:
    ekiden("run", "hi", "--session", "a1")
    file = tmp_path / "audit.jsonl"
    assert "records to" in ekiden("audit", "export", "-o", str(file)).err
    assert ekiden("audit", "verify", "--against", str(file), "--json").json["compared"] > 0
    assert ekiden("audit", "verify", "--against", str(tmp_path / "nothing")).code == 2


def test_settings_can_be_read_at_a_server(ekiden: Callable[..., Told]) -> None:
    assert ekiden("config", "get", "app").out.strip()
    keys = [each["key"] for each in ekiden("config", "list", "--json").json]
    assert "agents.routing.strategy" in keys
    assert "origin" in ekiden("config", "list").out
    assert "strategy" in ekiden("config", "get", "agents.routing", "--json").json
    assert ekiden("config", "get", "no.such").code == 2
    assert ekiden("mirror", "status").code == 2


def test_workers_can_be_listed_at_a_server(ekiden: Callable[..., Told]) -> None:
    assert set(ekiden("worker", "list", "--json").json) == {"workers", "unserved"}
    assert ekiden("worker", "list").code == 0


def test_keys_can_be_managed_at_a_server(ekiden: Callable[..., Told]) -> None:
    assert ekiden("keys", "list").out == "there are no keys\n"
    assert ekiden("keys", "create", "me").code == 2
    assert ekiden("keys", "revoke", "--yes", "abcdefgh").code != 0


def test_traces_can_be_exported_at_a_server(ekiden: Callable[..., Told], tmp_path: Path) -> None:
    ekiden("run", "hi", "--session", "t1")
    assert json.loads(ekiden("trace", "t1", "--format", "jsonl").out.splitlines()[0])["span_id"]
    assert ekiden("trace", "t1", "--format", "openai", "-o", str(tmp_path / "t")).code == 0
    first = ekiden("trace", "t1", "--format", "events").out.splitlines()[0]
    assert json.loads(first)["event_type"] == "message"
    assert ekiden("trace", "--follow").code == 2
    assert "t1" in ekiden("trace").out


def test_a_match_without_a_capable_agent_exits_with_5(ekiden: Callable[..., Told]) -> None:
    assert ekiden("agents", "match", "refunds").code == 5
    assert ekiden("agents", "match").code == 2
    assert ekiden("agents", "match", "x", "--min-score", "7").code == 2


def test_an_invalid_cost_query_exits_with_2(ekiden: Callable[..., Told]) -> None:
    assert ekiden("cost", "--by", "agent", "--by", "agent").code == 2
    assert ekiden("cost", "--since", "never").code == 2


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_chat_at_a_server_reads_line_by_line(
    ekiden: Callable[..., Told], form: list[str]
) -> None:
    name = f"chat{len(form)}"
    lines = [
        "hello there",
        "/session",
        "/agents",
        "/agents show desk",
        "/agents handoff-chain",
        "/session list",
        "/session show",
        "/help",
        "/model x",
        "/inbox answer",
        "@nobody hi",
        "refund please",
        "/inbox",
        "/session new",
        "/agents handoff-chain",
        f"/session resume {name}",
        "/session resume",
        "/quit",
        "never read",
    ]
    told = _chat(ekiden, lines, "--session", name, *form)
    assert "you said: hello there" in told.out
    both = told.out + told.err
    assert "works only without --server" in both
    assert "agent.unknown" in both
    assert ('"chain":[]' if form else "there are no messages yet") in both
    assert "never read" not in both
    assert "/inbox answer inb" in told.err or '"waiting_for"' in told.out


def test_an_answer_in_a_chat_resumes_its_turn(
    ekiden: Callable[..., Told],
) -> None:
    told = _chat(ekiden, ["refund please"], "--session", "chat9", "--json")
    lines = [json.loads(line) for line in told.out.splitlines()]
    waiting = next(line for line in lines if line["type"] == "waiting")
    item = waiting["waiting_for"][0]
    told = _chat(
        ekiden,
        [f"/inbox show {item['id']}", f"/inbox answer {item['id']} {item['options'][0]}"],
        "--continue",
    )
    assert f"{item['id']} answered" in told.out


def test_a_chat_at_a_server_continues_its_session(
    ekiden: Callable[..., Told],
) -> None:
    assert ekiden("chat", "--resume").code == 2
    assert ekiden("chat", "--session", "").code == 2
    assert ekiden("chat", "--session", "x", "--continue").code == 2
    told = _chat(ekiden, ["/resume"], "--session", "unknown", "--json")
    assert told.code == 5


def _chat(ekiden: Callable[..., Told], lines: list[str], *words: str) -> Told:
    """A chat whose standard input has these lines."""
    reading, writing = os.pipe()
    os.write(writing, "".join(f"{line}\n" for line in lines).encode())
    os.close(writing)
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        return ekiden("chat", *words)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)


def test_a_run_out_of_turns_can_be_resumed(ekiden: Callable[..., Told], url: str) -> None:
    told = ekiden("run", "hello there", "--session", "b1", "--max-turns", "1")
    assert told.code == 3
    assert f"continue with: ekiden session resume b1 --server {url}" in told.err
    told = ekiden("session", "resume", "b1", "--max-turns", "5", "--stream", "--json")
    assert told.code == 0
    *events, last = [json.loads(line) for line in told.out.splitlines()]
    assert last["result"]["output"] == "you said: hello there"
    assert all("event" in each or "delta" in each for each in events)
    assert "message" not in [each.get("event", {}).get("event_type") for each in events[:1]]


@pytest.mark.parametrize("option", [("--team", "a:b"), ("--model", "x:y"), ("--allow", "*")])
def test_options_decided_by_the_server_are_refused(
    ekiden: Callable[..., Told], option: tuple[str, str]
) -> None:
    for command in (["run", "hi"], ["session", "resume", "r1"]):
        told = ekiden(*command, *option)
        assert told.code == 2
        assert f"{option[0]} does not work with a server, and --server names one" in told.err
